// SPDX-License-Identifier: Apache-2.0
// Batch invariance of the operations that treat each row by itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "candidates.h"
#include "device_data.h"

namespace hasten::conformance {
namespace {

constexpr int64_t kNumRows = 40;

class RowsInvarianceTest : public ConformanceTest {
 protected:
  /// `operation` computes rows [first, first + count), each of num_columns. Every row alone on one
  /// thread must equal, in every bit, the same row of any range on any number of threads.
  using Operation = std::function<std::vector<float>(ops::Backend&, int64_t first, int64_t count)>;
  void check(int64_t num_columns, const Operation& operation) {
    std::vector<float> alone;
    const auto single = make(1);
    for (int64_t row = 0; row < kNumRows; ++row) {
      const auto result = operation(*single, row, 1);
      alone.insert(alone.end(), result.begin(), result.end());
    }
    for (const int32_t threads : {1, 2, 3}) {
      const auto backend = make(threads);
      for (const int64_t count : {2, 3, 5, 7, 16, 31, 40}) {
        const int64_t first = random_.between(0, kNumRows - count);
        const auto expected = std::span(alone).subspan(first * num_columns, count * num_columns);
        ASSERT_EQ(bit_difference(operation(*backend, first, count), expected, num_columns),
                  std::nullopt)
            << count << " rows from row " << first << ", on " << threads << " threads";
      }
    }
  }

  /// Rows [first, first + count) of a host matrix on the device.
  static ops::DeviceTensor part(ops::Backend& backend, const std::vector<float>& values,
                                int64_t first, int64_t count, int64_t num_columns) {
    const auto range = std::span(values).subspan(first * num_columns, count * num_columns);
    return to_device(backend, {range.begin(), range.end()}, {count, num_columns});
  }

  Random random_ = make_random();
};

TEST_P(RowsInvarianceTest, Embed) {
  const HostMatrix table = random_matrix(DType::q4_k, 50, 256, random_);
  auto ids = random_.permutation(50);
  check(256, [&](ops::Backend& backend, int64_t first, int64_t count) {
    const auto weight = backend.prepare_embedding(table.tensor.view);
    GuardedOutput out(backend, {count, 256});
    backend.embed({.table = *weight,
                   .ids = std::span(ids).subspan(first, count),
                   .scale = 3.3F,
                   .out = out.view()});
    return out.take();
  });
}

TEST_P(RowsInvarianceTest, Norms) {
  for (const int64_t dim : {33, 100, 512}) {
    const auto x = random_.normals(kNumRows * dim);
    const auto delta = random_.normals(kNumRows * dim);
    const auto scale = random_.normals(dim);
    check(dim, [&](ops::Backend& backend, int64_t first, int64_t count) {
      const auto input = part(backend, x, first, count, dim);
      const auto weight = to_device(backend, scale, {dim});
      GuardedOutput out(backend, {count, dim});
      backend.rms_norm({.x = input.view, .weight = weight.view, .out = out.view()});
      return out.take();
    });
    check(dim, [&](ops::Backend& backend, int64_t first, int64_t count) {
      const auto sum = part(backend, x, first, count, dim);
      const auto change = part(backend, delta, first, count, dim);
      const auto weight = to_device(backend, scale, {dim});
      GuardedOutput out(backend, {count, dim});
      backend.add_rms_norm(
          {.x = sum.view, .delta = change.view, .weight = weight.view, .out = out.view()});
      return out.take();
    });
  }
}

TEST_P(RowsInvarianceTest, ActivationsAndSoftCap) {
  for (const int64_t dim : {1, 13, 100, 259}) {
    const auto gate = random_.normals(kNumRows * dim, 3.0F);
    const auto up = random_.normals(kNumRows * dim);
    for (const auto activation : {ops::Activation::silu, ops::Activation::gelu_tanh}) {
      check(dim, [&](ops::Backend& backend, int64_t first, int64_t count) {
        const auto gates = part(backend, gate, first, count, dim);
        const auto ups = part(backend, up, first, count, dim);
        GuardedOutput out(backend, {count, dim});
        backend.gated_activation(
            {.activation = activation, .gate = gates.view, .up = ups.view, .out = out.view()});
        return out.take();
      });
    }
    check(dim, [&](ops::Backend& backend, int64_t first, int64_t count) {
      const auto range = std::span(gate).subspan(first * dim, count * dim);
      GuardedOutput out(backend, {count, dim}, {range.begin(), range.end()});
      backend.soft_cap({.x = out.view(), .cap = 2.0F});
      return out.take();
    });
  }
}

TEST_P(RowsInvarianceTest, Rope) {
  constexpr int64_t kHeads = 3;
  constexpr int64_t kHeadDim = 80;
  constexpr int64_t kHalf = 20;
  const auto x = random_.normals(kNumRows * kHeads * kHeadDim);
  const auto frequencies = random_.normals(kHalf);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < kNumRows; ++i) {
    positions.push_back(static_cast<int32_t>(random_.between(0, 100000)));
  }
  const auto angles = [&](ops::Backend& backend, int64_t first, int64_t count) {
    const auto inv_freq = to_device(backend, frequencies, {kHalf});
    GuardedOutput out(backend, {count, 2, kHalf});
    backend.rope_angles({.positions = std::span(positions).subspan(first, count),
                         .inv_freq = inv_freq.view,
                         .out = out.view()});
    return out.take();
  };
  check(2 * kHalf, angles);
  for (const auto layout : {ops::RopeLayout::halves, ops::RopeLayout::interleaved}) {
    check(kHeads * kHeadDim, [&](ops::Backend& backend, int64_t first, int64_t count) {
      const auto turns = to_device(backend, angles(backend, first, count), {count, 2, kHalf});
      const auto range = std::span(x).subspan(first * kHeads * kHeadDim, count * kHeads * kHeadDim);
      GuardedOutput out(backend, {count, kHeads, kHeadDim}, {range.begin(), range.end()});
      backend.rope({.x = out.view(), .angles = turns.view, .layout = layout});
      return out.take();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowsInvarianceTest, ::testing::ValuesIn(candidates()),
                         candidate_name);

}  // namespace
}  // namespace hasten::conformance
