// SPDX-License-Identifier: Apache-2.0
// Matrix products of every weight format against the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "candidates.h"
#include "device_data.h"
#include "ops/reference/reference_backend.h"

namespace hasten::conformance {
namespace {

/// One product: x [num_x_rows, k], weight [n, k].
struct Product {
  const HostMatrix& weight;
  std::vector<float> x;
  int64_t num_x_rows = 0;
  std::vector<float> bias = {};    // [n], or empty
  std::vector<int32_t> rows = {};  // empty: all

  int64_t n() const { return weight.tensor.view.dim(0); }
  int64_t k() const { return weight.tensor.view.dim(1); }
  int64_t m() const { return rows.empty() ? num_x_rows : static_cast<int64_t>(rows.size()); }
};

std::vector<float> multiply(ops::Backend& backend, const Product& product) {
  const auto weight = backend.prepare_weight(product.weight.tensor.view);
  const auto x = to_device(backend, product.x, {product.num_x_rows, product.k()});
  GuardedOutput out(backend, {product.m(), product.n()});
  ops::DeviceTensor bias;
  if (!product.bias.empty()) bias = to_device(backend, product.bias, {product.n()});
  backend.matmul(
      {.weight = *weight, .x = x.view, .out = out.view(), .bias = bias.view, .rows = product.rows});
  return out.take();
}

/// The most that a row of `n` results may be off, relative to its norm.
double tolerance(const Accuracy& accuracy, DType dtype, int64_t n) {
  // Where a row has few elements, chance spreads their mean.
  const double spread = 1.0 + 2.0 / std::sqrt(static_cast<double>(n));
  // 8-bit rounding of activations is worth about half a percent; the promise is two.
  if (accuracy.int8_activations && info(dtype).quantized) return 2e-2 * spread;
  // Half a unit in the last of bf16's 8 bits, of a number just above a power of two.
  if (accuracy.bf16_activations && dtype == DType::bf16) return 0x1p-8 * spread;
  return 1e-5;
}

/// The norm that each row of the result has when its terms do not cancel by chance: what rounding
/// of the operands is relative to. It matters where n is small.
std::vector<double> expected_norms(const Product& product) {
  const double weight_rms =
      norm(product.weight.values) / std::sqrt(static_cast<double>(product.weight.values.size()));
  std::vector<double> norms;
  for (int64_t i = 0; i < product.m(); ++i) {
    const int64_t row = product.rows.empty() ? i : product.rows[i];
    norms.push_back(norm(row_of(product.x, row, product.k())) * weight_rms *
                    std::sqrt(static_cast<double>(product.n())));
  }
  return norms;
}

class MatmulTest : public FormatConformanceTest {
 protected:
  void check(const Product& product, int32_t threads) {
    SCOPED_TRACE(fmt::format("m {} n {} k {} threads {} bias {} gathered {}", product.m(),
                             product.n(), product.k(), threads, !product.bias.empty(),
                             !product.rows.empty()));
    const auto expected = multiply(*reference_, product);
    const auto actual = multiply(*make(threads), product);
    expect_rows_close(actual, expected, product.n(),
                      tolerance(candidate().accuracy, dtype(), product.n()),
                      expected_norms(product));
  }

  /// That products of one call are those of a call each.
  void check_group(const std::vector<HostMatrix>& matrices, const std::vector<float>& values,
                   int64_t m) {
    const auto backend = make(2);
    const auto x = to_device(*backend, values, {m, std::ssize(values) / m});
    std::vector<std::unique_ptr<ops::Weight>> weights;
    std::vector<std::unique_ptr<GuardedOutput>> outs;
    std::vector<ops::MatmulParams> group;
    for (const HostMatrix& matrix : matrices) {
      weights.push_back(backend->prepare_weight(matrix.tensor.view));
      outs.push_back(
          std::make_unique<GuardedOutput>(*backend, Shape{m, matrix.tensor.view.dim(0)}));
      group.push_back({.weight = *weights.back(), .x = x.view, .out = outs.back()->view()});
    }
    backend->matmul_group(group);
    for (size_t i = 0; i < matrices.size(); ++i) {
      const auto alone = multiply(*backend, {.weight = matrices[i], .x = values, .num_x_rows = m});
      EXPECT_EQ(bit_difference(outs[i]->take(), alone, matrices[i].tensor.view.dim(0)),
                std::nullopt)
          << "member " << i << " of a group, " << m << " rows";
    }
  }

  /// That gate and up in one operation give the numbers of their products and the activation.
  void check_gated(const HostMatrix& gate, const HostMatrix& up, Random& random, int64_t m,
                   int32_t threads) {
    const int64_t n = gate.tensor.view.dim(0);
    const int64_t k = gate.tensor.view.dim(1);
    const auto backend = make(threads);
    ops::StepLimits limits = kStepLimits;
    limits.max_tokens = std::max(limits.max_tokens, m);
    backend->reserve(limits);
    const auto x = to_device(*backend, random.normals(m * k), {m, k});
    const auto bias = to_device(*backend, random.normals(2 * n), {2, n});
    const auto gate_weight = backend->prepare_weight(gate.tensor.view);
    const auto up_weight = backend->prepare_weight(up.tensor.view);
    GuardedOutput gate_out(*backend, {m, n}, random.normals(m * n));
    GuardedOutput up_out(*backend, {m, n}, random.normals(m * n));
    GuardedOutput apart(*backend, {m, n});
    const auto order = random.permutation(m);
    const auto rows = m % 2 == 0 ? std::span<const int32_t>() : std::span<const int32_t>(order);
    GuardedOutput* const together = random.between(0, 1) == 0 ? &gate_out : &up_out;
    ops::GatedMatmulParams params{.gate = {.weight = *gate_weight,
                                           .x = x.view,
                                           .out = gate_out.view(),
                                           .bias = bias.view.slice(0, 1).reshape({n}),
                                           .rows = rows},
                                  .up = {.weight = *up_weight,
                                         .x = x.view,
                                         .out = up_out.view(),
                                         .bias = bias.view.slice(1, 1).reshape({n}),
                                         .rows = rows},
                                  .activation = random.pick<ops::Activation>(
                                      {ops::Activation::silu, ops::Activation::gelu_tanh}),
                                  .out = together->view()};
    backend->gated_matmul(params);
    const auto outputs = together->take();
    params.out = apart.view();
    backend->Backend::gated_matmul(params);
    EXPECT_EQ(bit_difference(outputs, apart.take(), n), std::nullopt)
        << m << " rows, " << n << " features of " << k << " columns, up "
        << info(up.tensor.view.dtype()).name;
  }

  /// Of 40 rows and 512 columns. To encode one takes longer than to multiply it: once in a process.
  static const HostMatrix& matrix_of(DType format) {
    static std::map<DType, HostMatrix> matrices;
    const auto found = matrices.find(format);
    if (found != matrices.end()) return found->second;
    Random random(hash_bytes(info(format).name, run_seed()));
    return matrices.emplace(format, random_matrix(format, 40, 512, random)).first->second;
  }

  /// A row length that the format allows and kernels do not like.
  int64_t odd_length(Random& random) const {
    const int64_t block = info(dtype()).block_size;
    return block > 1 ? block * random.pick<int64_t>({1, 2, 3, 5, 7})
                     : random.pick<int64_t>({1, 2, 7, 15, 17, 31, 33, 100, 129, 259, 1000});
  }

  std::unique_ptr<ops::Backend> reference_ = ops::make_reference_backend();
};

TEST_P(MatmulTest, EveryNumberOfRows) {
  Random random = make_random();
  const int64_t k = odd_length(random);
  const HostMatrix weight = random_matrix(dtype(), random.between(33, 70), k, random);
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 33, 64, 67}) {
    check({.weight = weight, .x = random.normals(m * k), .num_x_rows = m},
          static_cast<int32_t>(random.between(1, 3)));
  }
}

TEST_P(MatmulTest, OddShapes) {
  Random random = make_random();
  for (const int64_t n : {1, 2, 3, 7, 15, 16, 17, 31, 32, 47, 65, 100, 131}) {
    const int64_t k = odd_length(random);
    const int64_t m = random.between(1, 9);
    const HostMatrix weight = random_matrix(dtype(), n, k, random);
    check({.weight = weight, .x = random.normals(m * k), .num_x_rows = m},
          static_cast<int32_t>(random.between(1, 3)));
  }
}

TEST_P(MatmulTest, LongRows) {
  Random random = make_random();
  constexpr int64_t kLength = 4096;
  const HostMatrix weight = random_matrix(dtype(), 19, kLength, random);
  check({.weight = weight, .x = random.normals(5 * kLength), .num_x_rows = 5}, 2);
}

TEST_P(MatmulTest, BiasAndGatheredRows) {
  Random random = make_random();
  for (int repeat = 0; repeat < 6; ++repeat) {
    const int64_t k = odd_length(random);
    const int64_t num_x_rows = random.between(1, 40);
    const HostMatrix weight = random_matrix(dtype(), random.between(1, 50), k, random);
    Product product{
        .weight = weight, .x = random.normals(num_x_rows * k), .num_x_rows = num_x_rows};
    product.bias = random.normals(product.n());
    if (repeat % 2 == 0) {
      const int64_t count = random.between(1, 20);  // rows may repeat and come in any order
      for (int64_t i = 0; i < count; ++i) {
        product.rows.push_back(static_cast<int32_t>(random.between(0, num_x_rows - 1)));
      }
    }
    check(product, static_cast<int32_t>(random.between(1, 3)));
  }
}

// The sums of products that kernels keep in few bits are the largest here.
TEST_P(MatmulTest, LargestCodesAndActivations) {
  if (!info(dtype()).quantized) GTEST_SKIP() << "floats have no codes";
  const int64_t k = 2 * std::max<int64_t>(64, info(dtype()).block_size);
  const HostMatrix weight = largest_codes(dtype(), 37, k);
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 20}) {
    Product product{.weight = weight,
                    .x = std::vector<float>(static_cast<size_t>(m * k), 1.0F),
                    .num_x_rows = m};
    std::fill(product.x.begin(), product.x.begin() + k, -1.0F);
    const auto expected = multiply(*reference_, product);
    // Ones are exact in eight bits.
    expect_rows_close(multiply(*make(2), product), expected, product.n(), 1e-5);
  }
}

TEST_P(MatmulTest, RowsOfAllMagnitudes) {
  Random random = make_random();
  const int64_t k = info(dtype()).block_size * (info(dtype()).block_size > 1 ? 2 : 70);
  const HostMatrix weight = random_matrix(dtype(), 37, k, random);
  std::vector<float> x;
  for (const float scale : {1e-30F, 1e-12F, 1e-3F, 1.0F, 1e3F, 1e12F, 1e30F}) {
    const auto row = random.normals(k, scale);
    x.insert(x.end(), row.begin(), row.end());
  }
  const auto num_rows = static_cast<int64_t>(x.size()) / k;
  check({.weight = weight, .x = x, .num_x_rows = num_rows}, 1);
}

TEST_P(MatmulTest, ZeroAndTinyRowsGiveTheBias) {
  Random random = make_random();
  const int64_t k = info(dtype()).block_size * (info(dtype()).block_size > 1 ? 2 : 70);
  const HostMatrix weight = random_matrix(dtype(), 37, k, random);
  Product product{.weight = weight, .x = random.normals(2 * k, 1e-42F), .num_x_rows = 2};
  std::fill(product.x.begin(), product.x.begin() + k, 0.0F);
  product.bias = random.normals(product.n());
  const auto actual = multiply(*make(1), product);
  EXPECT_EQ(bit_difference(row_of(actual, 0, product.n()), product.bias, product.n()), std::nullopt)
      << "a row of zeros";
  EXPECT_EQ(bit_difference(row_of(actual, 1, product.n()), product.bias, product.n()), std::nullopt)
      << "a row of subnormals";
}

// A request with a NaN must fail, and fail alone.
TEST_P(MatmulTest, NanStaysInItsRowAndShows) {
  Random random = make_random();
  const int64_t k = info(dtype()).block_size * (info(dtype()).block_size > 1 ? 2 : 70);
  const HostMatrix weight = random_matrix(dtype(), 37, k, random);
  for (const int64_t m : {1, 3, 8, 33}) {
    Product product{.weight = weight, .x = random.normals(m * k), .num_x_rows = m};
    const auto backend = make(2);
    const auto healthy = multiply(*backend, product);
    const int64_t sick = random.between(0, m - 1);
    product.x[sick * k + random.between(0, k - 1)] = std::numeric_limits<float>::quiet_NaN();
    const auto actual = multiply(*backend, product);
    for (int64_t row = 0; row < m; ++row) {
      const auto got = row_of(actual, row, product.n());
      if (row == sick) {
        EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float y) { return std::isnan(y); }))
            << "a NaN was hidden, " << m << " rows";
      } else {
        EXPECT_EQ(bit_difference(got, row_of(healthy, row, product.n()), product.n()), std::nullopt)
            << "row " << row << " caught the NaN of row " << sick << " of " << m;
      }
    }
  }
}

// What lies behind the last columns of some rows is the next ones: no kernel may multiply it,
// though it be with zeros.
TEST_P(MatmulTest, NanOfAWeightStaysInItsOutput) {
  constexpr int64_t kSick = 16;  // the first row that another group of 16 begins with
  Random random = make_random();
  const int64_t k = info(dtype()).block_size * (info(dtype()).block_size > 1 ? 2 : 71);
  const HostMatrix healthy = random_matrix(dtype(), 37, k, random);
  OwnedTensor sick_bytes(dtype(), {37, k});
  std::memcpy(sick_bytes.view.data(), healthy.tensor.view.data(),
              static_cast<size_t>(sick_bytes.view.num_bytes()));
  const int64_t row_bytes = sick_bytes.view.num_bytes() / 37;
  std::memset(static_cast<uint8_t*>(sick_bytes.view.data()) + kSick * row_bytes, 0xff,
              static_cast<size_t>(row_bytes));
  const auto backend = make(2);
  for (const int64_t m : {1, 3, 33}) {
    const auto x = to_device(*backend, random.normals(m * k), {m, k});
    const auto times = [&](const Tensor& matrix) {
      const auto weight = backend->prepare_weight(matrix);
      GuardedOutput out(*backend, {m, 37});
      backend->matmul({.weight = *weight, .x = x.view, .out = out.view()});
      return out.take();
    };
    const std::vector<float> expected = times(healthy.tensor.view);
    const std::vector<float> actual = times(sick_bytes.view);
    for (int64_t i = 0; i < m * 37; ++i) {
      if (i % 37 == kSick) continue;
      EXPECT_EQ(actual[static_cast<size_t>(i)], expected[static_cast<size_t>(i)])
          << "output " << i % 37 << " of row " << i / 37 << " of " << m;
    }
  }
}

TEST_P(MatmulTest, GroupEqualsItsMembers) {
  Random random = make_random();
  const int64_t k = odd_length(random);
  std::vector<HostMatrix> matrices;
  for (const int64_t n : {random.between(1, 40), random.between(1, 40), int64_t{16}})
    matrices.push_back(random_matrix(dtype(), n, k, random));
  for (const int64_t m : {1, 5, 34}) check_group(matrices, random.normals(m * k), m);
}

// Formats that want activations of different forms, in turn.
TEST_P(MatmulTest, GroupOfSeveralFormatsEqualsItsMembers) {
  Random random = make_random();
  constexpr int64_t kLength = 512;
  std::vector<HostMatrix> matrices;
  for (const DType format :
       {dtype(), DType::q4_0, dtype(), DType::q8_0, DType::iq4_nl, dtype(), DType::q6_k,
        DType::bf16, DType::iq4_xs, DType::f32, dtype(), DType::f16, dtype()})
    matrices.push_back(random_matrix(format, 20, kLength, random));
  for (const int64_t m : {1, 5, 13}) check_group(matrices, random.normals(m * kLength), m);
}

TEST_P(MatmulTest, GateAndUpMeetAsAfterProductsApart) {
  Random random = make_random();
  const int64_t block = info(dtype()).block_size;
  for (const int64_t m : {1, 2, 5, 17, 67}) {
    for (const int64_t n : {int64_t{7}, random.between(33, 130)}) {
      const int64_t k = odd_length(random);
      check_gated(random_matrix(dtype(), n, k, random), random_matrix(dtype(), n, k, random),
                  random, m, static_cast<int32_t>(random.between(1, 3)));
    }
  }
  // So many rows that not all features meet at a time, and so many that none do.
  const int64_t k = block > 1 ? block : 64;
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{301, 700}, {2100, 40}}) {
    if (candidate().is_reference() || !tries_long_ones()) break;
    check_gated(random_matrix(dtype(), n, k, random), random_matrix(dtype(), n, k, random), random,
                m, 1);
  }
  // Formats that take activations alike, and in other ways. The other way about is the other's
  // case, if the candidate has one of it.
  const HostMatrix own = random_matrix(dtype(), 40, 512, random);
  for (const DType other : weight_formats()) {
    const HostMatrix& of_other = matrix_of(other);
    check_gated(own, of_other, random, random.pick<int64_t>({6, 17}), 2);
    if (candidate().has_own(other)) continue;
    check_gated(of_other, own, random, random.pick<int64_t>({6, 17}), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTest, ::testing::ValuesIn(candidates_and_formats()),
                         candidate_and_format_name);

}  // namespace
}  // namespace hasten::conformance
