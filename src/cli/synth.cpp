// SPDX-License-Identifier: Apache-2.0
// hasten synth: writes a model of a real shape with random weights.
#include "weights/synth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/words.h"

namespace hasten::cli {
namespace {

struct SynthCommand {
  weights::SynthOptions options;
  std::string type = "q4_0";
  bool json = false;
};

int synth(SynthCommand& command) {
  command.options.type = weights::synth_type(command.type);
  const std::filesystem::path folder = std::filesystem::absolute(command.options.out).parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail(ErrorCode::not_found, "there is no folder {} to write {} to", folder.string(),
         command.options.out.filename().string());
  }
  // An empty file is what mktemp makes; reading of a pipe would wait.
  if (std::filesystem::is_regular_file(command.options.out, ignored) &&
      !std::filesystem::is_empty(command.options.out, ignored) && !is_gguf(command.options.out)) {
    fail(ErrorCode::invalid_argument,
         "{} is there and is not a GGUF file; it is not overwritten: choose another name, or "
         "remove it first",
         command.options.out.string());
  }
  ProgressBar bar;
  command.options.progress = [&](int64_t done, int64_t total) {
    bar.show("writing " + command.options.out.filename().string(),
             static_cast<double>(done) / static_cast<double>(total));
  };
  const weights::SynthResult result = weights::synth(command.options);
  bar.show("", 1.0);
  if (command.json) {
    json::Object types;
    for (const auto& [dtype, count] : result.tensors_of_type) types[info(dtype).name] = count;
    fmt::print("{}\n", json_text(json::Object{{"path", command.options.out.string()},
                                              {"parameters", result.num_parameters},
                                              {"bytes", result.num_bytes},
                                              {"tensors_of_type", std::move(types)}}));
    return 0;
  }
  fmt::print("{}: {} parameters, {}\n", command.options.out.string(),
             count_text(result.num_parameters), size_text(result.num_bytes));
  for (const auto& [dtype, count] : result.tensors_of_type) {
    fmt::print("  {:<8} {}\n", info(dtype).name, counted(count, "tensor"));
  }
  return 0;
}

}  // namespace

void add_synth(Command program) {
  const Command command =
      program.add("synth", "Write a model of a real shape with random weights, to measure");
  auto options = std::make_shared<SynthCommand>();
  command.option("out OUT.gguf", options->options.out, "The GGUF file to write").required();
  command
      .option("--shape NAME", options->options.shape,
              fmt::format("One of: {}", fmt::join(weights::synth_shapes(), " ")))
      .required();
  command.option("--type TYPE", options->type,
                 "Type of the weights, such as bf16, q8_0 or q4_k; rows that are no whole blocks "
                 "of it fall back to a smaller block (default: {})");
  command.option("--seed N", options->options.seed, whole_number(0, INT64_MAX),
                 "The same seed writes the same bytes (default: {})");
  command.flag("--json", options->json, "Print what was written as JSON");
  command.run([options] { return synth(*options); });
}

}  // namespace hasten::cli
