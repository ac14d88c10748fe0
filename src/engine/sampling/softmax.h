// SPDX-License-Identifier: Apache-2.0
// Exponentials, log probabilities and the likeliest tokens of a row of logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hasten::engine {

/// The largest of `values`, none of which is NaN; -inf for none.
float largest(std::span<const float> values);

/// The sum, in an order that is fixed but not from left to right: additions need not wait for each
/// other.
double sum(std::span<const float> values);

/// x = e^x for each x <= 0; below -87 exactly 0. Relative error under 2e-7.
void exp_in_place(std::span<float> values);

/// log(sum(e^logit)) of logits that are finite or -inf; 0 when all are -inf. `scratch` has as many
/// elements as `logits`.
double log_sum_exp(std::span<const float> logits, std::span<float> scratch);

/// Sets `ids` to the `k` likeliest tokens (all, if there are not so many), best first; the lower
/// id wins a tie. Time O(n log k), and near O(n) for small k; allocates nothing once ids has room.
void select_top(std::span<const float> logits, int64_t k, std::vector<int32_t>& ids);

}  // namespace hasten::engine
