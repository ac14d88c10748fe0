// SPDX-License-Identifier: Apache-2.0
// A model without weights whose logits are a hash of all tokens that it finds in its paged cache,
// and a tokenizer to go with it: whatever mixes up positions, blocks or sequences changes the text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace hasten::testing {

inline constexpr int32_t kFakeEos = 0;

/// Remembers which token at which position was written to each slot.
class FakeKvCache : public ops::KvCache {
 public:
  struct Entry {
    int32_t token = -1;
    int32_t position = -1;
  };
  explicit FakeKvCache(const ops::KvCacheSpec& spec)
      : KvCache(spec), entries(static_cast<size_t>(spec.num_blocks * spec.block_size)) {}
  std::span<Entry> block(int64_t id) {
    const auto size = static_cast<size_t>(spec().block_size);
    return std::span(entries).subspan(static_cast<size_t>(id) * size, size);
  }
  std::span<const Entry> block(int64_t id) const {
    return const_cast<FakeKvCache*>(this)->block(id);
  }
  std::vector<Entry> entries;  // by slot
};

/// Knows caches and nothing else. If it can move blocks, they move as their entries.
class FakeBackend : public ops::Backend {
 public:
  explicit FakeBackend(bool moves = false) : moves_(moves) {}
  std::string name() const override { return "fake"; }
  Device device() const override { return {}; }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheSpec& spec) override {
    return std::make_unique<FakeKvCache>(spec);
  }
  /// One byte for each token and layer, or what moves.
  int64_t kv_cache_bytes(const ops::KvCacheSpec& spec) const override {
    return spec.num_layers * spec.num_blocks * spec.block_size *
           (moves_ ? static_cast<int64_t>(sizeof(FakeKvCache::Entry)) : 1);
  }
  void copy_blocks(ops::KvCache& cache,
                   std::span<const std::pair<int32_t, int32_t>> pairs) override {
    auto& entries = static_cast<FakeKvCache&>(cache).entries;
    const int64_t size = cache.spec().block_size;
    for (const auto& [from, to] : pairs)
      for (int64_t i = 0; i < size; ++i)
        entries.at(static_cast<size_t>(to * size + i)) =
            entries.at(static_cast<size_t>(from * size + i));
  }

  void bring_in_memory(const Tensor& unused) override { bytes_brought_in += unused.num_bytes(); }
  int64_t bytes_brought_in = 0;

  std::string kv_layout() const override { return moves_ ? "fake" : ""; }
  void export_block(const ops::KvCache& cache, int32_t block, std::span<std::byte> to) override {
    const auto bytes = std::as_bytes(static_cast<const FakeKvCache&>(cache).block(block));
    HASTEN_CHECK(to.size() == bytes.size());
    std::ranges::copy(bytes, to.begin());
  }
  void import_block(ops::KvCache& cache, int32_t block, std::span<const std::byte> from) override {
    const auto bytes = std::as_writable_bytes(static_cast<FakeKvCache&>(cache).block(block));
    HASTEN_CHECK(from.size() == bytes.size());
    std::ranges::copy(from, bytes.begin());
  }

  ops::DeviceTensor allocate(DType, Shape) override { return unused(); }
  void upload(const Tensor&, const Tensor&) override { unused(); }
  void download(const Tensor&, const Tensor&) override { unused(); }
  void synchronize() override {}
  std::unique_ptr<ops::Weight> prepare_weight(const Tensor&) override { return unused_weight(); }
  std::unique_ptr<ops::Weight> prepare_embedding(const Tensor&) override { return unused_weight(); }
  void reserve(const ops::StepLimits&) override {}
  void embed(const ops::EmbedParams&) override { unused(); }
  void rms_norm(const ops::RmsNormParams&) override { unused(); }
  void matmul(const ops::MatmulParams&) override { unused(); }
  void gated_activation(const ops::GatedActivationParams&) override { unused(); }
  void add(const Tensor&, const Tensor&) override { unused(); }
  void take_rows(const Tensor&, std::span<const int32_t>) override { unused(); }
  void soft_cap(const ops::SoftCapParams&) override { unused(); }
  void rope_angles(const ops::RopeAnglesParams&) override { unused(); }
  void rope(const ops::RopeParams&) override { unused(); }
  void kv_write(const ops::KvWriteParams&) override { unused(); }
  void attention(const ops::AttentionParams&) override { unused(); }

 private:
  static ops::DeviceTensor unused() {
    fail(ErrorCode::internal, "the fake backend cannot do this");
  }
  static std::unique_ptr<ops::Weight> unused_weight() {
    unused();
    return nullptr;
  }

  const bool moves_;
};

struct FakeModelOptions {
  int64_t vocab_size = 64;
  int64_t max_context = 4096;
  std::vector<int64_t> windows = {0};  // one cache group each; 0: all tokens
  int32_t nan_token = -1;              // a sequence with it gets logits that are NaN
  int32_t throwing_token = -1;         // a step with it throws before it writes anything
  bool echoes = false;                 // what follows is a token that it finds in its cache
};

class FakeModel : public models::Model {
 public:
  explicit FakeModel(const FakeModelOptions& options = {}) : options_(options) {
    info_.family = info_.name = "fake";
    info_.vocab_size = options.vocab_size;
    info_.max_context = options.max_context;
    for (const int64_t window : options.windows)
      groups_.push_back({.num_layers = 1, .num_kv_heads = 1, .head_dim = 1, .window = window});
  }

  const models::ModelInfo& info() const override { return info_; }
  const std::vector<models::CacheGroup>& cache_groups() const override { return groups_; }
  void reserve(int64_t max_tokens, int64_t max_sequences, int64_t max_context) override {
    max_tokens_ = max_tokens;
    max_sequences_ = max_sequences;
    max_context_ = max_context;
  }
  void bring_in() override { ++num_brought_in; }
  int64_t activation_bytes(int64_t, int64_t) const override { return 0; }

  /// The logits that follow a context: what forward computes when all is well.
  static void logits(std::span<const int32_t> context, const FakeModelOptions& options,
                     std::span<float> out) {
    uint64_t hash = 0;
    for (const int64_t window : options.windows) {
      const size_t begin = window > 0 && std::ssize(context) > window
                               ? context.size() - static_cast<size_t>(window)
                               : 0;
      for (size_t i = begin; i < context.size(); ++i) hash = absorb(hash, context[i]);
    }
    spread(hash, out);
  }

  void forward(const models::ForwardInput& input, std::span<float> out) override {
    ++num_forwards;
    const auto& batch = input.batches[0];
    HASTEN_CHECK(std::ssize(input.token_ids) <= max_tokens_ && std::ssize(input.token_ids) > 0);
    HASTEN_CHECK(batch.num_sequences() <= max_sequences_);
    HASTEN_CHECK(std::ssize(out) == std::ssize(input.logit_rows) * options_.vocab_size);
    HASTEN_CHECK(input.batches.size() == groups_.size() && input.caches.size() == groups_.size());
    HASTEN_CHECK(input.positions.size() == input.token_ids.size());
    for (const int32_t token : input.token_ids)
      if (token == options_.throwing_token) fail(ErrorCode::internal, "the fake model throws");
    for (size_t g = 0; g < groups_.size(); ++g) write(input, g);

    size_t row = 0;
    for (size_t s = 0; s < batch.context_len.size(); ++s) {
      for (int32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
        if (row == input.logit_rows.size() || input.logit_rows[row] != t) continue;
        read(input, s, input.positions[static_cast<size_t>(t)],
             out.subspan(row * static_cast<size_t>(options_.vocab_size),
                         static_cast<size_t>(options_.vocab_size)));
        ++row;
      }
    }
    HASTEN_CHECK(row == input.logit_rows.size());  // ascending and in range
  }

  int64_t num_forwards = 0;
  int64_t num_brought_in = 0;

 private:
  static uint64_t absorb(uint64_t hash, int32_t token) {
    return mix64(hash ^ (static_cast<uint64_t>(token) + 1));
  }
  /// Logits in [-4, 4), all different for all practical purposes.
  static void spread(uint64_t hash, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(mix64(hash + i) >> 40) * 0x1p-21F - 4.0F;
  }

  FakeKvCache& cache(const models::ForwardInput& input, size_t g) const {
    return static_cast<FakeKvCache&>(*input.caches[g]);
  }

  /// Stores this step's tokens and checks that every table agrees with every other.
  void write(const models::ForwardInput& input, size_t g) {
    const ops::PagedBatch& batch = input.batches[g];
    const int64_t block_size = cache(input, g).spec().block_size;
    HASTEN_CHECK(batch.query_start.size() == batch.context_len.size() + 1);
    HASTEN_CHECK(batch.query_start.back() == std::ssize(input.token_ids));
    HASTEN_CHECK(batch.num_tokens() == std::ssize(input.token_ids));
    HASTEN_CHECK(std::ssize(batch.block_tables) ==
                 batch.block_table_stride * batch.num_sequences());
    for (size_t s = 0; s < batch.context_len.size(); ++s) {
      HASTEN_CHECK(batch.context_len[s] <= max_context_);
      const int32_t begin = batch.query_start[s];
      const int32_t end = batch.query_start[s + 1];
      for (int32_t t = begin; t < end; ++t) {
        const auto at = static_cast<size_t>(t);
        const int32_t position = batch.context_len[s] - (end - t);
        HASTEN_CHECK(input.positions[at] == position);
        HASTEN_CHECK(batch.slots[at] == slot(batch, s, position, block_size));
        cache(input, g).entries.at(static_cast<size_t>(batch.slots[at])) = {
            .token = input.token_ids[at], .position = position};
      }
    }
  }

  static int64_t slot(const ops::PagedBatch& batch, size_t sequence, int64_t position,
                      int64_t block_size) {
    HASTEN_CHECK(position / block_size < batch.block_table_stride);
    const int32_t block =
        batch.block_tables[sequence * static_cast<size_t>(batch.block_table_stride) +
                           static_cast<size_t>(position / block_size)];
    HASTEN_CHECK(block >= 0);
    return block * block_size + position % block_size;
  }

  /// Reads all that the query at `position` can see through the block tables.
  void read(const models::ForwardInput& input, size_t sequence, int64_t position,
            std::span<float> out) const {
    uint64_t hash = 0;
    bool is_nan = false;
    int32_t echo = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int64_t window = groups_[g].window;
      const FakeKvCache& stored = cache(input, g);
      int64_t begin = 0;
      if (window > 0 && position + 1 > window) begin = position + 1 - window;
      for (int64_t p = begin; p <= position; ++p) {
        const auto& entry = stored.entries.at(
            static_cast<size_t>(slot(input.batches[g], sequence, p, stored.spec().block_size)));
        HASTEN_CHECK(entry.position == p);  // somebody else's, or never written
        hash = absorb(hash, entry.token);
        if (hash % static_cast<uint64_t>(p + 1) == 0) echo = entry.token;
        is_nan = is_nan || entry.token == options_.nan_token;
      }
    }
    spread(hash, out);
    if (options_.echoes) out[static_cast<size_t>(echo)] = 5.0F;
    if (is_nan) out[out.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  }

  FakeModelOptions options_;
  models::ModelInfo info_;
  std::vector<models::CacheGroup> groups_;
  int64_t max_tokens_ = 0;
  int64_t max_sequences_ = 0;
  int64_t max_context_ = 0;
};

/// Token 0 ends an answer, token 1 is another special one; the last four are bytes of characters;
/// the others are words of one or two letters.
inline std::shared_ptr<const text::Tokenizer> make_fake_tokenizer(int32_t vocab_size = 64) {
  text::TokenizerSpec spec;
  spec.kind = text::TokenizerKind::spm;
  spec.space_prefix = text::SpacePrefix::none;
  spec.eos = kFakeEos;
  const auto add = [&](std::string token, text::TokenType type) {
    spec.tokens.push_back(std::move(token));
    spec.types.push_back(static_cast<int32_t>(type));
  };
  add("<end>", text::TokenType::control);
  add("<begin>", text::TokenType::control);
  for (int32_t i = 0; i < vocab_size - 6; ++i) {
    std::string word(1, static_cast<char>('a' + i % 26));
    for (int32_t rest = i / 26; rest > 0; rest /= 26)
      word += static_cast<char>('a' + (rest - 1) % 26);
    add(word, text::TokenType::normal);
  }
  for (const char* byte : {"<0xC3>", "<0xA9>", "<0xF0>", "<0x9F>"})
    add(byte, text::TokenType::byte);
  spec.scores.assign(spec.tokens.size(), 0.0F);
  return text::make_tokenizer(std::move(spec));
}

}  // namespace hasten::testing
