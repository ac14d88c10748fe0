// SPDX-License-Identifier: Apache-2.0
// Roofline arithmetic for prefill and decode.
#include "cli/roofline.h"

#include <algorithm>
#include <string_view>

namespace hasten::cli {
namespace {

/// The fastest arithmetic that can do the bulk of the weights: integer dot products for quantised
/// types; for bf16 whichever of bf16 and f32 is faster, since one is exact in the other.
double peak_ops_per_second(const ModelInfo& model, const Ceilings& ceilings) {
  const std::string_view main_type =
      std::string_view(model.weight_types).substr(0, model.weight_types.find(' '));
  if (main_type == "bf16") {
    return std::max(ceilings.bf16_flops_per_second, ceilings.f32_flops_per_second);
  }
  if (main_type == "f16" || main_type == "f32") return ceilings.f32_flops_per_second;
  return ceilings.int8_ops_per_second;
}

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

Limit prefill_limit(const ModelInfo& model, const Ceilings& ceilings, int64_t prompt) {
  const auto tokens = static_cast<double>(prompt);
  const double visible_keys = tokens * (tokens + 1) / 2;
  const double ops =
      tokens * static_cast<double>(model.ops_per_token - model.output_ops_per_token) +
      static_cast<double>(model.output_ops_per_token) +
      visible_keys * static_cast<double>(model.attention_ops_per_token_key);
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

}  // namespace hasten::cli
