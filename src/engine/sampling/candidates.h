// SPDX-License-Identifier: Apache-2.0
// Candidates: the tokens that may come next with their weights, narrowed by one filter after
// another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hasten::engine {

/// Each filter sees the probabilities of those that the one before left, as if there were no
/// others, and leaves at least one. Room for a whole vocabulary is taken once. One thread.
class Candidates {
 public:
  explicit Candidates(int64_t vocab_size);

  /// Starts with the `top_k` likeliest tokens (0: all) and weights e^(logit / temperature), up to
  /// a common factor. Logits are finite or -inf, and at least one is finite; temperature > 0.
  void assign(std::span<const float> logits, int32_t top_k, float temperature);

  /// Locally typical sampling (Meister et al., 2022): those whose information content is nearest
  /// to the entropy, until together they have probability `mass`.
  void keep_typical(float mass);
  /// Nucleus sampling (Holtzman et al., 2020): the likeliest, until together they have probability
  /// `mass`.
  void keep_top_p(float mass);
  /// Those at least `ratio` times as likely as the likeliest (Nguyen et al., 2024).
  void keep_min_p(float ratio);

  /// The token at `uniform` in [0, 1) of the cumulative distribution.
  int32_t draw(double uniform) const;

  std::span<const int32_t> ids() const { return ids_; }
  std::span<const float> weights() const { return weights_; }  // in the order of ids()

 private:
  double total_weight() const;
  template <class Before>
  void keep_first(double weight, Before before);

  std::vector<int32_t> ids_;
  std::vector<float> weights_;
  std::vector<float> scores_;   // of keep_typical: distance from the entropy, in nats
  std::vector<int32_t> order_;  // indices into the above, a heap while sorting
  std::vector<int32_t> kept_ids_;
  std::vector<float> kept_weights_;
};

}  // namespace hasten::engine
