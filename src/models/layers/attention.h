// SPDX-License-Identifier: Apache-2.0
// Attention of grouped queries over a paged cache (Vaswani et al., 2017; Ainslie et al., 2023).
#pragma once

#include <cstdint>
#include <span>

#include "models/layers/hyperparameters.h"
#include "models/layers/step.h"
#include "models/layers/weight_loader.h"

namespace hasten::models {

/// What families do differently; the same for all layers of a model.
struct AttentionStyle {
  bool fused_qkv = false;  // one matrix in the file, its rows Q, K and V in this order
  bool qkv_bias = false;   // required
  bool qk_norm = false;    // each head of Q and K is normalised before it is rotated
  float norm_offset = 0.0F;
  ops::RopeLayout rope_layout = ops::RopeLayout::halves;
};

/// Where a layer keeps its keys and values, and how it sees them.
struct LayerCache {
  size_t group = 0;    // index into cache_groups()
  int64_t index = 0;   // of the layer within the group
  int64_t window = 0;  // tokens; 0: all
  size_t rope = 0;     // index into Activations::angles
};

/// Const after construction.
class Attention {
 public:
  Attention(WeightLoader& load, int64_t layer, const Hyperparameters& h,
            const AttentionStyle& style, const LayerCache& cache);

  /// O · softmax(scale · rope(Q x) · rope(K x)ᵀ) · V x for each token, over its whole sequence.
  /// x, which the norm makes, and the result are [num_tokens, dim].
  Tensor operator()(const Step& step, const ops::AddRmsNormParams& norm) const;

  /// The same in two parts: keys and values of all tokens, then the result of some, whose rows of x
  /// are named and which are all tokens of the second step.
  void write_keys(const Step& step, const Tensor& x) const;
  Tensor attend(const Step& step, const Tensor& x, std::span<const int32_t> rows) const;

 private:
  void write_projected(const Step& step) const;
  Tensor attend_projected(const Step& step) const;

  int64_t num_heads_;
  int64_t num_kv_heads_;
  int64_t head_dim_;
  float scale_;
  float soft_cap_;
  ops::RopeLayout rope_layout_;
  LayerCache cache_;
  Linear query_, key_, value_, output_;
  Norm query_norm_, key_norm_;  // of head_dim, or none
};

}  // namespace hasten::models
