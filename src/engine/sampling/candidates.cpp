// SPDX-License-Identifier: Apache-2.0
// The filters. None sorts more of the vocabulary than it keeps.
#include "engine/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "engine/sampling/softmax.h"

namespace hasten::engine {

Candidates::Candidates(int64_t vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  for (auto* ids : {&ids_, &order_, &kept_ids_}) ids->reserve(size);
  for (auto* values : {&weights_, &scores_, &kept_weights_}) values->reserve(size);
}

void Candidates::assign(std::span<const float> logits, int32_t top_k, float temperature) {
  float max = 0.0F;
  if (top_k > 0 && static_cast<size_t>(top_k) < logits.size()) {
    select_top(logits, top_k, ids_);
    max = logits[static_cast<size_t>(ids_.front())];
    weights_.clear();
    for (const int32_t id : ids_) weights_.push_back(logits[static_cast<size_t>(id)]);
  } else {
    ids_.resize(logits.size());
    std::iota(ids_.begin(), ids_.end(), 0);
    max = largest(logits);
    weights_.assign(logits.begin(), logits.end());
  }
  // The difference first: however small the temperature, the likeliest keeps weight 1.
  for (float& weight : weights_) weight = (weight - max) / temperature;
  exp_in_place(weights_);
}

double Candidates::total_weight() const { return sum(weights_); }

/// Keeps those of order_ that come first by `before` (a strict order of indices) until their
/// weights reach `weight`. Heap order: only what is kept gets sorted.
template <class Before>
void Candidates::keep_first(double weight, Before before) {
  const auto after = [&](int32_t a, int32_t b) { return before(b, a); };
  std::ranges::make_heap(order_, after);
  kept_ids_.clear();
  kept_weights_.clear();
  for (double reached = 0.0; reached < weight && !order_.empty();) {
    std::ranges::pop_heap(order_, after);
    const auto index = static_cast<size_t>(order_.back());
    order_.pop_back();
    kept_ids_.push_back(ids_[index]);
    kept_weights_.push_back(weights_[index]);
    reached += weights_[index];
  }
  std::swap(ids_, kept_ids_);
  std::swap(weights_, kept_weights_);
}

void Candidates::keep_typical(float mass) {
  if (mass >= 1.0F) return;
  const double total = total_weight();
  double entropy = 0.0;
  scores_.resize(weights_.size());
  order_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0.0F) continue;
    const double probability = weights_[i] / total;
    const double information = -std::log(probability);
    entropy += probability * information;
    scores_[i] = static_cast<float>(information);
    order_.push_back(static_cast<int32_t>(i));
  }
  for (const int32_t index : order_) {
    float& score = scores_[static_cast<size_t>(index)];
    score = static_cast<float>(std::abs(score - entropy));
  }
  keep_first(mass * total, [&](int32_t a, int32_t b) {
    const float x = scores_[static_cast<size_t>(a)];
    const float y = scores_[static_cast<size_t>(b)];
    return x < y || (x == y && ids_[static_cast<size_t>(a)] < ids_[static_cast<size_t>(b)]);
  });
}

void Candidates::keep_top_p(float mass) {
  if (mass >= 1.0F) return;
  const double total = total_weight();
  // Tokens below (1 - mass) / n have less than 1 - mass together: those above reach the mass
  // without them. On real logits this leaves hundreds of 150 000.
  const double floor = (1.0 - mass) * total / static_cast<double>(weights_.size());
  order_.clear();
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] >= floor) order_.push_back(static_cast<int32_t>(i));
  keep_first(mass * total, [&](int32_t a, int32_t b) {
    const float x = weights_[static_cast<size_t>(a)];
    const float y = weights_[static_cast<size_t>(b)];
    return x > y || (x == y && ids_[static_cast<size_t>(a)] < ids_[static_cast<size_t>(b)]);
  });
}

void Candidates::keep_min_p(float ratio) {
  if (ratio <= 0.0F) return;
  const float least = ratio * largest(weights_);
  size_t num_kept = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] < least) continue;
    ids_[num_kept] = ids_[i];
    weights_[num_kept++] = weights_[i];
  }
  ids_.resize(num_kept);
  weights_.resize(num_kept);
}

int32_t Candidates::draw(double uniform) const {
  constexpr size_t kBlock = 256;
  const double target = uniform * total_weight();
  const auto block_at = [&](size_t at) {
    return std::span(weights_).subspan(at, std::min(kBlock, weights_.size() - at));
  };
  // Blocks first: the sums of most of them are never looked into. The last with any weight serves
  // where rounding leaves the target beyond the end.
  double before = 0.0;
  size_t chosen = 0;
  double before_chosen = 0.0;
  for (size_t at = 0; at < weights_.size(); at += kBlock) {
    const double weight = sum(block_at(at));
    if (weight == 0.0) continue;
    chosen = at;
    before_chosen = before;
    before += weight;
    if (target < before) break;
  }
  size_t last = chosen;
  double reached = before_chosen;
  const std::span<const float> block = block_at(chosen);
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i] == 0.0F) continue;
    last = chosen + i;
    reached += block[i];
    if (target < reached) break;
  }
  return ids_[last];
}

}  // namespace hasten::engine
