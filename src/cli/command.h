// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: how they register, the flags they have in common, how they fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/checks.h"
#include "cli/options.h"
#include "hasten/engine.h"
#include "hasten/request.h"
#include "hasten/tokenizer.h"

namespace hasten::cli {

// One per file. Each adds its subcommand to `program`.
void add_serve(Command program);
void add_run(Command program);
void add_bench(Command program);
void add_perplexity(Command program);
void add_tokenize(Command program);
void add_detokenize(Command program);
void add_inspect(Command program);
void add_synth(Command program);
void add_simulate(Command program);
void add_doctor(Command program);

// Likewise, below `hasten bench`.
void add_bench_replay(Command bench);
void add_bench_ladder(Command bench);
void add_bench_serve(Command bench);
void add_bench_load(Command bench);

/// Adds the positional MODEL and the flags that load it, those of scheduling included.
void add_engine_flags(Command command, EngineOptions& options);
/// What --ctx and --kv-cache are where they are left out.
struct SizeDefaults {
  std::string context = "the model's own, as memory allows";
  std::string kv_cache = "by arithmetic";
};
/// Adds --ctx, --kv-cache, --max-batch and --step-tokens.
void add_size_flags(Command command, EngineOptions& options, const SizeDefaults& defaults = {});
/// Adds these and the flags that say what runs when, and in which order.
void add_scheduling_flags(Command command, EngineOptions& options,
                          const SizeDefaults& defaults = {});
/// Adds --chat-template.
void add_template_flag(Command command, EngineOptions& options);
/// Adds --threads of an engine.
void add_threads_flag(Command command, int32_t& threads);
/// Adds --max-queue of an engine that serves nobody else.
void add_queue_flag(Command command, EngineOptions& options);
/// Adds the flags that choose tokens, and --max-tokens.
void add_sampling_flags(Command command, Request& request);

/// What a command needs of a model: its weights, for a prompt behind -p or not, its vocabulary, or
/// any of its files, as inspect does.
enum class ModelUse { weights, weights_and_prompt, vocabulary, either };

/// Throws Error when `model` is neither empty nor a GGUF file nor a folder that may hold what `use`
/// needs, and says what to give. What else is wrong with it comes to light when it is read.
void check_model(const std::filesystem::path& model, ModelUse use = ModelUse::weights);

/// Opens what a model's vocabulary is read from, and says on standard error what is doubtful of it.
/// Throws as check_model and Tokenizer.
Tokenizer open_tokenizer(const std::string& model);

/// Whether `file` starts with GGUF's magic, or cannot be read: opening it will say why.
bool is_gguf(const std::filesystem::path& file);

/// Sets a progress bar on standard error if that is a terminal.
void show_progress(EngineOptions& options);

}  // namespace hasten::cli
