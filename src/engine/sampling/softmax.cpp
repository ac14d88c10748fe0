// SPDX-License-Identifier: Apache-2.0
// Loops over whole rows, written so that the compiler vectorises them.
#include "engine/sampling/softmax.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace hasten::engine {
namespace {

constexpr size_t kLanes = 64;  // independent chains: more than a vector unit has in flight

}  // namespace

float largest(std::span<const float> values) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
    }
  }
  float result = *std::ranges::max_element(lanes);
  for (const float value : values.subspan(whole)) result = std::max(result, value);
  return result;
}

double sum(std::span<const float> values) {
  std::array<double, 16> lanes{};
  const size_t whole = values.size() / lanes.size() * lanes.size();
  for (size_t i = 0; i < whole; i += lanes.size()) {
    for (size_t j = 0; j < lanes.size(); ++j) lanes[j] += values[i + j];
  }
  double result = std::accumulate(lanes.begin(), lanes.end(), 0.0);
  for (const float value : values.subspan(whole)) result += value;
  return result;
}

void exp_in_place(std::span<float> values) {
  // e^x = 2^n * e^r with n the integer nearest to x / ln 2 and |r| <= ln 2 / 2. ln 2 is split in
  // two so that r is exact enough, and e^r is a minimax polynomial (Cephes, expf). The C library's
  // expf, a call per element, takes twice as long on a vocabulary of 152 000.
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 * 2^23: its last bit is worth 1
  // Comparisons of floats would keep the compiler from vectorising; the bits of positive floats
  // are ordered like integers.
  constexpr auto kLargest = std::bit_cast<int32_t>(87.0F);
  for (float& value : values) {
    const int32_t magnitude = std::bit_cast<int32_t>(value) & 0x7fffffff;
    const float x = -std::bit_cast<float>(std::min(magnitude, kLargest));
    const float n = (x * kLog2E + kRoundToInteger) - kRoundToInteger;
    const float r = (x - n * kLn2High) - n * kLn2Low;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    const float power_of_two = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
    const float result = (p * r * r + r + 1.0F) * power_of_two;
    const int32_t keep = -static_cast<int32_t>(magnitude <= kLargest);
    value = std::bit_cast<float>(std::bit_cast<int32_t>(result) & keep);
  }
}

double log_sum_exp(std::span<const float> logits, std::span<float> scratch) {
  const float max = largest(logits);
  if (max == -std::numeric_limits<float>::infinity()) return 0.0;  // no token is possible
  for (size_t i = 0; i < logits.size(); ++i) scratch[i] = logits[i] - max;
  exp_in_place(scratch.first(logits.size()));
  return max + std::log(sum(scratch.first(logits.size())));
}

void select_top(std::span<const float> logits, int64_t k, std::vector<int32_t>& ids) {
  const auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const auto end = static_cast<int32_t>(logits.size());
  const auto wanted = static_cast<int32_t>(std::min<int64_t>(k, end));
  ids.clear();
  if (wanted == 0) return;
  for (int32_t id = 0; id < wanted; ++id) ids.push_back(id);
  std::ranges::make_heap(ids, better);  // the worst of the selected is in front
  const auto consider = [&](int32_t id) {
    if (!better(id, ids.front())) return;
    std::ranges::pop_heap(ids, better);
    ids.back() = id;
    std::ranges::push_heap(ids, better);
  };
  int32_t id = wanted;
  for (constexpr auto kBlock = static_cast<int32_t>(kLanes); id + kBlock <= end; id += kBlock) {
    // Most blocks have nobody; whoever comes later loses ties.
    const float least = logits[static_cast<size_t>(ids.front())];
    const auto block = logits.subspan(static_cast<size_t>(id), kLanes);
    int32_t found = 0;
    for (size_t j = 0; j < kLanes; ++j) found |= static_cast<int32_t>(block[j] > least);
    if (found == 0) continue;
    for (int32_t j = 0; j < kBlock; ++j) consider(id + j);
  }
  for (; id < end; ++id) consider(id);
  std::ranges::sort_heap(ids, better);
}

}  // namespace hasten::engine
