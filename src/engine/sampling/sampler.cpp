// SPDX-License-Identifier: Apache-2.0
// The order of sampling: check, adjust, then the likeliest token or filters and a draw.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "engine/sampling/softmax.h"

namespace hasten::engine {
namespace {

/// What OpenAI's API reports for a token that cannot come; JSON has no infinity.
constexpr double kLeastLogprob = -9999.0;

/// Of logits as the model computed them. Throws for NaN and +inf.
void check(const ops::RowScan& scan, std::span<const float> logits) {
  if (scan.num_not_finite > 0)
    fail(ErrorCode::internal, "the model computed logits that are not finite: {} of {}",
         scan.num_not_finite, logits.size());
}

}  // namespace

Sampler::Sampler(int64_t vocab_size)
    : adjuster_(vocab_size),
      candidates_(vocab_size),
      raw_(static_cast<size_t>(vocab_size)),
      scratch_(static_cast<size_t>(vocab_size)) {
  top_ids_.reserve(static_cast<size_t>(vocab_size));
}

Sample Sampler::sample(const SampleInput& input) {
  check(input.scan, input.logits);
  auto likeliest = static_cast<size_t>(input.scan.likeliest);
  const float most = input.logits[likeliest];
  if (input.num_top_logprobs >= 0) std::ranges::copy(input.logits, raw_.begin());
  adjuster_.adjust(input.logits, input.sampling, input.prompt, input.generated, input.banned);
  if (input.logits[likeliest] != most || LogitAdjuster::may_raise(input.sampling))
    likeliest = static_cast<size_t>(ops::scan_row(input.logits).likeliest);
  if (input.logits[likeliest] == -std::numeric_limits<float>::infinity())
    fail(ErrorCode::invalid_argument, "no token is left to choose: all {} are ruled out",
         input.logits.size());

  Sample result;
  const Sampling& sampling = input.sampling;
  if (sampling.temperature == 0.0F) {
    result.token = static_cast<int32_t>(likeliest);
  } else {
    candidates_.assign(input.logits, sampling.top_k, sampling.temperature);
    candidates_.keep_typical(sampling.typical_p);
    candidates_.keep_top_p(sampling.top_p);
    candidates_.keep_min_p(sampling.min_p);
    result.token = candidates_.draw(
        uniform(input.seed, input.choice, static_cast<int64_t>(input.generated.size())));
  }
  if (input.num_top_logprobs >= 0)
    result.logprob = score(std::span(raw_).first(input.logits.size()), input.scan, result.token,
                           input.num_top_logprobs);
  return result;
}

TokenLogprob Sampler::score(std::span<const float> logits, const ops::RowScan& scan, int32_t token,
                            int32_t num_top) {
  check(scan, logits);
  const double log_sum = log_sum_exp(logits, scratch_);
  const auto probability = [&](int32_t id) {
    const double logprob = std::max(logits[static_cast<size_t>(id)] - log_sum, kLeastLogprob);
    return TokenProbability{.token = id, .logprob = static_cast<float>(logprob)};
  };
  TokenLogprob result;
  result.chosen = probability(token);
  select_top(logits, num_top, top_ids_);
  result.top.reserve(top_ids_.size());
  for (const int32_t id : top_ids_) result.top.push_back(probability(id));
  return result;
}

}  // namespace hasten::engine
