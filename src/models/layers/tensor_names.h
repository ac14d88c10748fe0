// SPDX-License-Identifier: Apache-2.0
// What every weight of a decoder is called, in GGUF files and in Hugging Face folders.
#pragma once

#include <string_view>

namespace hasten::models {

/// One role's two names, without ".weight" or ".bias"; {} stands for the layer.
struct TensorName {
  std::string_view gguf;
  std::string_view hugging_face;
};

namespace names {

inline constexpr TensorName kEmbedding = {"token_embd", "model.embed_tokens"};
inline constexpr TensorName kOutputNorm = {"output_norm", "model.norm"};
inline constexpr TensorName kOutput = {"output", "lm_head"};

inline constexpr TensorName kAttentionNorm = {"blk.{}.attn_norm",
                                              "model.layers.{}.input_layernorm"};
inline constexpr TensorName kQuery = {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"};
inline constexpr TensorName kKey = {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"};
inline constexpr TensorName kValue = {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"};
inline constexpr TensorName kQkv = {"blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"};
inline constexpr TensorName kQueryNorm = {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"};
inline constexpr TensorName kKeyNorm = {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"};
inline constexpr TensorName kAttentionOutput = {"blk.{}.attn_output",
                                                "model.layers.{}.self_attn.o_proj"};

inline constexpr TensorName kMlpNorm = {"blk.{}.ffn_norm",
                                        "model.layers.{}.post_attention_layernorm"};
inline constexpr TensorName kGate = {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"};
inline constexpr TensorName kUp = {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"};
inline constexpr TensorName kGateUp = {"blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"};
inline constexpr TensorName kDown = {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"};

// Layers that normalise the output of both blocks too; Hugging Face then gives the norm after
// attention the name that elsewhere belongs to the one before the MLP.
inline constexpr TensorName kPostAttentionNorm = {"blk.{}.post_attention_norm",
                                                  "model.layers.{}.post_attention_layernorm"};
inline constexpr TensorName kPreMlpNorm = {"blk.{}.ffn_norm",
                                           "model.layers.{}.pre_feedforward_layernorm"};
inline constexpr TensorName kPostMlpNorm = {"blk.{}.post_ffw_norm",
                                            "model.layers.{}.post_feedforward_layernorm"};

}  // namespace names
}  // namespace hasten::models
