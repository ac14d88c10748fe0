// SPDX-License-Identifier: Apache-2.0
// The hyperparameters of the models that synth knows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weights/synth/vocabulary.h"

namespace hasten::weights::synthetic {

/// One model, as its published config.json describes it.
struct ModelShape {
  std::string_view name;
  std::string_view architecture;  // GGUF's name of the family
  VocabularyKind vocabulary = VocabularyKind::llama_spm;
  int64_t vocabulary_size = 0;
  int64_t num_layers = 0;
  int64_t context = 0;       // tokens
  int64_t hidden = 0;        // embedding width
  int64_t feed_forward = 0;  // width between the matrices of the MLP
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  float rms_epsilon = 1e-5F;
  float rope_base = 10000.0F;
  bool tied_output = false;      // the output matrix is the embedding
  int64_t sliding_window = 0;    // tokens; 0: none
  float llama3_rope_factor = 0;  // scaling of Llama 3.1 and 3.2; 0: none
  int64_t original_context = 0;  // tokens before RoPE scaling; 0: not scaled
};

[[nodiscard]] std::span<const ModelShape> model_shapes();
/// The one of that name. Error{invalid_argument} lists the known ones.
[[nodiscard]] const ModelShape& find_shape(std::string_view name);

}  // namespace hasten::weights::synthetic
