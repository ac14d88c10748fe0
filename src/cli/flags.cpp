// SPDX-License-Identifier: Apache-2.0
// The flags that several subcommands share.
#include "cli/command.h"
#include "cli/progress.h"

namespace hasten::cli {

void add_engine_flags(CLI::App& command, EngineOptions& options) {
  command
      .add_option("model", options.model,
                  "A .gguf file (the first shard of a split one) or a Hugging Face folder with "
                  "safetensors. Left out: the small demonstration model inside this program")
      ->type_name("MODEL");
  command.add_option("--threads", options.threads, "CPU workers (default: one per physical core)")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  command
      .add_option("--ctx", options.context,
                  "Tokens that one conversation may reach (default: the model's own, as memory "
                  "allows)")
      ->check(kCount)
      ->type_name("N");
  command
      .add_option("--devices", options.devices,
                  "auto, cpu, or reference (slow and exact: what every kernel is tested against)")
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--kv-type", options.kv_type, "Keys and values: auto, f32, f16 or bf16")
      ->capture_default_str()
      ->type_name("TYPE");
  command
      .add_option("--kv-cache", options.kv_cache_bytes,
                  "Memory for keys and values, such as 4GiB (default: by arithmetic)")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  command.add_option("--block-size", options.block_size, "Tokens in a cache block")
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--max-batch", options.max_batch,
                  "Sequences that run at the same time (default: chosen for the device)")
      ->check(CLI::Range(0, 4096))
      ->type_name("N");
  command
      .add_option("--step-tokens", options.step_tokens,
                  "Tokens in one step at most; prompts are fed in chunks of it (default: chosen "
                  "for the device)")
      ->check(kCount)
      ->type_name("N");
  command.add_option("--policy", options.policy, "Order of the queue: fcfs")
      ->capture_default_str()
      ->type_name("NAME");
}

void add_sampling_flags(CLI::App& command, Request& request) {
  Sampling& sampling = request.sampling;
  command
      .add_option("-n,--max-tokens", request.max_tokens,
                  "Tokens to generate at most (default: until the answer or the context ends)")
      ->check(kCount)
      ->type_name("N");
  command
      .add_option("--temperature", sampling.temperature,
                  "0: always the likeliest token; higher: more surprising")
      ->capture_default_str()
      ->type_name("T");
  command.add_option("--top-k", sampling.top_k, "Only the K likeliest tokens; 0: all")
      ->capture_default_str()
      ->type_name("K");
  command.add_option("--top-p", sampling.top_p, "Only the likeliest tokens that together reach P")
      ->capture_default_str()
      ->type_name("P");
  command
      .add_option("--min-p", sampling.min_p, "Only tokens at least P times as likely as the best")
      ->capture_default_str()
      ->type_name("P");
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1: tokens seen before become less likely")
      ->capture_default_str()
      ->type_name("R");
  command
      .add_option_function<uint64_t>(
          "--seed", [&sampling](uint64_t seed) { sampling.seed = seed; },
          "The same seed gives the same text (default: a new one each time)")
      ->type_name("N");
  command.add_option("--stop", request.stop, "Text that ends the answer; may be repeated")
      ->type_name("TEXT");
}

void show_progress(EngineOptions& options) {
  auto bar = std::make_shared<ProgressBar>();
  options.progress = [bar](std::string_view stage, double fraction) { bar->show(stage, fraction); };
}

}  // namespace hasten::cli
