// SPDX-License-Identifier: Apache-2.0
// Tests of what the kernels of each instruction set compute, and of how one is chosen. Operations
// as a whole are held to the reference in tests/conformance.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/ceilings.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "tensor/float8.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

namespace hasten::cpu {
namespace {

/// Sets HASTEN_CPU_ISA for its lifetime, and puts back what was there.
class ScopedIsa {
 public:
  explicit ScopedIsa(const char* value) {
    const char* old = std::getenv(kName);
    if (old != nullptr) old_ = old;
    had_ = old != nullptr;
    if (value != nullptr) {
      setenv(kName, value, 1);
    } else {
      unsetenv(kName);
    }
  }
  ~ScopedIsa() {
    if (had_) {
      setenv(kName, old_.c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  static constexpr const char* kName = "HASTEN_CPU_ISA";
  std::string old_;
  bool had_ = false;
};

class KernelTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

TEST_P(KernelTest, ExponentialIsAccurate) {
  std::vector<float> x;
  for (float v = -87.0F; v <= 88.3F; v += 0.00137F) x.push_back(v);
  std::vector<float> y(x.size());
  kernels().exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(double{x[i]});
    worst = std::max(worst, std::fabs(y[i] - want) / want);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
}

TEST_P(KernelTest, ExponentialOfExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0F, -0.0F, -kInfinity, -1000.0F, kInfinity, 1000.0F, NAN};
  std::vector<float> y(x.size());
  kernels().exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[1], 1.0F);
  EXPECT_EQ(y[2], 0.0F);
  EXPECT_EQ(y[3], 0.0F);
  EXPECT_EQ(y[4], kInfinity);
  EXPECT_EQ(y[5], kInfinity);
  EXPECT_TRUE(std::isnan(y[6]));
}

/// Of one row of 16 elements, and nothing.
struct OneSoftmax {
  std::vector<float> sums = std::vector<float>(kSumLanes);
  std::vector<float> out = std::vector<float>(16);
  float max = -std::numeric_limits<float>::infinity();
  SoftmaxState state() { return {.max = &max, .sums = sums.data(), .out = out.data()}; }
};

/// A thread that does all spans of a piece does not merge the first one; those that share it do.
TEST_P(KernelTest, MergedWithNothingASoftmaxIsACopy) {
  OneSoftmax part;
  part.max = -3.5F;
  for (size_t i = 0; i < 16; ++i) {
    part.sums[i] = static_cast<float>(i);
    part.out[i] = i % 2 == 0 ? -0.0F : -1e-40F * static_cast<float>(i);
  }
  // What saw nothing beside a key that is no number has weighed it with zero.
  for (const float left : {0.0F, std::numeric_limits<float>::quiet_NaN()}) {
    OneSoftmax nothing;
    std::fill(nothing.out.begin(), nothing.out.end(), left);
    OneSoftmax total = nothing;
    kernels().merge_softmax(
        {.total = total.state(), .part = part.state(), .rows = 1, .padded_dim = 16});
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(total.max, part.max);
      EXPECT_EQ(std::memcmp(total.sums.data(), part.sums.data(), 64), 0) << left << round;
      EXPECT_EQ(std::memcmp(total.out.data(), part.out.data(), 64), 0) << left << round;
      kernels().merge_softmax(
          {.total = total.state(), .part = nothing.state(), .rows = 1, .padded_dim = 16});
    }
  }
}

TEST_P(KernelTest, SoftCapIsAccurateNearZeroAndFar) {
  std::vector<float> x;
  for (float v = 1e-6F; v < 500.0F; v *= 1.01F) {
    x.push_back(v);
    x.push_back(-v);
  }
  std::vector<float> y = x;
  kernels().soft_cap(y.data(), static_cast<int64_t>(y.size()), 30.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = 30.0 * std::tanh(x[i] / 30.0);
    EXPECT_NEAR(y[i], want, std::fabs(want) * 4e-7) << x[i];
  }
}

/// Brings the one token of a block to position `at` of a tile.
void load_token(const KernelTable& kernels, KvKind kind, const void* keys, const void* values,
                int64_t head_dim, int64_t at, std::vector<float>& tile_keys,
                std::vector<float>& tile_values) {
  kernels.attention.kv_load({.keys = static_cast<const uint8_t*>(keys),
                             .values = static_cast<const uint8_t*>(values),
                             .key_kind = kind,
                             .value_kind = kind,
                             .head_dim = head_dim,
                             .block_size = 1,
                             .first = 0,
                             .count = 1,
                             .tile_keys = tile_keys.data(),
                             .tile_values = tile_values.data(),
                             .padded_dim = head_dim,
                             .at = at});
}

// Runs of tokens at any place of a block, and nothing but them.
TEST_P(KernelTest, PairsOfARunLieWhereTheyAreRead) {
  if (kernels().bf16_pairs.store == nullptr)
    GTEST_SKIP() << "no pairs of bf16 on this instruction set";
  constexpr uint16_t kUntouched = 0xabab;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const int64_t head_dim : {16, 48, 64}) {
    for (const int64_t block_size : {16, 32, 48}) {
      const int64_t stride = head_dim + 5;
      std::vector<float> k(block_size * stride);
      std::vector<float> v(block_size * stride);
      for (float& x : k) x = normal(random);
      for (float& x : v) x = normal(random);
      for (int64_t first = 0; first < block_size; ++first) {
        for (int64_t count = 1; first + count <= block_size; ++count) {
          constexpr int64_t kGuard = 64 * 32;  // elements; rows of a larger head in a larger block
          const int64_t size = block_size * head_dim;
          std::vector<uint16_t> guarded_keys(kGuard + size + kGuard, kUntouched);
          std::vector<uint16_t> guarded_values(guarded_keys);
          uint16_t* keys = guarded_keys.data() + kGuard;
          uint16_t* values = guarded_values.data() + kGuard;
          kernels().bf16_pairs.store({.k = k.data(),
                                      .v = v.data(),
                                      .token_stride = stride,
                                      .count = count,
                                      .head_dim = head_dim,
                                      .block_size = block_size,
                                      .first = first,
                                      .keys = reinterpret_cast<uint8_t*>(keys),
                                      .values = reinterpret_cast<uint8_t*>(values)});
          for (int64_t t = 0; t < block_size; ++t) {
            const bool stored = t >= first && t < first + count;
            for (int64_t d = 0; d < head_dim; ++d) {
              const int64_t from = (t - first) * stride + d;
              ASSERT_EQ(keys[(d / 2 * block_size + t) * 2 + d % 2],
                        stored ? f32_to_bf16(k[from]) : kUntouched)
                  << "key " << t << " of run " << first << " + " << count << ", element " << d;
              ASSERT_EQ(values[(t / 2 * head_dim + d) * 2 + t % 2],
                        stored ? f32_to_bf16(v[from]) : kUntouched)
                  << "value " << t << " of run " << first << " + " << count << ", element " << d;
            }
          }
          const auto is_untouched = [](uint16_t element) { return element == kUntouched; };
          for (const auto* guarded : {&guarded_keys, &guarded_values}) {
            ASSERT_TRUE(std::all_of(guarded->begin(), guarded->begin() + kGuard, is_untouched));
            ASSERT_TRUE(std::all_of(guarded->end() - kGuard, guarded->end(), is_untouched));
          }
        }
      }
    }
  }
}

// Every binary16 and bf16 through the cache: exact in, rounded to nearest even out.
TEST_P(KernelTest, CacheConversionsMatchTheScalarOnes) {
  constexpr int64_t kDim = 16;
  const auto saturated_f16 = [](float x) {
    return f32_to_f16(std::isnan(x) ? x : std::clamp(x, -65504.0F, 65504.0F));
  };
  std::vector<float> tile_keys(kDim * kTileKeys);
  std::vector<float> tile_values(kTileKeys * kDim);
  const auto check = [&](KvKind kind, const std::vector<float>& in, auto to_bits, auto to_float) {
    std::vector<uint16_t> keys(kDim);
    std::vector<uint16_t> values(kDim);
    for (std::vector<uint16_t>* to : {&keys, &values})
      kernels().kv_store({.x = in.data(),
                          .count = kDim,
                          .kind = kind,
                          .data = to->data(),
                          .first = 0,
                          .stride = 1});
    load_token(kernels(), kind, keys.data(), values.data(), kDim, 5, tile_keys, tile_values);
    for (int64_t d = 0; d < kDim; ++d) {
      const uint16_t want = to_bits(in[d]);
      if (std::isnan(in[d])) {
        EXPECT_TRUE(std::isnan(tile_values[5 * kDim + d]));
        continue;
      }
      EXPECT_EQ(keys[d], want) << in[d];
      EXPECT_EQ(values[d], want) << in[d];
      EXPECT_EQ(tile_values[5 * kDim + d], to_float(want));
      EXPECT_EQ(tile_keys[d * kTileKeys + 5], to_float(want));
    }
  };
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<float> in(kDim);
    for (float& v : in) {
      v = std::bit_cast<float>(static_cast<uint32_t>(random()));
      if (round % 2 == 0) v = f16_to_f32(static_cast<uint16_t>(random()));
    }
    check(KvKind::f16, in, saturated_f16, f16_to_f32);
    check(KvKind::bf16, in, f32_to_bf16, bf16_to_f32);
  }
}

TEST_P(KernelTest, EveryE4M3IsReadAsTheScalarOneIs) {
  constexpr int64_t kDim = 256;
  std::vector<uint8_t> codes(kDim);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  std::vector<float> tile_keys(kDim * kTileKeys);
  std::vector<float> tile_values(kTileKeys * kDim);
  load_token(kernels(), KvKind::f8_e4m3, codes.data(), codes.data(), kDim, 0, tile_keys,
             tile_values);
  for (int64_t i = 0; i < kDim; ++i) {
    const float want = f8_e4m3_to_f32(codes[i]);
    for (const float got : {tile_values[i], tile_keys[i * kTileKeys]}) {
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelTest,
                         ::testing::ValuesIn(supported_kernels().begin(),
                                             supported_kernels().end()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

TEST(Isa, GenericIsAlwaysThereAndLast) {
  ASSERT_FALSE(supported_isas().empty());
  EXPECT_EQ(supported_isas().back(), "generic");
}

TEST(Isa, ByNameElseByEnvironmentElseTheBest) {
  {
    const ScopedIsa none(nullptr);
    EXPECT_EQ(select_kernels({}).name, supported_isas().front());
    EXPECT_STREQ(select_kernels("generic").name, "generic");
    EXPECT_THROW((void)select_kernels("avx1024"), Error);
  }
  const ScopedIsa generic("generic");
  EXPECT_STREQ(select_kernels({}).name, "generic");
  EXPECT_EQ(select_kernels(supported_isas().front()).name, supported_isas().front());
  EXPECT_EQ(make_cpu_backend({.threads = 2})->name(), "cpu (generic, 2 threads)");
}

TEST(Isa, RefusesNegativeThreads) { EXPECT_THROW(make_cpu_backend({.threads = -1}), Error); }

TEST(Ceilings, AreOfThisCentury) {
  CeilingMeter meter(1);
  const Ceilings ceilings = meter.measure(20'000);
  EXPECT_GT(ceilings.read_bytes_per_s, 1e7);
  EXPECT_GE(ceilings.best_read_bytes_per_s, ceilings.read_bytes_per_s);
  EXPECT_LT(ceilings.best_read_bytes_per_s, 1e13);
  EXPECT_GT(meter.read_rate(), 1e7);
  EXPECT_GT(ceilings.int8_ops_per_s, 1e7);
  if (bf16_peak_kernel() == nullptr) {
    EXPECT_EQ(ceilings.bf16_flops_per_s, 0);
  } else {
    EXPECT_GT(ceilings.bf16_flops_per_s, 1e7);
  }
  EXPECT_GT(ceilings.f32_flops_per_s, 1e7);
  EXPECT_LT(ceilings.f32_flops_per_s, 1e14);
  EXPECT_GT(CeilingMeter(2).barrier_us(20'000), 0);
}

}  // namespace
}  // namespace hasten::cpu
