// SPDX-License-Identifier: Apache-2.0
// Batch invariance of matrix products: a row's bits depend on no other row and on no thread count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "candidates.h"
#include "device_data.h"

namespace hasten::conformance {
namespace {

constexpr int64_t kMaxRows = 40;  // past every row tile of a CPU kernel
/// From a row that is compared to the next.
constexpr int64_t kComparedStride = testing::kSanitized ? 5 : 1;

using MatmulInvarianceTest = FormatConformanceTest;

TEST_P(MatmulInvarianceTest, RowsAloneEqualRowsInAnyBatch) {
  Random random = make_random();
  const int64_t block = info(dtype()).block_size;
  const int64_t k = block > 1 ? block * random.pick<int64_t>({1, 3, 5}) : random.between(60, 300);
  const int64_t n = random.between(17, 90);
  const HostMatrix matrix = random_matrix(dtype(), n, k, random);
  const auto values = random.normals(kMaxRows * k);
  const auto bias_values = random.normals(n);

  std::vector<float> alone;  // [kMaxRows, n], each row computed by itself on one thread
  for (const int32_t threads : {1, 2, 3}) {
    const auto backend = make(threads);
    const auto weight = backend->prepare_weight(matrix.tensor.view);
    const auto x = to_device(*backend, values, {kMaxRows, k});
    const auto bias = to_device(*backend, bias_values, {n});
    const auto multiply = [&](int64_t first, int64_t count, std::span<const int32_t> rows = {}) {
      const int64_t m = rows.empty() ? count : static_cast<int64_t>(rows.size());
      GuardedOutput out(*backend, {m, n});
      backend->matmul({.weight = *weight,
                       .x = x.view.slice(first, count),
                       .out = out.view(),
                       .bias = bias.view,
                       .rows = rows});
      return out.take();
    };

    for (int64_t row = 0; row < kMaxRows; ++row) {
      const auto result = multiply(row, 1);
      if (threads == 1) {
        alone.insert(alone.end(), result.begin(), result.end());
      } else {
        ASSERT_EQ(bit_difference(result, row_of(alone, row, n), n), std::nullopt)
            << "row " << row << " alone, on " << threads << " threads";
      }
    }
    for (int64_t m = 1; m <= kMaxRows; ++m) {
      const int64_t first = random.between(0, kMaxRows - m);
      const auto expected = std::span(alone).subspan(first * n, m * n);
      ASSERT_EQ(bit_difference(multiply(first, m), expected, n), std::nullopt)
          << m << " rows from row " << first << ", on " << threads << " threads";
    }
    const auto rows = random.permutation(kMaxRows);
    const auto gathered = multiply(0, kMaxRows, rows);
    for (int64_t i = 0; i < kMaxRows; ++i) {
      ASSERT_EQ(bit_difference(row_of(gathered, i, n), row_of(alone, rows[i], n), n), std::nullopt)
          << "gathered row " << rows[i] << ", on " << threads << " threads";
    }
  }
}

// So many rows and columns that they do not stay in L2 together, and take several passes.
TEST_P(MatmulInvarianceTest, RowsAloneEqualRowsOfSeveralPasses) {
  constexpr int64_t kColumns = 8192;
  const int64_t num_rows = candidate().is_reference() ? 9 : 200;
  constexpr int64_t kFeatures = 70;  // a whole tile of groups, and what is left
  Random random = make_random();
  const HostMatrix matrix = random_matrix(dtype(), kFeatures, kColumns, random);
  const auto backend = make(1);  // which takes all groups in one piece
  const auto weight = backend->prepare_weight(matrix.tensor.view);
  const auto x = to_device(*backend, random.normals(num_rows * kColumns), {num_rows, kColumns});
  const auto multiply = [&](int64_t first, int64_t count) {
    GuardedOutput out(*backend, {count, kFeatures});
    backend->matmul({.weight = *weight, .x = x.view.slice(first, count), .out = out.view()});
    return out.take();
  };
  const auto together = multiply(0, num_rows);
  // Where passes meet is the kernels' own affair: about the middle, every row.
  std::vector<int64_t> compared = {0, 5, 22, 150, 199};
  for (int64_t row = 80; row <= 110; row += kComparedStride) compared.push_back(row);
  for (const int64_t row : compared) {
    if (row >= num_rows) continue;
    ASSERT_EQ(bit_difference(multiply(row, 1), row_of(together, row, kFeatures), kFeatures),
              std::nullopt)
        << "row " << row;
  }
}

// Columns about the ends of blocks of 512, where a format has such, and so many rows that no cache
// makes them one pass.
TEST_P(MatmulInvarianceTest, RowsAloneEqualRowsOfSeveralBlocksOfColumns) {
  constexpr int64_t kFeatures = 70;
  Random random = make_random();
  const auto backend = make(1);
  const auto expect_equal = [&](int64_t columns, int64_t num_rows, int64_t stride) {
    const HostMatrix matrix = random_matrix(dtype(), kFeatures, columns, random);
    const auto weight = backend->prepare_weight(matrix.tensor.view);
    const auto x = to_device(*backend, random.normals(num_rows * columns), {num_rows, columns});
    const auto bias = to_device(*backend, random.normals(kFeatures), {kFeatures});
    const auto multiply = [&](int64_t first, int64_t count) {
      GuardedOutput out(*backend, {count, kFeatures});
      backend->matmul({.weight = *weight,
                       .x = x.view.slice(first, count),
                       .out = out.view(),
                       .bias = bias.view});
      return out.take();
    };
    const auto together = multiply(0, num_rows);
    for (int64_t row = 0; row < num_rows; row += stride) {
      ASSERT_EQ(bit_difference(multiply(row, 1), row_of(together, row, kFeatures), kFeatures),
                std::nullopt)
          << "row " << row << " of " << num_rows << ", " << columns << " columns";
    }
  };
  const bool is_float = info(dtype()).block_size == 1;
  const auto several = is_float ? std::vector<int64_t>{511, 512, 513, 514, 1024, 1025}
                                : std::vector<int64_t>{256, 512, 768, 1280};
  for (const int64_t columns : several) {
    for (const int64_t num_rows : {3, 6, 7, 12, 13, 40})
      expect_equal(columns, num_rows, kComparedStride);
  }
  if (!candidate().is_reference()) expect_equal(several.back(), 520, 11);
}

// A norm with the products that take it, in one operation, is the norm and then the products: of
// weights that take the activations alike, and of others.
TEST_P(MatmulInvarianceTest, NormsBeforeProductsChangeNothing) {
  Random random = make_random();
  constexpr int64_t kColumns = 512;
  constexpr int64_t kOut = 50;
  const HostMatrix first = random_matrix(dtype(), kOut, kColumns, random);
  const HostMatrix alike = random_matrix(dtype(), kOut, kColumns, random);
  const HostMatrix other = random_matrix(DType::q5_1, kOut, kColumns, random);
  const auto values = random.normals(kMaxRows * kColumns);
  const auto changes = random.normals(kMaxRows * kColumns);
  const auto scales = random.normals(kColumns);

  for (const int32_t threads : {1, 3}) {
    const auto backend = make(threads);
    const auto scale = to_device(*backend, scales, {kColumns});
    const std::array weights = {backend->prepare_weight(first.tensor.view),
                                backend->prepare_weight(alike.tensor.view),
                                backend->prepare_weight(other.tensor.view)};
    /// The sum, then all outputs.
    const auto compute = [&](int64_t rows, bool adds, size_t second, bool fused) {
      const Shape shape{rows, kColumns};
      const auto begin = [&](const std::vector<float>& all) {
        return std::vector<float>(all.begin(), all.begin() + rows * kColumns);
      };
      GuardedOutput sum(*backend, shape, begin(values));
      const auto delta = to_device(*backend, begin(changes), shape);
      const auto x = backend->allocate(DType::f32, shape);
      GuardedOutput a(*backend, {rows, kOut});
      GuardedOutput b(*backend, {rows, kOut});
      const ops::AddRmsNormParams norm{.x = sum.view(),
                                       .delta = adds ? delta.view : Tensor(),
                                       .weight = scale.view,
                                       .out = x.view};
      const std::array group = {
          ops::MatmulParams{.weight = *weights[0], .x = x.view, .out = a.view()},
          ops::MatmulParams{.weight = *weights[second], .x = x.view, .out = b.view()}};
      if (fused) {
        backend->norm_matmul_group(norm, group);
      } else {
        backend->add_rms_norm(norm);
        backend->matmul_group(group);
      }
      std::vector<float> result = sum.take();
      for (GuardedOutput* output : {&a, &b}) {
        const auto more = output->take();
        result.insert(result.end(), more.begin(), more.end());
      }
      return result;
    };
    for (const int64_t rows : {1, 5, 13, 40}) {
      for (const bool adds : {false, true}) {
        for (const size_t second : {1, 2}) {
          const auto expected = compute(rows, adds, second, false);
          const auto result = compute(rows, adds, second, true);
          ASSERT_EQ(bit_difference(result, expected, std::ssize(expected)), std::nullopt)
              << rows << " rows, on " << threads << " threads, adds " << adds << ", weight "
              << second;
        }
      }
    }
  }
}

// A gated feed-forward block in one operation is its norm, gate and up with the activation, and
// down: with so few columns between them that a backend takes them as they are, and with so many
// that it may not, of whole activation scales or not, in pieces that go evenly into the
// threads or not; with more rows than pass together; with up of another format, and down of each
// kind of activations.
TEST_P(MatmulInvarianceTest, FeedForwardBlocksInOneOperationChangeNothing) {
  Random random = make_random();
  constexpr int64_t kColumns = 256;
  constexpr int64_t kOut = 20;
  const auto scales = random.normals(kColumns);
  const auto down_format = [](int64_t inner, DType wanted) {
    return inner % info(wanted).block_size == 0 ? wanted : DType::f32;
  };
  for (const int64_t inner : {50, 256, 1824, 2560}) {
    if (inner > 256 && candidate().is_reference()) continue;
    // The largest decide who does what, which is one code for all instruction sets and formats.
    if (inner > 1824 && candidate().name == "cpu_generic") continue;
    if (inner > 256 && !tries_long_ones()) continue;
    const auto other_format =
        random.pick<DType>({DType::q4_0, DType::q4_k, DType::q6_k, DType::iq4_nl});
    const HostMatrix first = random_matrix(dtype(), inner, kColumns, random);
    const std::array second = {random_matrix(dtype(), inner, kColumns, random),
                               random_matrix(DType::q5_1, inner, kColumns, random)};
    const std::array last = {random_matrix(down_format(inner, dtype()), kOut, inner, random),
                             random_matrix(down_format(inner, other_format), kOut, inner, random)};
    const auto biases = random.normals(2 * inner + kOut);
    for (const int32_t threads : {1, 3}) {
      // One thread, where it may make a difference; all of it would take long.
      const bool alone = inner == 1824 || (inner == 2560 && dtype() == DType::q8_0);
      if (alone != (threads == 1)) continue;
      const bool many = inner == 2560 && threads == 3 && dtype() == DType::q4_0;
      const auto backend = make(threads);
      ops::StepLimits limits = kStepLimits;
      if (many) limits.max_tokens = 1030;
      const auto scale = to_device(*backend, scales, {kColumns});
      const auto bias = to_device(*backend, biases, {2 * inner + kOut});
      const auto gate = backend->prepare_weight(first.tensor.view);
      const std::array ups = {backend->prepare_weight(second[0].tensor.view),
                              backend->prepare_weight(second[1].tensor.view)};
      const std::array downs = {backend->prepare_weight(last[0].tensor.view),
                                backend->prepare_weight(last[1].tensor.view)};
      backend->reserve(limits);
      std::vector<int64_t> numbers = {inner < 1824 ? 13 : 70};
      if (inner < 1824) numbers.push_back(5);
      if (many) numbers.push_back(1030);
      for (const int64_t rows : numbers) {
        const auto values = random.normals(rows * kColumns);
        const auto changes = random.normals(rows * kColumns);
        const auto activation =
            random.pick<ops::Activation>({ops::Activation::silu, ops::Activation::gelu_tanh});
        const auto compute = [&](size_t kind, bool with_bias, bool fused) {
          const auto bias_of = [&](int64_t begin, int64_t count) {
            return with_bias ? bias.view.slice(begin, count) : Tensor();
          };
          GuardedOutput sum(*backend, {rows, kColumns}, values);
          const auto delta = to_device(*backend, changes, {rows, kColumns});
          const auto x = backend->allocate(DType::f32, {rows, kColumns});
          const auto a = backend->allocate(DType::f32, {rows, inner});
          const auto b = backend->allocate(DType::f32, {rows, inner});
          GuardedOutput out(*backend, {rows, kOut});
          const ops::AddRmsNormParams norm{
              .x = sum.view(), .delta = delta.view, .weight = scale.view, .out = x.view};
          const ops::GatedMatmulParams gated{
              .gate = {.weight = *gate, .x = x.view, .out = a.view, .bias = bias_of(0, inner)},
              .up = {.weight = *ups[kind],
                     .x = x.view,
                     .out = b.view,
                     .bias = bias_of(inner, inner)},
              .activation = activation,
              .out = a.view};
          const ops::MatmulParams down{.weight = *downs[kind],
                                       .x = a.view,
                                       .out = out.view(),
                                       .bias = bias_of(2 * inner, kOut)};
          if (fused) {
            backend->norm_gated_mlp(norm, gated, down);
          } else {
            backend->add_rms_norm(norm);
            backend->matmul_group(std::array{gated.gate, gated.up});
            backend->gated_activation(
                {.activation = activation, .gate = a.view, .up = b.view, .out = a.view});
            backend->matmul(down);
          }
          std::vector<float> result = sum.take();
          const auto more = out.take();
          result.insert(result.end(), more.begin(), more.end());
          return result;
        };
        for (const size_t kind : {0, 1}) {
          const bool with_bias = random.between(0, 1) == 1;
          const auto expected = compute(kind, with_bias, false);
          const auto result = compute(kind, with_bias, true);
          ASSERT_EQ(bit_difference(result, expected, std::ssize(expected)), std::nullopt)
              << rows << " rows, " << inner << " columns between, on " << threads
              << " threads, up and down of kind " << kind << ", bias " << with_bias;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatmulInvarianceTest, ::testing::ValuesIn(candidates_and_formats()),
                         candidate_and_format_name);

}  // namespace
}  // namespace hasten::conformance
