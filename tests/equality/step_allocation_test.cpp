// SPDX-License-Identifier: Apache-2.0
// No step of the CPU backend asks the heap for memory, the first one included: prompts, decodes of
// one sequence and of several, with weights that take each kind of product.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/backends.h"
#include "hasten_test/temporary_folder.h"
#include "models/allocation_count_test.h"
#include "models/model.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"
#include "weights/synth.h"

namespace hasten {
namespace {

constexpr int64_t kBlockSize = 16;
constexpr int64_t kContext = 256;
constexpr int64_t kStepTokens = 128;
constexpr int64_t kSequences = 8;
constexpr int64_t kBlocksOfSequence = kContext / kBlockSize;

/// Of this thread and in mappings of their own.
size_t heap_bytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

/// Several sequences that all go on by as many tokens in each step.
class Steps {
 public:
  Steps(models::Model& model, ops::Backend& backend) : model_(model) {
    const models::CacheGroup& group = model.cache_groups().front();
    cache_ = backend.make_kv_cache({.num_layers = group.num_layers,
                                    .num_blocks = kSequences * kBlocksOfSequence,
                                    .block_size = kBlockSize,
                                    .num_kv_heads = group.num_kv_heads,
                                    .head_dim = group.head_dim,
                                    .types = {}});
    logits_.resize(static_cast<size_t>(kSequences * model.info().vocab_size));
  }

  /// How often the step used operator new, and one more if the heap has more or less in use then:
  /// scratch memory comes from there otherwise. Sequences [0, num_sequences) have all had `context`
  /// tokens.
  int64_t allocations_of(int64_t num_sequences, int64_t context, int64_t tokens_each) {
    std::vector<int32_t> ids, positions, slots, query_start = {0}, context_len, tables, rows;
    for (int64_t s = 0; s < num_sequences; ++s) {
      for (int64_t b = 0; b < kBlocksOfSequence; ++b)
        tables.push_back(static_cast<int32_t>(s * kBlocksOfSequence + b));
      for (int64_t p = context; p < context + tokens_each; ++p) {
        ids.push_back(static_cast<int32_t>((s + p) % model_.info().vocab_size));
        positions.push_back(static_cast<int32_t>(p));
        slots.push_back(static_cast<int32_t>(s * kContext + p));
      }
      query_start.push_back(static_cast<int32_t>(ids.size()));
      context_len.push_back(static_cast<int32_t>(context + tokens_each));
      rows.push_back(static_cast<int32_t>(ids.size()) - 1);
    }
    const ops::PagedBatch batch{.query_start = query_start,
                                .context_len = context_len,
                                .block_tables = tables,
                                .block_table_stride = kBlocksOfSequence,
                                .slots = slots};
    ops::KvCache* const cache = cache_.get();
    const std::span<float> logits =
        std::span(logits_).first(rows.size() * static_cast<size_t>(model_.info().vocab_size));
    const int64_t count = models::allocation_count();
    const size_t in_use = heap_bytes();
    model_.forward({.token_ids = ids,
                    .positions = positions,
                    .batches = {&batch, 1},
                    .caches = {&cache, 1},
                    .logit_rows = rows},
                   logits);
    return models::allocation_count() - count + (heap_bytes() == in_use ? 0 : 1);
  }

 private:
  models::Model& model_;
  std::unique_ptr<ops::KvCache> cache_;
  std::vector<float> logits_;
};

class StepAllocation : public ::testing::TestWithParam<DType> {};

TEST_P(StepAllocation, IsNone) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "model.gguf";
  (void)weights::synth({.shape = "tiny-llama", .type = GetParam(), .out = file});
  const auto checkpoint = weights::open_checkpoint(file);
  for (const bool repack : {true, false}) {
    const auto backend = api::make_backend("cpu", 2, repack);
    const auto model = models::load_model(*checkpoint, *backend, {});
    model->reserve(kStepTokens, kSequences, kContext);
    backend->synchronize();
    Steps steps(*model, *backend);
    EXPECT_EQ(steps.allocations_of(1, 0, 100), 0) << "a prompt";
    EXPECT_EQ(steps.allocations_of(1, 100, 1), 0) << "a decode";
    EXPECT_EQ(steps.allocations_of(kSequences, 101, 16), 0) << "prompts";
    for (const int64_t users : {2, 3, 5, 8})
      EXPECT_EQ(steps.allocations_of(users, 117, 1), 0) << "a decode of " << users;
    EXPECT_EQ(steps.allocations_of(1, 118, 128), 0) << "as large as can be";
  }
}

INSTANTIATE_TEST_SUITE_P(All, StepAllocation,
                         ::testing::Values(DType::f32, DType::f16, DType::bf16, DType::q4_0,
                                           DType::q8_0, DType::q4_k, DType::q6_k, DType::q2_k,
                                           DType::iq4_xs),
                         [](const auto& type) {
                           return std::string(hasten::info(type.param).name);
                         });

}  // namespace
}  // namespace hasten
