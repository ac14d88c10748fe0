// SPDX-License-Identifier: Apache-2.0
// The rungs, and the arithmetic of their predictions.
#include "cli/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "cli/roofline.h"
#include "workload/reuse.h"

namespace hasten::cli {

std::vector<Rung> ladder_rungs(bool with_quantized_weights) {
  Rung rung = {.name = "static, contiguous",
               .batching = "static",
               .reserve_context = true,
               .chunked_prefill = false,
               .prefix_cache = false};
  std::vector<Rung> rungs = {rung};
  rung.name = "+ continuous batching";
  rung.batching = "continuous";
  rungs.push_back(rung);
  rung.name = "+ paging";
  rung.reserve_context = false;
  rungs.push_back(rung);
  rung.name = "+ chunked prefill";
  rung.chunked_prefill = true;
  rungs.push_back(rung);
  rung.name = "+ prefix reuse";
  rung.prefix_cache = true;
  rungs.push_back(rung);
  if (with_quantized_weights) {
    rung.name = "+ quantised weights";
    rung.quantized_weights = true;
    rungs.push_back(rung);
  }
  rung.name = "+ quantised KV";
  rung.quantized_kv = true;
  rungs.push_back(rung);
  return rungs;
}

WorkloadShape shape_of(const workload::Trace& trace) {
  WorkloadShape shape;
  if (trace.requests.empty()) return shape;
  const auto count = static_cast<double>(trace.requests.size());
  for (const workload::TraceRequest& request : trace.requests) {
    shape.prompt += static_cast<double>(request.prompt_tokens) / count;
    shape.output += static_cast<double>(request.output_tokens) / count;
    shape.longest_prompt = std::max(shape.longest_prompt, request.prompt_tokens);
    shape.outputs.push_back(request.output_tokens);
  }
  std::ranges::sort(shape.outputs);
  shape.reusable = workload::reusable_fraction(trace) * shape.prompt;
  return shape;
}

double expected_longest_over_mean(std::span<const int64_t> ascending, int64_t count) {
  if (ascending.empty() || count < 1) return 1;
  const auto size = static_cast<double>(ascending.size());
  double longest = 0;
  double mean = 0;
  double below = 0;  // the probability that all of `count` are below this length
  for (size_t i = 0; i < ascending.size(); ++i) {
    const auto length = static_cast<double>(ascending[i]);
    const double upto = std::pow(static_cast<double>(i + 1) / size, static_cast<double>(count));
    longest += length * (upto - below);
    mean += length / size;
    below = upto;
  }
  return mean > 0 ? longest / mean : 1;
}

namespace {

/// Sequences that run at a time: as many as memory and the batch hold.
int64_t concurrency_of(const RungSetting& setting, const WorkloadShape& shape) {
  const ModelInfo& model = setting.model;
  const double cache_tokens =
      static_cast<double>(model.num_kv_blocks) * static_cast<double>(setting.block_size);
  const double block_size = static_cast<double>(setting.block_size);
  const double tokens =
      setting.rung.reserve_context
          ? std::ceil(static_cast<double>(model.context) / block_size) * block_size
          : std::min(shape.prompt + shape.output / 2 + block_size / 2,
                     static_cast<double>(model.context));
  const auto fit = static_cast<int64_t>(cache_tokens / std::max(1.0, tokens));
  return std::clamp<int64_t>(fit, 1, model.max_batch);
}

std::string reason_of(const RungSetting& setting, const WorkloadShape& shape, int64_t concurrency) {
  const Rung& rung = setting.rung;
  const ModelInfo& model = setting.model;
  if (rung.quantized_kv)
    return fmt::format("{} for each token's keys and values: {} at a time",
                       size_text(model.kv_bytes_per_token), counted(concurrency, "sequence"));
  if (rung.quantized_weights)
    return fmt::format("{} of weights read in a step", size_text(model.bytes_per_token));
  if (rung.prefix_cache)
    return fmt::format("{:.1f} % of the prompt tokens came before (infinite cache)",
                       100 * shape.reusable / std::max(1.0, shape.prompt));
  if (rung.chunked_prefill)
    return fmt::format("a step has {} tokens at most, no longer a prompt of {}", model.step_tokens,
                       shape.longest_prompt);
  if (!rung.reserve_context)
    return fmt::format("blocks for the tokens there are: {} at a time",
                       counted(concurrency, "sequence"));
  if (rung.batching == "continuous")
    return fmt::format("the longest of {} answers is expected to be {:.2f} times the mean",
                       concurrency, expected_longest_over_mean(shape.outputs, concurrency));
  return fmt::format("memory for {} of {} tokens", counted(concurrency, "sequence"), model.context);
}

}  // namespace

Prediction predict(const RungSetting& setting, const WorkloadShape& shape) {
  const ModelInfo& model = setting.model;
  Prediction prediction;
  prediction.concurrency = concurrency_of(setting, shape);
  prediction.reason = reason_of(setting, shape, prediction.concurrency);
  double in_step = static_cast<double>(prediction.concurrency);
  if (setting.rung.batching == "static")
    in_step /= expected_longest_over_mean(shape.outputs, prediction.concurrency);
  const double computed = shape.prompt - (setting.rung.prefix_cache ? shape.reusable : 0);
  const int64_t batch = std::max<int64_t>(1, std::llround(in_step));
  const Limit prefill =
      prefill_limit(model, setting.ceilings, std::max<int64_t>(1, std::llround(computed)));
  const Limit decode =
      decode_limit(model, setting.ceilings, batch, std::llround(shape.prompt + shape.output / 2));
  // Prompts run in steps that read the weights anyway.
  const double seconds =
      computed * prefill.ops_per_token / peak_ops_per_second(model, setting.ceilings) +
      shape.output / decode.tokens_per_second;
  prediction.tokens_per_second = shape.output / std::max(seconds, 1e-12);
  return prediction;
}

}  // namespace hasten::cli
