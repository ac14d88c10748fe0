// SPDX-License-Identifier: Apache-2.0
// The flags that several subcommands share, and the checks of their values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/progress.h"

namespace hasten::cli {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Makes a number of bytes of "4GiB", "1.5 gib", "512M" or "1000". Less than one is refused,
/// because 0 leaves the choice to the engine.
CLI::Validator byte_size() {
  const auto read = [](std::string& text) -> std::string {
    constexpr std::string_view kPrefixes = "kmgt";
    constexpr double kMost = 0x1p60;  // of memory, that is
    const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    const auto count = parse_number<double>(text.substr(0, end));
    std::string unit;
    for (const char c : text.substr(std::min(text.find_first_not_of(' ', end), text.size())))
      unit += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    const size_t prefix = kPrefixes.find(unit.empty() ? 'b' : unit[0]);
    const int power = prefix == std::string_view::npos ? 0 : static_cast<int>(prefix) + 1;
    const std::string_view rest = std::string_view(unit).substr(power > 0 ? 1 : 0);
    if (!count || !(rest.empty() || rest == "b" || (power > 0 && rest == "ib"))) {
      return fmt::format(
          "{} is no size: write a number of bytes, or one with KiB, MiB, GiB or TiB behind it",
          text);
    }
    const double bytes = std::ldexp(*count, 10 * power);
    if (!(bytes <= kMost)) return fmt::format("{} is too large", text);
    if (bytes > 0 && bytes < 1) return fmt::format("{} is less than a byte", text);
    text = fmt::format("{}", static_cast<int64_t>(bytes));
    return "";
  };
  return {read, ""};
}

/// One line of help for each choice.
std::string list_choices(const std::vector<NamedChoice>& choices) {
  std::string lines;
  for (const NamedChoice& choice : choices)
    lines += fmt::format("\n  {}: {}", choice.name, choice.summary);
  return lines + "\n";
}

/// Whether a folder with this file may be a tokenizer's: one of those that reading it looks for.
bool is_vocabulary(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 6> kNames = {"tokenizer.json",  "tekken.json",
                                                      "tokenizer.model", "vocab.json",
                                                      "vocab.txt",       "tiktoken.model"};
  const std::string name = file.filename().string();
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         name.ends_with(".tiktoken") || (name.starts_with("rwkv_vocab_") && name.ends_with(".txt"));
}

}  // namespace

CLI::Validator whole_number(int64_t min, int64_t max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    const auto value = parse_number<int64_t>(text);
    if (value && *value >= min && *value <= max) return "";
    if (max < kMaxCount) return fmt::format("{} is no whole number from {} to {}", text, min, max);
    if (value && *value > max) return fmt::format("{} is too large", text);
    return fmt::format("{} is no whole number from {} on", text, min);
  };
  return {check, ""};
}

CLI::Validator number() {
  const auto check = [](const std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    return value && std::isfinite(*value) ? "" : fmt::format("{} is no number", text);
  };
  return {check, ""};
}

CLI::Validator number_within(double min, double max) {
  const auto check = [=](const std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    if (value && *value >= min && *value <= max) return "";
    return fmt::format("{} is no number from {} to {}", text, min, max);
  };
  return {check, ""};
}

bool is_gguf(const std::filesystem::path& file) {
  std::array<char, 4> magic{};
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(magic.data(), magic.size())) return !stream.eof();
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

void check_model(const std::filesystem::path& model, ModelUse use) {
  if (model.empty()) return;
  std::error_code error;
  const std::string name = model.string();
  const bool weights = use == ModelUse::weights;
  const std::string_view wanted =
      weights ? "a MODEL is a .gguf file or a Hugging Face folder"
              : "a MODEL is a .gguf file, a Hugging Face folder or a folder of tokenizer files";
  if (!std::filesystem::exists(model, error)) {
    if (error) return;  // such as a folder that must not be read: opening says why
    fail(ErrorCode::not_found, "there is no {}: {}; without one, the built-in model is used", name,
         wanted);
  }
  if (!std::filesystem::is_directory(model, error)) {
    const bool is_file = std::filesystem::is_regular_file(model, error);
    if (!is_file || model.extension() == ".safetensors" || is_gguf(model)) return;
    fail(ErrorCode::invalid_data, "{} is not a GGUF file: {}", name, wanted);
  }
  if (std::filesystem::exists(model / "config.json", error)) return;
  std::string gguf;
  for (const auto& entry : std::filesystem::directory_iterator(model, error)) {
    if (!weights && is_vocabulary(entry.path())) return;
    if (entry.path().extension() == ".gguf") gguf = entry.path().string();
  }
  if (!gguf.empty()) {
    fail(ErrorCode::invalid_argument, "{} is a folder of GGUF files: give one of them, such as {}",
         name, gguf);
  }
  if (!weights) return;
  fail(ErrorCode::invalid_argument, "{} is a folder without a config.json: {}", name, wanted);
}

void add_engine_flags(CLI::App& command, EngineOptions& options) {
  command
      .add_option("model", options.model,
                  "A .gguf file (the first shard of a split one) or a Hugging Face folder with "
                  "safetensors. Left out: the small demonstration model inside this program")
      ->type_name("MODEL");
  command
      .add_option("--threads", options.threads,
                  "CPU workers (default, and 0: one per physical core)")
      ->check(whole_number(0, 1024))
      ->type_name("N");
  command
      .add_option("--devices", options.devices,
                  "auto, cpu, or reference (slow and exact: what every kernel is tested against)")
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option("--kv-type", options.kv_type,
                  "How keys and values are kept: auto, f32, f16, bf16, fp8, q8_0 or q4_0; or keys "
                  "and values apart, as in q8_0/q4_0")
      ->capture_default_str()
      ->type_name("TYPE");
  command.add_option("--block-size", options.block_size, "Tokens in a cache block")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 20))
      ->type_name("N");
  command
      .add_option(
          "--kv-disk", options.kv_disk,
          "A folder of this process alone, for what the prefix cache has no room for; it is "
          "found there again after a restart (default: none)")
      ->type_name("DIR");
  command
      .add_option("--kv-disk-bytes", options.kv_disk_bytes,
                  "What that folder may take, as --kv-cache (default: 8GiB)")
      ->transform(byte_size())
      ->type_name("SIZE");
  add_scheduling_flags(command, options);
}

void add_size_flags(CLI::App& command, EngineOptions& options) {
  command
      .add_option(
          "--ctx", options.context,
          "Tokens that one conversation may reach (default, and 0: the model's own, as memory "
          "allows)")
      ->check(whole_number(0))
      ->type_name("N");
  command
      .add_option("--kv-cache", options.kv_cache_bytes,
                  "Memory for keys and values: bytes, or with B, KiB, MiB, GiB or TiB behind the "
                  "number (default: by arithmetic)")
      ->transform(byte_size())
      ->type_name("SIZE");
  command
      .add_option("--max-batch", options.max_batch,
                  "Sequences that run at the same time (default: chosen for the device)")
      ->check(whole_number(0, 4096))
      ->type_name("N");
  command
      .add_option("--step-tokens", options.step_tokens,
                  "Tokens in one step at most; prompts are fed in chunks of it (default: chosen "
                  "for the device)")
      ->check(whole_number(0))
      ->type_name("N");
}

void add_scheduling_flags(CLI::App& command, EngineOptions& options) {
  add_size_flags(command, options);
  command.add_flag_callback(
      "--no-prefix-cache", [&options] { options.prefix_cache = false; },
      "Compute every prompt anew, even where an earlier one began alike");
  command.add_flag_callback(
      "--no-chunked-prefill", [&options] { options.chunked_prefill = false; },
      "Run each prompt whole in one step, which the decodes beside it wait for; to compare with");
  command.add_flag("--kv-reserve", options.reserve_context,
                   "Keep memory for --ctx tokens for each sequence, as before there was paging; to "
                   "compare with");
  command
      .add_option_function<int64_t>(
          "--target-tbt-ms", [&options](int64_t ms) { options.target_tbt_us = ms * 1000; },
          "Milliseconds between the tokens of an answer that shall be held while others' prompts "
          "are read, by shorter chunks of them (default: none; most tokens per second)")
      ->check(whole_number(1, 1'000'000))
      ->type_name("MS");
  command
      .add_option("--batching", options.batching,
                  "When requests join those that run:" + list_choices(batching_choices()))
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option("--preferred-batch", options.preferred_batch,
                  "Requests with which a dynamic batch starts at once (default: --max-batch)")
      ->check(whole_number(0, 4096))
      ->type_name("N");
  command
      .add_option_function<int64_t>(
          "--batch-wait-ms", [&options](int64_t ms) { options.batch_wait_us = ms * 1000; },
          "How long the first request of a dynamic batch waits for others (default: 100)")
      ->check(whole_number(0, 60'000))
      ->type_name("MS");
  command
      .add_option("--policy", options.policy,
                  "Order of the queue:" + list_choices(scheduling_policies()))
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option_function<int64_t>(
          "--aging", [&options](int64_t seconds) { options.aging_us = seconds * 1'000'000; },
          "Seconds of waiting that make a request one class more urgent, so that none waits for "
          "ever (default: 60)")
      ->check(whole_number(1, 1'000'000))
      ->type_name("S");
  command
      .add_option("--held-share", options.held_share,
                  "Part of the cache that may be held for the next calls of programs (requests "
                  "with a program_id) that pause; it gives way to whatever runs")
      ->capture_default_str()
      ->check(number_within(0, 1))
      ->type_name("F");
  command
      .add_option("--length-predictor", options.length_predictor,
                  "How long an answer is taken to become where the policy goes by it:" +
                      list_choices(length_predictors()))
      ->capture_default_str()
      ->type_name("NAME");
}

void add_sampling_flags(CLI::App& command, Request& request) {
  Sampling& sampling = request.sampling;
  command
      .add_option("-n,--max-tokens", request.max_tokens,
                  "Tokens to generate at most (default: until the answer or the context ends)")
      ->check(whole_number(1))
      ->type_name("N");
  command
      .add_option("--temperature", sampling.temperature,
                  "0: always the likeliest token; higher: more surprising")
      ->capture_default_str()
      ->check(number())
      ->type_name("T");
  command.add_option("--top-k", sampling.top_k, "Only the K likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, INT32_MAX))
      ->type_name("K");
  command.add_option("--top-p", sampling.top_p, "Only the likeliest tokens that together reach P")
      ->capture_default_str()
      ->check(number())
      ->type_name("P");
  command
      .add_option("--min-p", sampling.min_p, "Only tokens at least P times as likely as the best")
      ->capture_default_str()
      ->check(number())
      ->type_name("P");
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1: tokens seen before become less likely")
      ->capture_default_str()
      ->check(number())
      ->type_name("R");
  command
      .add_option_function<uint64_t>(
          "--seed", [&sampling](uint64_t seed) { sampling.seed = seed; },
          "The same seed gives the same text (default: a new one each time)")
      ->check(whole_number(0, INT64_MAX))
      ->type_name("N");
  command.add_option("--stop", request.stop, "Text that ends the answer; may be repeated")
      ->allow_extra_args(false)  // or else it would take MODEL, too
      ->type_name("TEXT");
}

void show_progress(EngineOptions& options) {
  auto bar = std::make_shared<ProgressBar>();
  options.progress = [bar](std::string_view stage, double fraction) { bar->show(stage, fraction); };
}

}  // namespace hasten::cli
