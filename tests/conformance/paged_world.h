// SPDX-License-Identifier: Apache-2.0
// Sequences over a paged cache of one backend, as an engine would run them, in hostile memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "random.h"

namespace hasten::conformance {

/// Every type that keys and values may be kept as.
inline constexpr std::array kKvTypes = {DType::f32,     DType::f16,  DType::bf16,
                                        DType::f8_e4m3, DType::q8_0, DType::q4_0};

struct AttentionSettings {
  int64_t num_kv_heads = 1;
  int64_t heads_per_kv_head = 1;
  int64_t head_dim = 64;
  ops::KvTypes kv_types = {};
  float soft_cap = 0.0F;
  int64_t window = 0;
  int64_t block_size = 16;

  int64_t num_heads() const { return num_kv_heads * heads_per_kv_head; }
  int64_t query_size() const { return num_heads() * head_dim; }
  /// "q8_0/q4_0".
  std::string kv_names() const {
    return std::string(info(kv_types.keys).name) + "/" + std::string(info(kv_types.values).name);
  }
  int64_t key_size() const { return num_kv_heads * head_dim; }
};

/// Queries, keys and values of a whole sequence.
struct SequenceData {
  int64_t length = 0;    // tokens
  std::vector<float> q;  // [length, num_heads, head_dim]
  std::vector<float> k;  // [length, num_kv_heads, head_dim]
  std::vector<float> v;  // likewise
};

SequenceData random_sequence(const AttentionSettings& settings, int64_t length, Random& random);

/// Tokens [begin, end) of a sequence, as part of a step.
struct Part {
  int64_t sequence = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// A cache filled with NaN in which each sequence owns blocks scattered at random. Entries of a
/// block table that no query of a step may need are -1. What a backend reads without right
/// becomes a NaN in its result.
class PagedWorld {
 public:
  PagedWorld(ops::Backend& backend, const AttentionSettings& settings,
             const std::vector<SequenceData>& sequences, Random random);

  /// Makes a sequence begin with the blocks of another one, so many.
  void share(int64_t from, int64_t to, int64_t num_blocks);
  /// Stores keys and values of the parts.
  void write(const std::vector<Part>& parts);
  /// Attention of the parts' queries, [tokens of all parts, num_heads, head_dim].
  std::vector<float> attend(const std::vector<Part>& parts);
  /// write, then attend.
  std::vector<float> step(const std::vector<Part>& parts);

 private:
  struct StepArrays {
    std::vector<int32_t> query_start = {0};
    std::vector<int32_t> context_len;
    std::vector<int32_t> block_tables;
    std::vector<int32_t> slots;
    int64_t block_table_stride = 0;

    ops::PagedBatch batch() const {
      return {.query_start = query_start,
              .context_len = context_len,
              .block_tables = block_tables,
              .block_table_stride = block_table_stride,
              .slots = slots};
    }
  };
  StepArrays plan(const std::vector<Part>& parts) const;
  void poison_cache();
  void write_part(const Part& part);

  ops::Backend& backend_;
  AttentionSettings settings_;
  const std::vector<SequenceData>& sequences_;
  std::vector<std::vector<int32_t>> blocks_;  // of each sequence
  std::unique_ptr<ops::KvCache> cache_;
};

}  // namespace hasten::conformance
