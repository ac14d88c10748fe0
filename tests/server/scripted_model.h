// SPDX-License-Identifier: Apache-2.0
// A real model that says what it was told: after each token of a script the next is certain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"
#include "weights/gguf_writer.h"

namespace hasten::testing {

/// A prompt that ends with the byte `key` is answered with `pieces`, each one token. What stands
/// in ⟦ ⟧ is a control token. A piece stands in one script only, and once.
struct Script {
  char key;
  std::vector<std::string> pieces;
};

/// Writes a Llama of one layer: its attention and feed-forward weights are zero, each token's
/// embedding is a unit vector, and the output matrix maps it to the next token of its script.
inline void write_scripted_model(const std::filesystem::path& path, std::string_view chat_template,
                                 const std::vector<Script>& scripts) {
  constexpr std::string_view kOpen = "⟦", kClose = "⟧";
  constexpr int32_t kEnd = 256;
  constexpr int64_t kHeadDim = 32;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<int32_t> next;  // by token
  const auto add = [&](std::string token, text::TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(static_cast<int32_t>(type));
    next.push_back(kEnd);
  };
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    add(std::string("<0x") + kDigits[static_cast<size_t>(byte / 16)] +
            kDigits[static_cast<size_t>(byte % 16)] + '>',
        text::TokenType::byte);
  }
  add("</s>", text::TokenType::control);
  for (const Script& script : scripts) {
    auto last = static_cast<size_t>(static_cast<unsigned char>(script.key));
    for (std::string piece : script.pieces) {
      const bool is_control = piece.starts_with(kOpen);
      if (is_control)
        piece = piece.substr(kOpen.size(), piece.size() - kOpen.size() - kClose.size());
      next[last] = static_cast<int32_t>(tokens.size());
      last = tokens.size();
      add(std::move(piece), is_control ? text::TokenType::control : text::TokenType::normal);
    }
  }

  const auto vocab = static_cast<int64_t>(tokens.size());
  const int64_t dim = (vocab + kHeadDim - 1) / kHeadDim * kHeadDim;
  weights::GgufWriter writer(path);
  writer.set_string("general.architecture", "llama");
  writer.set_string("general.name", "scripted");
  const auto number = [&](std::string_view key, int64_t value) {
    writer.set_u32("llama." + std::string(key), static_cast<uint32_t>(value));
  };
  number("block_count", 1);
  number("context_length", 512);
  number("embedding_length", dim);
  number("feed_forward_length", kHeadDim);
  number("attention.head_count", dim / kHeadDim);
  number("attention.head_count_kv", 1);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  writer.set_string("tokenizer.ggml.model", "llama");
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_f32s("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0F));
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_u32("tokenizer.ggml.eos_token_id", kEnd);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  writer.set_bool("tokenizer.ggml.add_space_prefix", false);
  writer.set_string("tokenizer.chat_template", chat_template);

  const auto zeros = [](int64_t size) { return std::vector<float>(static_cast<size_t>(size)); };
  std::vector<float> embeddings = zeros(vocab * dim), output = zeros(vocab * dim);
  for (int64_t token = 0; token < vocab; ++token) {
    embeddings[static_cast<size_t>(token * dim + token)] = 1.0F;
    output[static_cast<size_t>(next[static_cast<size_t>(token)] * dim + token)] = 1.0F;
  }
  struct Matrix {
    std::string_view name;
    Shape shape;
    std::vector<float> values;
  };
  const std::vector<float> ones(static_cast<size_t>(dim), 1.0F);
  const Matrix matrices[] = {
      {"token_embd.weight", {vocab, dim}, embeddings},
      {"output_norm.weight", {dim}, ones},
      {"output.weight", {vocab, dim}, output},
      {"blk.0.attn_norm.weight", {dim}, ones},
      {"blk.0.ffn_norm.weight", {dim}, ones},
      {"blk.0.attn_q.weight", {dim, dim}, zeros(dim * dim)},
      {"blk.0.attn_k.weight", {kHeadDim, dim}, zeros(kHeadDim * dim)},
      {"blk.0.attn_v.weight", {kHeadDim, dim}, zeros(kHeadDim * dim)},
      {"blk.0.attn_output.weight", {dim, dim}, zeros(dim * dim)},
      {"blk.0.ffn_gate.weight", {kHeadDim, dim}, zeros(kHeadDim * dim)},
      {"blk.0.ffn_up.weight", {kHeadDim, dim}, zeros(kHeadDim * dim)},
      {"blk.0.ffn_down.weight", {dim, kHeadDim}, zeros(kHeadDim * dim)},
  };
  for (const Matrix& matrix : matrices) writer.declare(matrix.name, DType::f32, matrix.shape);
  for (const Matrix& matrix : matrices) writer.append(std::as_bytes(std::span(matrix.values)));
  writer.finish();
}

}  // namespace hasten::testing
