// SPDX-License-Identifier: Apache-2.0
// The flags that several subcommands share, and the checks of their values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "hasten/tokenizer.h"

namespace hasten::cli {
namespace {

/// One line of help for each choice, and the default.
std::string list_choices(const std::vector<NamedChoice>& choices) {
  std::string lines;
  for (const NamedChoice& choice : choices)
    lines += fmt::format("\n  {}: {}", choice.name, choice.summary);
  return lines + "\n (default: {})";
}

/// What a command that needs this takes.
std::string_view wanted_of(ModelUse use) {
  if (use == ModelUse::vocabulary) {
    return "a MODEL is a .gguf file, a Hugging Face folder, or tokenizer files: a folder of "
           "them or one, such as tokenizer.json";
  }
  if (use == ModelUse::either) {
    return "inspect takes a .gguf file, a Hugging Face folder, tokenizer files (a folder of "
           "them, or one by its usual name, such as tokenizer.json), and chat templates (a "
           ".jinja file, or a folder with chat_template.json or tokenizer_config.json)";
  }
  return "a MODEL is a .gguf file or a Hugging Face folder";
}

}  // namespace

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
  const bool weights = use == ModelUse::weights || use == ModelUse::weights_and_prompt;
  const std::string_view wanted = wanted_of(use);
  if (!std::filesystem::exists(model, error)) {
    if (error) return;  // such as a folder that must not be read: opening says why
    fail(ErrorCode::not_found, "there is no {}: {}; without one, the built-in model is used{}",
         name, wanted, use == ModelUse::weights_and_prompt ? "; a prompt comes after -p" : "");
  }
  if (!std::filesystem::is_directory(model, error)) {
    const bool is_file = std::filesystem::is_regular_file(model, error);
    // Of a file that is named so, opening says what else it is.
    const bool says_so = model.extension() == ".safetensors" || model.extension() == ".gguf";
    if (!is_file || says_so || is_gguf(model)) return;
    const bool is_vocabulary = is_vocabulary_file(model);
    const bool is_template = is_template_file(model);
    if ((!weights && is_vocabulary) || (use == ModelUse::either && is_template)) return;
    if (is_vocabulary || is_template) {
      fail(ErrorCode::invalid_argument, "{} is a {} alone, without {}: {}{}", name,
           is_vocabulary ? "tokenizer's file" : "chat template",
           weights ? "the weights of a model" : "a tokenizer", wanted,
           is_vocabulary ? "; tokenize, detokenize and inspect take it as it is"
                         : "; inspect takes it as it is");
    }
    fail(ErrorCode::invalid_data, "{} is not a GGUF file: {}", name, wanted);
  }
  if (std::filesystem::exists(model / "config.json", error)) return;
  std::string gguf;
  const bool has_vocabulary = has_vocabulary_file(model);
  for (const auto& entry : std::filesystem::directory_iterator(model, error)) {
    if (entry.path().extension() == ".gguf") gguf = entry.path().string();
  }
  if (has_vocabulary && use == ModelUse::vocabulary) return;
  if (!gguf.empty()) {
    fail(ErrorCode::invalid_argument, "{} is a folder of GGUF files: give one of them, such as {}",
         name, gguf);
  }
  if (use == ModelUse::vocabulary || (use == ModelUse::either && has_vocabulary)) return;
  const bool has_template = has_template_file(model);
  if (use == ModelUse::either && has_template) return;
  if (has_vocabulary || has_template) {
    fail(
        ErrorCode::invalid_argument,
        "{} holds {} and no weights: for a model, config.json and *.safetensors are missing there; "
        "fetch them, too, or give a .gguf file; {} as it is",
        name, has_vocabulary ? "a tokenizer" : "a chat template or its settings",
        has_vocabulary ? "tokenize, detokenize and inspect take it" : "inspect takes it");
  }
  fail(ErrorCode::invalid_argument, "{} is a folder without a config.json: {}", name, wanted);
}

Tokenizer open_tokenizer(const std::string& model) {
  check_model(model, ModelUse::vocabulary);
  Tokenizer tokenizer(model);
  for (const std::string& doubt : tokenizer.info().doubts) {
    log::warn("the tokenizer of {}: {}", safe_text(tokenizer.info().file), safe_text(doubt));
  }
  return tokenizer;
}

void add_engine_flags(Command command, EngineOptions& options) {
  command.option("model MODEL", options.model,
                 "A .gguf file (the first shard of a split one) or a Hugging Face folder with "
                 "safetensors. Left out: the small demonstration model inside this program");
  add_threads_flag(command, options.threads);
  command.option("--devices NAME", options.devices,
                 "auto, cpu, or reference (slow and exact: what every kernel is tested against) "
                 "(default: {})");
  command.flag_off("--no-repack", options.repack,
                   "Use weights from the mapped file as they are: starts at once and takes the "
                   "memory of the file alone, but every step is slower, and the text the same");
  command.flag(
      "--pretouch", options.pretouch,
      "Bring in all memory of steps and for keys and values while loading: later no token waits "
      "for the system to clear a page, and all of it is taken from the start");
  command.option("--kv-type TYPE", options.kv_type,
                 "How keys and values are kept: auto, f32, f16, bf16, fp8, q8_0 or q4_0; or keys "
                 "and values apart, as in q8_0/q4_0 (default: {})");
  command.option("--block-size N", options.block_size, whole_number(1, 1024),
                 "Tokens in a cache block, a power of two from 1 to 1024; with fewer than 16, "
                 "attention takes longer (default: {})");
  command.option("--kv-disk DIR", options.kv_disk, not_empty(),
                 "A folder of this process alone, for what the prefix cache has no room for; it is "
                 "found there again after a restart (default: none)");
  command.option("--kv-disk-bytes SIZE", options.kv_disk_bytes, byte_size(),
                 "What that folder may take, written as --kv-cache (default, and 0: 8GiB)");
  add_scheduling_flags(command, options);
}

void add_template_flag(Command command, EngineOptions& options) {
  command.option("--chat-template FILE", options.chat_template, not_empty(),
                 "A file with the Jinja template that makes prompts of chats, tools included "
                 "(default: the model's own; 'hasten inspect FILE.jinja' tells what one can do)");
}

void add_threads_flag(Command command, int32_t& threads) {
  command.option("--threads N", threads, whole_number(0, 1024),
                 "CPU workers (default, and 0: one per physical core)");
}

void add_queue_flag(Command command, EngineOptions& options) {
  command.option("--max-queue N", options.max_queue, whole_number(0),
                 "Requests that may wait; more are refused (default, and 0: no limit)");
}

void add_size_flags(Command command, EngineOptions& options, const SizeDefaults& defaults) {
  command.option(
      "--ctx N", options.context, whole_number(0),
      fmt::format("Tokens that one conversation may reach (default, and 0: {})", defaults.context));
  command.option(
      "--kv-cache SIZE", options.kv_cache_bytes, byte_size(),
      fmt::format("Memory for keys and values: bytes, or with B, KiB, MiB, GiB or TiB "
                  "behind the number (K and KB mean KiB, and so on) (default, and 0: {})",
                  defaults.kv_cache));
  command.option("--max-batch N", options.max_batch, whole_number(0, 4096),
                 "Sequences that run at the same time (default, and 0: chosen for the device)");
  command.option("--step-tokens N", options.step_tokens, whole_number(0),
                 "Tokens in one step at most; prompts are fed in chunks of it (default, and 0: "
                 "chosen for the device)");
}

void add_scheduling_flags(Command command, EngineOptions& options, const SizeDefaults& defaults) {
  add_size_flags(command, options, defaults);
  command.flag_off("--no-prefix-cache", options.prefix_cache,
                   "Compute every prompt anew, even where an earlier one began alike");
  command.flag_off(
      "--no-chunked-prefill", options.chunked_prefill,
      "Run each prompt whole in one step, which the decodes beside it wait for; to compare with");
  command.flag("--kv-reserve", options.reserve_context,
               "Keep memory for --ctx tokens for each sequence, as before there was paging; to "
               "compare with");
  command.option(
      "--target-tbt-ms MS", options.target_tbt_us, milliseconds(1, 1'000'000),
      "Milliseconds between the tokens of an answer that shall be held while others' prompts "
      "are read, by shorter chunks of them (default: none; most tokens per second)");
  command.option("--batching NAME", options.batching,
                 "When requests join those that run:" + list_choices(batching_choices()));
  command.option(
      "--preferred-batch N", options.preferred_batch, whole_number(0, 4096),
      "Requests with which a dynamic batch starts at once (default, and 0: --max-batch)");
  command.option("--batch-wait-ms MS", options.batch_wait_us, milliseconds(0, 60'000),
                 "How long the first request of a dynamic batch waits for others (default: 100)");
  command.option("--policy NAME", options.policy,
                 "Order of the queue:" + list_choices(scheduling_policies()));
  command.option(
      "--aging S", options.aging_us, seconds(1, 1'000'000),
      "Seconds of waiting that make a request one class more urgent, so that none waits for "
      "ever (default: 60)");
  command.option("--held-share F", options.held_share, number_within(0, 1),
                 "Part of the cache that may be held for the next calls of programs (requests "
                 "with a program_id) that pause; it gives way to whatever runs (default: {})");
  command.option("--tenant-cache-share F", options.tenant_cache_share, number_within(0.01, 1),
                 "Part of the cache up to which what a tenant (a key) left there is safe from "
                 "others; beyond it its own goes first; alone it may have all; 1: what was used "
                 "longest ago goes first, whosever it is (default: {})");
  command.option("--length-predictor NAME", options.length_predictor,
                 "How long an answer is taken to become where the policy goes by it:" +
                     list_choices(length_predictors()));
}

void add_sampling_flags(Command command, Request& request) {
  Sampling& sampling = request.sampling;
  command.option("-n,--max-tokens N", request.max_tokens, whole_number(1),
                 "Tokens to generate at most (default: until the answer or the context ends)");
  command.option("--temperature T", sampling.temperature, number(),
                 "0: always the likeliest token; higher: more surprising (default: {})");
  command.option("--top-k K", sampling.top_k, whole_number(0, INT32_MAX),
                 "Only the K likeliest tokens; 0: all (default: {})");
  command.option("--top-p P", sampling.top_p, number(),
                 "Only the likeliest tokens that together reach P (default: {})");
  command.option("--min-p P", sampling.min_p, number(),
                 "Only tokens at least P times as likely as the best (default: {})");
  command.option("--repetition-penalty R", sampling.repetition_penalty, number(),
                 "Above 1: tokens seen before become less likely (default: {})");
  command.option("--seed N", sampling.seed, whole_number(0, INT64_MAX),
                 "The same seed gives the same text (default: a new one each time)");
  command.option("--stop TEXT", request.stop, "Text that ends the answer; may be repeated");
}

void show_progress(EngineOptions& options) {
  auto bar = std::make_shared<ProgressBar>();
  options.progress = [bar](std::string_view stage, double fraction) { bar->show(stage, fraction); };
}

}  // namespace hasten::cli
