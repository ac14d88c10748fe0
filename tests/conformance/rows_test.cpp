// SPDX-License-Identifier: Apache-2.0
// Embedding, norms, activations and rotary embedding against the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "candidates.h"
#include "device_data.h"
#include "ops/reference/reference_backend.h"

namespace hasten::conformance {
namespace {

// Sums of a few thousand floats and exponentials by polynomial; far below any effect on a model.
constexpr double kRowTolerance = 4e-6;

// Rows below this norm only need to be as small: a kernel may end its exponential at 2^127.
constexpr double kFloor = 1e-28;

const std::vector<int64_t>& odd_dims() {
  static const std::vector<int64_t> dims = {1, 3, 15, 16, 17, 33, 64, 100, 257, 2048};
  return dims;
}

class RowsTest : public ConformanceTest {
 protected:
  /// Runs `operation`, which returns rows of `num_columns`, on both backends and compares.
  template <class Operation>
  void compare(int64_t num_columns, const Operation& operation, double tolerance = kRowTolerance) {
    const auto backend = make(static_cast<int32_t>(random_.between(1, 3)));
    const auto expected = operation(*reference_);
    const std::vector<double> floors(expected.size() / static_cast<size_t>(num_columns), kFloor);
    expect_rows_close(operation(*backend), expected, num_columns, tolerance, floors);
  }

  Random random_ = make_random();
  std::unique_ptr<ops::Backend> reference_ = ops::make_reference_backend();
};

TEST_P(RowsTest, EmbedEveryFormat) {
  for (const DType dtype : weight_formats()) {
    const int64_t block = info(dtype).block_size;
    const int64_t dim = block > 1 ? 3 * block : random_.pick(odd_dims());
    const HostMatrix table = random_matrix(dtype, 29, dim, random_);
    std::vector<int32_t> ids = {28, 0};
    for (int64_t i = random_.between(0, 65); i > 0; --i) {
      ids.push_back(static_cast<int32_t>(random_.between(0, 28)));
    }
    const bool tied = random_.between(0, 1) == 0;
    SCOPED_TRACE(fmt::format("{} tied {}", info(dtype).name, tied));
    compare(dim, [&](ops::Backend& backend) {
      const auto weight = tied ? backend.prepare_weight(table.tensor.view)
                               : backend.prepare_embedding(table.tensor.view);
      GuardedOutput out(backend, {static_cast<int64_t>(ids.size()), dim});
      backend.embed({.table = *weight, .ids = ids, .scale = 1.5F, .out = out.view()});
      return out.take();
    });
  }
}

TEST_P(RowsTest, EmbedRefusesIdsOutsideTheTable) {
  const HostMatrix table = random_matrix(DType::f32, 5, 32, random_);
  const auto backend = make(1);
  const auto weight = backend->prepare_embedding(table.tensor.view);
  for (const int32_t bad : {-1, 5, 1 << 30, -(1 << 30)}) {
    const std::vector<int32_t> ids = {0, 4, bad};
    GuardedOutput out(*backend, {3, 32});
    EXPECT_THROW(backend->embed({.table = *weight, .ids = ids, .out = out.view()}), Error) << bad;
    out.expect_untouched();
  }
}

TEST_P(RowsTest, RmsNorm) {
  for (const int64_t dim : odd_dims()) {
    const int64_t num_rows = random_.between(1, 67);
    const auto x = random_.normals(num_rows * dim, random_.pick<float>({1e-3F, 1.0F, 300.0F}));
    const auto scale = random_.normals(dim);
    const bool in_place = random_.between(0, 1) == 0;
    SCOPED_TRACE(fmt::format("{} rows of {} in place {}", num_rows, dim, in_place));
    compare(dim, [&](ops::Backend& backend) {
      const auto input = to_device(backend, x, {num_rows, dim});
      const auto weight = to_device(backend, scale, {dim});
      GuardedOutput out(backend, {num_rows, dim}, in_place ? x : std::vector<float>(x.size()));
      backend.rms_norm({.x = in_place ? out.view() : input.view,
                        .weight = weight.view,
                        .epsilon = 1e-5F,
                        .out = out.view()});
      return out.take();
    });
  }
}

// Per-head norms of queries and keys: the rows are [num_tokens, num_heads].
TEST_P(RowsTest, RmsNormOfHeads) {
  const auto x = random_.normals(13 * 5 * 80);
  const auto scale = random_.normals(80);
  compare(80, [&](ops::Backend& backend) {
    const auto weight = to_device(backend, scale, {80});
    GuardedOutput out(backend, {13, 5, 80}, x);
    backend.rms_norm({.x = out.view(), .weight = weight.view, .epsilon = 1e-6F, .out = out.view()});
    return out.take();
  });
}

TEST_P(RowsTest, RmsNormOfZerosIsZero) {
  const auto backend = make(1);
  const auto weight = to_device(*backend, std::vector<float>(48, 1.0F), {48});
  GuardedOutput out(*backend, {2, 48}, std::vector<float>(96, 0.0F));
  backend->rms_norm({.x = out.view(), .weight = weight.view, .out = out.view()});
  EXPECT_EQ(out.take(), std::vector<float>(96, 0.0F));
}

TEST_P(RowsTest, AddAndAddRmsNorm) {
  for (const int64_t dim : odd_dims()) {
    const int64_t num_rows = random_.between(1, 67);
    const auto x = random_.normals(num_rows * dim);
    const auto delta = random_.normals(num_rows * dim);
    const auto scale = random_.normals(dim);
    SCOPED_TRACE(fmt::format("{} rows of {}", num_rows, dim));
    const Shape shape{num_rows, dim};
    compare(
        dim,
        [&](ops::Backend& backend) {
          GuardedOutput sum(backend, shape, x);
          backend.add(sum.view(), to_device(backend, delta, shape).view);
          return sum.take();
        },
        0.0);
    for (const bool want_sum : {false, true}) {
      compare(
          dim,
          [&](ops::Backend& backend) {
            GuardedOutput sum(backend, shape, x);
            GuardedOutput out(backend, shape);
            const auto change = to_device(backend, delta, shape);
            const auto weight = to_device(backend, scale, {dim});
            backend.add_rms_norm({.x = sum.view(),
                                  .delta = change.view,
                                  .weight = weight.view,
                                  .epsilon = 1e-5F,
                                  .out = out.view()});
            return want_sum ? sum.take() : out.take();
          },
          want_sum ? 0.0 : kRowTolerance);
    }
  }
}

TEST_P(RowsTest, TakesRows) {
  for (const int64_t dim : odd_dims()) {
    const int64_t num_rows = random_.between(1, 67);
    const auto x = random_.normals(num_rows * dim);
    std::vector<int32_t> rows;
    for (int32_t row = 0; row < num_rows; ++row)
      if (random_.between(0, 1) == 0) rows.push_back(row);
    SCOPED_TRACE(fmt::format("{} of {} rows of {}", rows.size(), num_rows, dim));
    std::vector<float> expected;
    for (const int32_t row : rows)
      expected.insert(expected.end(), x.begin() + row * dim, x.begin() + (row + 1) * dim);
    const auto backend = make(2);
    for (ops::Backend* candidate : {reference_.get(), backend.get()}) {
      GuardedOutput values(*candidate, {num_rows, dim}, x);
      candidate->take_rows(values.view(), rows);
      std::vector<float> taken = values.take();
      taken.resize(expected.size());  // what lies behind is not told
      EXPECT_EQ(taken, expected) << candidate->name();
    }
  }
}

TEST_P(RowsTest, TakesNoRowsOutOfOrderOrReach) {
  const auto backend = make(1);
  const auto x = random_.normals(4 * 3);
  for (ops::Backend* candidate : {reference_.get(), backend.get()}) {
    for (const auto& rows : {std::vector<int32_t>{0, 0}, {2, 0}, {1, 4}, {-1}}) {
      GuardedOutput values(*candidate, {4, 3}, x);
      EXPECT_THROW(candidate->take_rows(values.view(), rows), Error) << candidate->name();
    }
  }
}

TEST_P(RowsTest, GatedActivation) {
  // A row of few elements may have all of them far on the negative side, where what rounding makes
  // of gelu's x is the error of e^-x: 2^-24 of up to 64, where rows sink below the floor, for each
  // of the four roundings.
  constexpr double kGeluTailTolerance = 1.6e-5;
  constexpr int64_t kFewElements = 3;
  for (const auto activation : {ops::Activation::silu, ops::Activation::gelu_tanh}) {
    for (const int64_t dim : odd_dims()) {
      const Shape shape{random_.between(1, 9), dim};
      // Far into both tails, where exp overflows or vanishes.
      const auto gate = random_.normals(shape.num_elements(), random_.pick<float>({1.0F, 60.0F}));
      const auto up = random_.normals(shape.num_elements());
      const int64_t place = random_.between(0, 2);
      SCOPED_TRACE(
          fmt::format("activation {} dim {} place {}", static_cast<int>(activation), dim, place));
      compare(
          dim,
          [&](ops::Backend& backend) {
            const auto gate_input = to_device(backend, gate, shape);
            const auto up_input = to_device(backend, up, shape);
            GuardedOutput out(backend, shape, place == 1 ? gate : up);
            backend.gated_activation({.activation = activation,
                                      .gate = place == 1 ? out.view() : gate_input.view,
                                      .up = place == 2 ? out.view() : up_input.view,
                                      .out = out.view()});
            return out.take();
          },
          activation == ops::Activation::gelu_tanh && dim <= kFewElements ? kGeluTailTolerance
                                                                          : kRowTolerance);
    }
  }
}

// Each element by itself: a small one must not hide behind its neighbours.
TEST_P(RowsTest, GatedActivationAtTheExtremes) {
  const std::vector<float> gate = {0.0F,  -0.0F, 1e-30F, -1e-30F, 1e-4F, -1e-4F, 1.0F,  -1.0F,
                                   10.0F, -5.0F, 90.0F,  -50.0F,  500.F, -80.0F, 1e30F, 20.0F};
  const auto count = static_cast<int64_t>(gate.size());
  for (const auto activation : {ops::Activation::silu, ops::Activation::gelu_tanh}) {
    std::vector<std::vector<float>> results;
    const auto candidate = make(1);
    for (ops::Backend* backend : {reference_.get(), candidate.get()}) {
      const auto up = to_device(*backend, std::vector<float>(gate.size(), 1.0F), {1, count});
      GuardedOutput out(*backend, {1, count}, gate);
      backend->gated_activation(
          {.activation = activation, .gate = out.view(), .up = up.view, .out = out.view()});
      results.push_back(out.take());
    }
    for (size_t i = 0; i < gate.size(); ++i) {
      const float allowed = 2e-5F * std::abs(results[0][i]) + static_cast<float>(kFloor);
      EXPECT_NEAR(results[1][i], results[0][i], allowed) << "at " << gate[i];
    }
  }
}

TEST_P(RowsTest, SoftCap) {
  for (const int64_t dim : odd_dims()) {
    const Shape shape{random_.between(1, 5), dim};
    const auto x =
        random_.normals(shape.num_elements(), random_.pick<float>({0.1F, 20.0F, 500.0F}));
    compare(dim, [&](ops::Backend& backend) {
      GuardedOutput out(backend, shape, x);
      backend.soft_cap({.x = out.view(), .cap = 30.0F});
      return out.take();
    });
  }
}

TEST_P(RowsTest, ScansOfLogits) {
  for (const int64_t columns : {1, 15, 64, 1000, 1024, 1089, 16'384, 32'768, 70'001}) {
    const int64_t stride = columns + random_.pick<int64_t>({0, 1, 64});
    const int64_t rows = random_.between(1, 5);
    std::vector<float> values(static_cast<size_t>(rows * stride), 1e9F);  // beyond the columns
    for (int64_t i = 0; i < rows * stride; ++i) {
      if (i % stride >= columns) continue;
      const auto value = static_cast<float>(random_.between(-500, -1));  // many equals
      const bool odd = random_.between(0, 2000) == 0;
      values[static_cast<size_t>(i)] =
          odd ? random_.pick<float>({NAN, INFINITY, -INFINITY}) : value;
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* row = values.data() + r * stride;
      // The largest is anywhere, and sometimes there again.
      for (int i = 0; i < 2; ++i) {
        row[random_.between(0, columns - 1)] = 1.0F;
        if (random_.between(0, 1) == 0) break;
      }
      if (r == 1) std::fill_n(row, columns, -INFINITY);
      if (r == 2) std::fill_n(row, columns, NAN);
    }
    const auto scan = [&](ops::Backend& backend) {
      std::vector<ops::RowScan> scans(static_cast<size_t>(rows), {.likeliest = -1});
      backend.scan_rows({.values = values, .stride = stride, .columns = columns, .out = scans});
      return scans;
    };
    const auto expected = scan(*reference_);
    const auto found = scan(*make(static_cast<int32_t>(random_.between(1, 3))));
    for (size_t r = 0; r < expected.size(); ++r) {
      SCOPED_TRACE(fmt::format("row {} of {} columns", r, columns));
      EXPECT_EQ(found[r].likeliest, expected[r].likeliest);
      EXPECT_EQ(found[r].most, expected[r].most);
      EXPECT_EQ(found[r].num_not_finite, expected[r].num_not_finite);
    }
  }
}

TEST_P(RowsTest, RopeAnglesToTheEndOfALongContext) {
  for (const int64_t half : {1, 4, 15, 32, 48, 64, 128}) {
    std::vector<float> frequencies;
    for (int64_t j = 0; j < half; ++j) {
      frequencies.push_back(static_cast<float>(
          std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half))));
    }
    std::vector<int32_t> positions = {0, 1, 131071};
    for (int64_t i = random_.between(0, 30); i > 0; --i) {
      positions.push_back(static_cast<int32_t>(random_.between(0, 131071)));
    }
    SCOPED_TRACE(half);
    compare(
        half,
        [&](ops::Backend& backend) {
          const auto inv_freq = to_device(backend, frequencies, {half});
          GuardedOutput out(backend, {static_cast<int64_t>(positions.size()), 2, half});
          backend.rope_angles({.positions = positions,
                               .inv_freq = inv_freq.view,
                               .magnitude = 1.19F,
                               .out = out.view()});
          return out.take();
        },
        1e-5);
  }
}

TEST_P(RowsTest, RopeOfBothLayoutsAndPartialHeads) {
  for (const auto layout : {ops::RopeLayout::halves, ops::RopeLayout::interleaved}) {
    for (const int64_t head_dim : {2, 32, 64, 80, 96, 128, 256}) {
      for (const int64_t rotary_dim : {head_dim, 2 * ((head_dim + 5) / 6)}) {
        const int64_t num_tokens = random_.between(1, 67);
        const int64_t num_heads = random_.pick<int64_t>({1, 3, 7, 8});
        const auto x = random_.normals(num_tokens * num_heads * head_dim);
        const auto turns = random_.normals(num_tokens * rotary_dim);
        SCOPED_TRACE(fmt::format("layout {} head_dim {} rotary_dim {} tokens {} heads {}",
                                 static_cast<int>(layout), head_dim, rotary_dim, num_tokens,
                                 num_heads));
        compare(head_dim, [&](ops::Backend& backend) {
          const auto angles = to_device(backend, turns, {num_tokens, 2, rotary_dim / 2});
          GuardedOutput out(backend, {num_tokens, num_heads, head_dim}, x);
          backend.rope({.x = out.view(), .angles = angles.view, .layout = layout});
          return out.take();
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowsTest, ::testing::ValuesIn(candidates()), candidate_name);

}  // namespace
}  // namespace hasten::conformance
