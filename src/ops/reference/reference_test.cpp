// SPDX-License-Identifier: Apache-2.0
// Tests of the reference backend against results worked out by hand or by closed formulas.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/resident_pages_test.h"
#include "ops/reference/paged_kv_cache.h"
#include "ops/reference/reference_backend.h"
#include "tensor/half.h"

namespace hasten::ops {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor view(std::vector<float>& values, Shape shape) {
  HASTEN_CHECK(shape.num_elements() == static_cast<int64_t>(values.size()));
  return {static_cast<void*>(values.data()), DType::f32, shape};
}

/// Where the page begins that an address is on.
const void* page_of(const void* data) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(data) /
                                       static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) *
                                       static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)));
}

class ReferenceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_reference_backend();
};

TEST_F(ReferenceTest, EmbedScalesTheRowOfEachId) {
  std::vector<float> table = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(4, kNan);
  const auto weight = backend_->prepare_embedding(view(table, {3, 2}));
  const std::vector<int32_t> ids = {2, 0};
  backend_->embed({.table = *weight, .ids = ids, .scale = 2.0F, .out = view(out, {2, 2})});
  EXPECT_EQ(out, (std::vector<float>{10, 12, 2, 4}));

  for (const int32_t bad : {-1, 3}) {
    const std::vector<int32_t> outside = {0, bad};
    EXPECT_THROW(backend_->embed({.table = *weight, .ids = outside, .out = view(out, {2, 2})}),
                 Error);
    EXPECT_EQ(out, (std::vector<float>{10, 12, 2, 4})) << "written before the ids were checked";
  }
}

TEST_F(ReferenceTest, MatmulIsWeightTimesRowPlusBias) {
  std::vector<uint16_t> bits;
  for (const float w : {1.0F, 2.0F, 3.0F, -1.0F, 0.5F, 0.0F}) bits.push_back(f32_to_bf16(w));
  const auto weight =
      backend_->prepare_weight(Tensor(static_cast<const void*>(bits.data()), DType::bf16, {2, 3}));
  std::vector<float> x = {1, 1, 1, 2, 4, 8};
  std::vector<float> bias = {100, 200};
  std::vector<float> out(4, kNan);
  backend_->matmul({.weight = *weight, .x = view(x, {2, 3}), .out = view(out, {2, 2})});
  EXPECT_EQ(out, (std::vector<float>{6, -0.5F, 34, 0}));

  std::vector<float> last(2, kNan);
  const std::vector<int32_t> rows = {1};
  backend_->matmul({.weight = *weight,
                    .x = view(x, {2, 3}),
                    .out = view(last, {1, 2}),
                    .bias = view(bias, {2}),
                    .rows = rows});
  EXPECT_EQ(last, (std::vector<float>{134, 200}));
}

TEST_F(ReferenceTest, RmsNormDividesByTheRootMeanSquare) {
  std::vector<float> x = {3, 4, 0, 0};  // mean square 6.25
  std::vector<float> weight = {1, 2, 3, 4};
  backend_->rms_norm(
      {.x = view(x, {1, 4}), .weight = view(weight, {4}), .epsilon = 0, .out = view(x, {1, 4})});
  EXPECT_EQ(x, (std::vector<float>{1.2F, 3.2F, 0, 0}));

  std::vector<float> y = {2, 2};
  std::vector<float> delta = {1, 2};
  std::vector<float> ones = {1, 1};
  std::vector<float> out(2, kNan);
  backend_->add_rms_norm({.x = view(y, {1, 2}),
                          .delta = view(delta, {1, 2}),
                          .weight = view(ones, {2}),
                          .epsilon = 12.5F,  // 12.5 + (9 + 16) / 2 = 25
                          .out = view(out, {1, 2})});
  EXPECT_EQ(y, (std::vector<float>{3, 4}));
  EXPECT_EQ(out, (std::vector<float>{0.6F, 0.8F}));
}

TEST_F(ReferenceTest, ActivationsAndSoftCap) {
  std::vector<float> gate = {0, 1, -20};
  std::vector<float> up = {5, 2, 1};
  std::vector<float> out(3, kNan);
  backend_->gated_activation({.activation = Activation::silu,
                              .gate = view(gate, {1, 3}),
                              .up = view(up, {1, 3}),
                              .out = view(out, {1, 3})});
  EXPECT_FLOAT_EQ(out[1], 1.4621172F);
  EXPECT_FLOAT_EQ(out[2], -4.1223072e-8F);
  backend_->gated_activation({.activation = Activation::gelu_tanh,
                              .gate = view(gate, {1, 3}),
                              .up = view(up, {1, 3}),
                              .out = view(out, {1, 3})});
  EXPECT_FLOAT_EQ(out[0], 0.0F);
  EXPECT_FLOAT_EQ(out[1], 1.6823840F);

  std::vector<float> x = {0, 30, -1000};
  backend_->soft_cap({.x = view(x, {3}), .cap = 30.0F});
  EXPECT_FLOAT_EQ(x[1], 22.847825F);
  EXPECT_FLOAT_EQ(x[2], -30.0F);
}

TEST_F(ReferenceTest, RopeTurnsPairsOfEitherLayout) {
  const std::vector<int32_t> positions = {1};
  std::vector<float> inv_freq = {std::acos(0.0F), 0.0F};  // a quarter turn, and none
  std::vector<float> angles(4, kNan);
  backend_->rope_angles({.positions = positions,
                         .inv_freq = view(inv_freq, {2}),
                         .magnitude = 2.0F,
                         .out = view(angles, {1, 2, 2})});
  EXPECT_NEAR(angles[0], 0.0F, 1e-6F);
  EXPECT_FLOAT_EQ(angles[1], 2.0F);
  EXPECT_FLOAT_EQ(angles[2], 2.0F);
  EXPECT_FLOAT_EQ(angles[3], 0.0F);

  angles = {0, 2, 2, 0};
  std::vector<float> halves = {1, 10, 2, 20, 7};  // the fifth element is past rotary_dim
  backend_->rope({.x = view(halves, {1, 1, 5}), .angles = view(angles, {1, 2, 2})});
  EXPECT_EQ(halves, (std::vector<float>{-4, 20, 2, 40, 7}));
  std::vector<float> pairs = {1, 2, 10, 20, 7};
  backend_->rope({.x = view(pairs, {1, 1, 5}),
                  .angles = view(angles, {1, 2, 2}),
                  .layout = RopeLayout::interleaved});
  EXPECT_EQ(pairs, (std::vector<float>{-4, 2, 20, 40, 7}));
}

/// One sequence of five tokens in blocks of two, scattered; key and value p are [p], head_dim 1.
class ReferenceAttentionTest : public ReferenceTest {
 protected:
  ReferenceAttentionTest() {
    std::vector<float> values = {0, 1, 2, 3, 4};
    const std::vector<int32_t> query_start = {0, 5};
    const PagedBatch batch{.query_start = query_start,
                           .context_len = context_,
                           .block_tables = table_,
                           .block_table_stride = 3,
                           .slots = slots_};
    const Tensor rows = view(values, {5, 1, 1});
    backend_->kv_write({.cache = *cache_, .layer = 1, .k = rows, .v = rows, .batch = batch});
  }

  /// The last token's result for a query of two heads with q = {1, 0}.
  std::vector<float> attend(float scale, float soft_cap, int64_t window) {
    std::vector<float> q = {1, 0};
    std::vector<float> out(2, kNan);
    const std::vector<int32_t> query_start = {0, 1};
    const PagedBatch batch{.query_start = query_start,
                           .context_len = context_,
                           .block_tables = table_,
                           .block_table_stride = 3,
                           .slots = std::span(slots_).last(1)};
    backend_->attention({.q = view(q, {1, 2, 1}),
                         .cache = *cache_,
                         .layer = 1,
                         .batch = batch,
                         .scale = scale,
                         .soft_cap = soft_cap,
                         .window = window,
                         .out = view(out, {1, 2, 1})});
    return out;
  }

  std::vector<int32_t> table_ = {3, 0, 2};
  std::vector<int32_t> slots_ = {6, 7, 0, 1, 4};
  std::vector<int32_t> context_ = {5};
  std::unique_ptr<KvCache> cache_ = backend_->make_kv_cache({.num_layers = 2,
                                                             .num_blocks = 4,
                                                             .block_size = 2,
                                                             .num_kv_heads = 1,
                                                             .head_dim = 1,
                                                             .types = {}});
};

TEST_F(ReferenceAttentionTest, WeighsValuesBySoftmax) {
  // With scale ln 2 key p has the weight 2^p: (0 + 2 + 8 + 24 + 64) / 31.
  const auto out = attend(std::log(2.0F), 0.0F, 0);
  EXPECT_FLOAT_EQ(out[0], 98.0F / 31.0F);
  EXPECT_FLOAT_EQ(out[1], 2.0F);  // q = 0: the mean
}

TEST_F(ReferenceAttentionTest, WindowSeesTheLastKeysOnly) {
  table_[0] = -1;  // positions 0 and 1 have left the window
  const auto out = attend(std::log(2.0F), 0.0F, 3);
  EXPECT_FLOAT_EQ(out[0], (2 * 1 + 3 * 2 + 4 * 4) / 7.0F);
  EXPECT_FLOAT_EQ(out[1], 3.0F);
  EXPECT_THROW(attend(1.0F, 0.0F, 4), Error) << "a key of the lost block is needed";
}

TEST_F(ReferenceAttentionTest, SoftCapBoundsScores) {
  double sum = 0.0;
  double total = 0.0;
  for (int p = 0; p < 5; ++p) {
    const double weight = std::exp(2.0 * std::tanh(10.0 * p / 2.0));
    sum += p * weight;
    total += weight;
  }
  EXPECT_FLOAT_EQ(attend(10.0F, 2.0F, 0)[0], static_cast<float>(sum / total));
}

TEST_F(ReferenceAttentionTest, CopiedBlocksHoldAllLayers) {
  const std::vector<std::pair<int32_t, int32_t>> pairs = {{0, 1}};
  backend_->copy_blocks(*cache_, pairs);
  const auto before = attend(1.0F, 0.0F, 0);
  table_[1] = 1;
  EXPECT_EQ(attend(1.0F, 0.0F, 0), before);
}

TEST_F(ReferenceTest, BringsMemoryInOnRequest) {
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  const OwnedTensor owned(DType::f32, {3, int64_t{1} << 20});
  backend_->bring_in_memory(owned.view);
  EXPECT_EQ(resident_bytes(page_of(owned.view.data()), owned.view.num_bytes()), 12 << 20);

  const auto cache = backend_->make_kv_cache(
      {.num_layers = 2, .num_blocks = 1024, .block_size = 16, .num_kv_heads = 2, .head_dim = 64});
  const auto& paged = dynamic_cast<const reference::PagedKvCache&>(*cache);
  double told = 0;
  backend_->bring_in(*cache, [&](double fraction) { told = fraction; });
  EXPECT_EQ(told, 1);
  const int64_t half = reference::PagedKvCache::num_bytes(cache->spec()) / 2;
  EXPECT_EQ(half, 8 << 20);
  EXPECT_EQ(resident_bytes(page_of(paged.key(0, 0, 0)), half), half);
  EXPECT_EQ(resident_bytes(page_of(paged.value(0, 0, 0)), half), half);
}

TEST_F(ReferenceTest, CacheBytesAreKeysAndValues) {
  EXPECT_EQ(backend_->kv_cache_bytes({.num_layers = 2,
                                      .num_blocks = 3,
                                      .block_size = 16,
                                      .num_kv_heads = 4,
                                      .head_dim = 8,
                                      .types = {.keys = DType::f16, .values = DType::f32}}),
            2 * 3 * 16 * 4 * 8 * (2 + 4));
}

}  // namespace
}  // namespace hasten::ops
