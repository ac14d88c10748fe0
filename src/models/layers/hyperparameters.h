// SPDX-License-Identifier: Apache-2.0
// The numbers that describe a decoder, whichever file they came from, within checked bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "weights/checkpoint.h"

namespace hasten::models {

/// How rotary embedding is stretched beyond the context that a model was first trained with.
struct RopeScaling {
  enum class Kind { none, linear, dynamic, yarn, llama3, longrope };

  Kind kind = Kind::none;
  double factor = 1.0;            // context after over context before
  int64_t original_context = 0;   // tokens before stretching; 0: the model's max_context
  double attention_factor = 0.0;  // multiplies cos and sin; 0: by the formula of the kind
  double beta_fast = 32.0;        // yarn: rotations above which a frequency is left alone
  double beta_slow = 1.0;         // yarn: rotations below which it is divided by factor
  double mscale = 0.0;            // yarn: with mscale_all_dim, of the magnitude; 0: not given
  double mscale_all_dim = 0.0;
  bool truncate = true;               // yarn: the range of frequencies ends at whole dimensions
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  std::vector<double> short_factors;  // longrope: [rotary_dim / 2], up to original_context
  std::vector<double> long_factors;   // longrope: [rotary_dim / 2], beyond it
};

/// Zero stands for "the file must say"; a family's defaults fill what its files may leave out.
struct Hyperparameters {
  int64_t vocab_size = 0;  // rows of the embedding; 0: as many as it has
  int64_t dim = 0;         // width of the residual stream
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // 0: num_heads
  int64_t head_dim = 0;      // 0: dim / num_heads
  int64_t ffn_dim = 0;       // width of the gated MLP
  int64_t max_context = 0;   // tokens that the model was trained for, after its own scaling
  double norm_epsilon = 0.0;
  ops::Activation activation = ops::Activation::silu;

  int64_t rotary_dim = 0;         // leading elements of a head that rotate; 0: head_dim
  double rope_base = 0.0;         // theta
  double window_rope_base = 0.0;  // of layers with a window; 0: rope_base
  RopeScaling rope_scaling;       // of layers without a window, and of all when there is one base
  std::vector<float> rope_divisors;  // [rotary_dim / 2], divide the frequencies; empty: ones

  int64_t window = 0;                // tokens, of the layers that have one; 0: none has
  bool use_window = true;            // false: `window` is only an option of the file
  int64_t window_pattern = 0;        // n: every n-th layer sees everything; 0: none does
  int64_t first_window_layer = 0;    // layers below it see everything
  std::vector<bool> layer_windowed;  // [num_layers], overrides the two above; empty: not given

  double query_scalar = 0.0;        // scores are scaled by its inverse root; 0: head_dim
  double attention_soft_cap = 0.0;  // 0: none
  double final_soft_cap = 0.0;      // 0: none
  bool qkv_bias = false;            // Q, K and V must have biases; any matrix may have one
  /// Whether the output matrix is the embedding; not given: when it has no tensor of its own.
  std::optional<bool> tied_output;

  /// Tokens that a query of this layer sees; 0: all.
  [[nodiscard]] int64_t layer_window(int64_t layer) const;
};

// Limits no published model comes near; they keep every product of two of them inside int64_t.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxHeadDim = 512;
inline constexpr int64_t kMaxDim = int64_t{1} << 17;
inline constexpr int64_t kMaxFfnDim = int64_t{1} << 20;
inline constexpr int64_t kMaxVocab = int64_t{1} << 24;
inline constexpr int64_t kMaxContext = int64_t{1} << 30;

/// The name by which the file says what it is: general.architecture of a GGUF file, the first of
/// architectures in config.json. Error{invalid_data} when it does not say.
[[nodiscard]] std::string architecture(const weights::Checkpoint& checkpoint);

/// Reads the checkpoint's hyperparameters over a family's `defaults`, derives what may be derived,
/// and checks that they are possible together. Error{invalid_data} names file, key, value and
/// bounds; Error{unsupported} names a kind of scaling or activation that hasten does not know.
[[nodiscard]] Hyperparameters read_hyperparameters(const weights::Checkpoint& checkpoint,
                                                   const Hyperparameters& defaults);

}  // namespace hasten::models
