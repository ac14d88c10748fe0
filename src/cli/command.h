// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: how they register, the flags they have in common, how they fail.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "hasten/engine.h"
#include "hasten/request.h"

namespace hasten::cli {

/// The command that the arguments chose; its value is the exit status: 0 done, 1 failed.
using Action = std::function<int()>;

/// Above all counts that a machine can hold, and safe to do arithmetic with.
inline constexpr int64_t kMaxCount = int64_t{1} << 40;

// Checks of values. Unlike CLI11's own they say what is wanted, and leave the help alone.
CLI::Validator whole_number(int64_t min, int64_t max = kMaxCount);
/// Finite; the engine knows the limits.
CLI::Validator number();
CLI::Validator number_within(double min, double max);

// One per file. Each adds its subcommand to `app`, which sets `action` when it was chosen.
void add_serve(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_perplexity(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_synth(CLI::App& app, Action& action);
void add_simulate(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

// Likewise, below `hasten bench`.
void add_bench_replay(CLI::App& bench, Action& action);
void add_bench_ladder(CLI::App& bench, Action& action);
void add_bench_serve(CLI::App& bench, Action& action);

/// Adds the positional MODEL and the flags that load it, those of scheduling included.
void add_engine_flags(CLI::App& command, EngineOptions& options);
/// Adds --ctx, --kv-cache, --max-batch and --step-tokens.
void add_size_flags(CLI::App& command, EngineOptions& options);
/// Adds these and the flags that say what runs when, and in which order.
void add_scheduling_flags(CLI::App& command, EngineOptions& options);
/// Adds the flags that choose tokens, and --max-tokens.
void add_sampling_flags(CLI::App& command, Request& request);

/// What a command needs of a model.
enum class ModelUse { weights, vocabulary };

/// Throws Error when `model` is neither empty nor a GGUF file nor a folder that may hold what `use`
/// needs, and says what to give. What else is wrong with it comes to light when it is read.
void check_model(const std::filesystem::path& model, ModelUse use = ModelUse::weights);

/// Whether `file` starts with GGUF's magic, or cannot be read: opening it will say why.
bool is_gguf(const std::filesystem::path& file);

/// Sets a progress bar on standard error if that is a terminal.
void show_progress(EngineOptions& options);

}  // namespace hasten::cli
