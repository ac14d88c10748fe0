// SPDX-License-Identifier: Apache-2.0
// Roofline arithmetic for prefill and decode.
#include "cli/roofline.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hasten::cli {
namespace {

/// The limit of `tokens` tokens that together need so many bytes and operations.
Limit limit_of(double tokens, double bytes, double ops, const ModelInfo& model,
               const Ceilings& ceilings) {
  const double memory_seconds = bytes / ceilings.read_bytes_per_second;
  const double compute_seconds = ops / peak_ops_per_second(model, ceilings);
  return {.tokens_per_second = tokens / std::max(memory_seconds, compute_seconds),
          .bytes_per_token = bytes / tokens,
          .ops_per_token = ops / tokens,
          .memory_bound = memory_seconds > compute_seconds};
}

}  // namespace

// Integer products for quantised types, most of whose codes are multiplied as fewer than eight bits
// (those of iq4 as levels of eight); for bf16 whichever of bf16 and f32 is faster, since one is
// exact in the other.
double peak_ops_per_second(const ModelInfo& model, const Ceilings& ceilings) {
  const std::string_view main_type =
      std::string_view(model.weight_types).substr(0, model.weight_types.find(' '));
  if (main_type == "bf16") {
    return std::max(ceilings.bf16_flops_per_second, ceilings.f32_flops_per_second);
  }
  if (main_type == "f16" || main_type == "f32") return ceilings.f32_flops_per_second;
  const bool eight_bits = main_type == "q8_0" || main_type.starts_with("iq4");
  return eight_bits ? ceilings.int8_ops_per_second : ceilings.int4_ops_per_second;
}

Limit prefill_limit(const ModelInfo& model, const Ceilings& ceilings, int64_t prompt) {
  const auto tokens = static_cast<double>(prompt);
  const double visible_keys = tokens * (tokens + 1) / 2;
  const auto attention = static_cast<double>(model.attention_ops_per_token_key);
  const double last_attention =
      model.num_layers > 0 ? attention / static_cast<double>(model.num_layers) : 0;
  const auto once =
      static_cast<double>(model.output_ops_per_token + model.last_layer_ops_per_token);
  const double ops = tokens * (static_cast<double>(model.ops_per_token) - once) + once +
                     visible_keys * (attention - last_attention) + tokens * last_attention;
  return limit_of(tokens, static_cast<double>(model.bytes_per_token), ops, model, ceilings);
}

Limit decode_limit(const ModelInfo& model, const Ceilings& ceilings, int64_t batch,
                   int64_t context) {
  const auto tokens = static_cast<double>(batch);
  const double keys = tokens * static_cast<double>(context);
  const double bytes = static_cast<double>(model.bytes_per_token) +
                       keys * static_cast<double>(model.kv_bytes_per_token);
  const double ops = tokens * static_cast<double>(model.ops_per_token) +
                     keys * static_cast<double>(model.attention_ops_per_token_key);
  return limit_of(tokens, bytes, ops, model, ceilings);
}

workload::BestCase workload_limit(const ModelInfo& model, const Ceilings& ceilings,
                                  const workload::Statistics& statistics, int64_t concurrency) {
  if (statistics.num_finished() == 0) return {};
  const double prompt = statistics.mean_prompt_tokens();
  const double computed = std::max(1.0, prompt - statistics.mean_cached_tokens());
  const double output = statistics.mean_output_tokens();
  const Limit prefill = prefill_limit(model, ceilings, std::llround(computed));
  const auto context = std::llround(prompt + output / 2);
  const Limit alone = decode_limit(model, ceilings, 1, context);
  const Limit together = decode_limit(model, ceilings, std::max<int64_t>(1, concurrency), context);
  // The first token comes with the prompt. A step may mix both, so that one part reads while the
  // other computes: the slower of all bytes and all operations counts.
  const double later = std::max(0.0, output - 1);
  const double ops = computed * prefill.ops_per_token + later * together.ops_per_token;
  const double bytes = later * together.bytes_per_token;
  const Limit all = limit_of(output, bytes, ops, model, ceilings);
  return {.ttft_ms = 1e3 * computed / prefill.tokens_per_second,
          .tpot_ms = 1e3 / alone.tokens_per_second,
          .output_tokens_per_second = all.tokens_per_second};
}

}  // namespace hasten::cli
