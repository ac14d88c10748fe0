// SPDX-License-Identifier: Apache-2.0
// Guard zones, random matrices and comparisons.
#include "device_data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "quant/codec.h"

namespace hasten::conformance {
namespace {

// A quiet NaN with a payload that no arithmetic makes, so that it is told from a computed NaN.
constexpr uint32_t kPoisonBits = 0x7fd5a5a5U;

// Floats before and after an output: four cache lines, more than the widest vector of any kernel.
constexpr int64_t kGuardSize = 64;

float poison() { return std::bit_cast<float>(kPoisonBits); }
bool is_poison(float value) { return std::bit_cast<uint32_t>(value) == kPoisonBits; }

Tensor host_view(const std::vector<float>& values, Shape shape) {
  HASTEN_CHECK(shape.num_elements() == static_cast<int64_t>(values.size()));
  return {static_cast<const void*>(values.data()), DType::f32, shape};
}

}  // namespace

ops::DeviceTensor to_device(ops::Backend& backend, const std::vector<float>& values, Shape shape) {
  auto tensor = backend.allocate(DType::f32, shape);
  backend.upload(host_view(values, shape), tensor.view);
  return tensor;
}

GuardedOutput::GuardedOutput(ops::Backend& backend, Shape shape)
    : GuardedOutput(backend, shape, std::vector<float>(shape.num_elements(), poison())) {}

GuardedOutput::GuardedOutput(ops::Backend& backend, Shape shape, const std::vector<float>& values)
    : backend_(backend) {
  std::vector<float> all(values.size() + 2 * kGuardSize, poison());
  std::copy(values.begin(), values.end(), all.begin() + kGuardSize);
  memory_ = to_device(backend, all, Shape{static_cast<int64_t>(all.size())});
  view_ = memory_.view.slice(kGuardSize, shape.num_elements()).reshape(shape);
}

std::vector<float> GuardedOutput::download() {
  std::vector<float> all(static_cast<size_t>(memory_.view.num_elements()));
  backend_.download(memory_.view, host_view(all, memory_.view.shape()));
  return all;
}

std::vector<float> GuardedOutput::take() {
  const auto all = download();
  const std::vector<float> values(all.begin() + kGuardSize, all.end() - kGuardSize);
  EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardSize, is_poison))
      << backend_.name() << " wrote before its output";
  EXPECT_TRUE(std::all_of(all.end() - kGuardSize, all.end(), is_poison))
      << backend_.name() << " wrote past its output";
  EXPECT_EQ(std::count_if(values.begin(), values.end(), is_poison), 0)
      << backend_.name() << " left elements unwritten, of " << values.size();
  return values;
}

void GuardedOutput::expect_untouched() {
  const auto all = download();
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), is_poison)) << backend_.name() << " wrote";
}

HostMatrix random_matrix(DType dtype, int64_t num_rows, int64_t num_columns, Random& random) {
  constexpr int64_t kRun = 16;  // elements of one magnitude: the smallest sub-block of any format
  // Rows of their own; those behind repeat them, at a distance that is no multiple of any tile's.
  // To quantise them all would take longer than to multiply them.
  constexpr int64_t kDistinctRows = 211;
  HostMatrix matrix{.tensor = OwnedTensor(dtype, {num_rows, num_columns}),
                    .values = std::vector<float>(num_rows * num_columns)};
  std::vector<float> row(static_cast<size_t>(num_columns));
  for (int64_t r = 0; r < num_rows; ++r) {
    if (r >= kDistinctRows) {
      const int64_t same = r - kDistinctRows;
      std::memcpy(matrix.tensor.view.row(r), matrix.tensor.view.row(same),
                  static_cast<size_t>(matrix.tensor.view.row_bytes()));
      std::copy_n(matrix.values.data() + same * num_columns, num_columns,
                  matrix.values.data() + r * num_columns);
      continue;
    }
    float scale = 1.0F;
    float mean = 0.0F;
    for (int64_t i = 0; i < num_columns; ++i) {
      if (i % kRun == 0) {
        scale = static_cast<float>(std::exp2(-5.0 * random.uniform()));
        mean = random.between(0, 1) == 0 ? 0.0F : scale * random.normal();
      }
      row[i] = mean + scale * random.normal();
    }
    quant::encode_row(dtype, row.data(), matrix.tensor.view.row(r), num_columns);
    quant::decode_row(dtype, matrix.tensor.view.row(r), matrix.values.data() + r * num_columns,
                      num_columns);
  }
  return matrix;
}

HostMatrix largest_codes(DType dtype, int64_t num_rows, int64_t num_columns) {
  // Bytes of a block that hold an outer scale, and an outer offset if there is one (ggml-quants.h).
  struct Halves {
    DType dtype;
    size_t scale;
    size_t offset;  // 0: none
  };
  constexpr Halves kHalves[] = {
      {DType::q4_0, 0, 0}, {DType::q4_1, 0, 2},   {DType::q5_0, 0, 0},   {DType::q5_1, 0, 2},
      {DType::q8_0, 0, 0}, {DType::q2_k, 80, 82}, {DType::q3_k, 108, 0}, {DType::q4_k, 0, 2},
      {DType::q5_k, 0, 2}, {DType::q6_k, 208, 0}, {DType::iq4_nl, 0, 0}, {DType::iq4_xs, 0, 0},
  };
  const auto* halves = std::ranges::find(kHalves, dtype, &Halves::dtype);
  HASTEN_CHECK(halves != std::end(kHalves));
  const auto block_bytes = static_cast<size_t>(info(dtype).block_bytes);
  // The largest code has all bits set; of int8, all but the sign, which is 255 above the least.
  std::vector<std::byte> block(block_bytes,
                               dtype == DType::q8_0 ? std::byte{0x7f} : std::byte{0xff});
  constexpr uint16_t kScale = 0x2000;  // 2^-7
  std::memcpy(block.data() + halves->scale, &kScale, 2);
  if (halves->offset != 0) std::memset(block.data() + halves->offset, 0, 2);
  HostMatrix matrix{.tensor = OwnedTensor(dtype, {num_rows, num_columns}),
                    .values = std::vector<float>(num_rows * num_columns)};
  for (int64_t r = 0; r < num_rows; ++r) {
    auto* row = static_cast<std::byte*>(matrix.tensor.view.row(r));
    for (int64_t b = 0; b < num_columns / info(dtype).block_size; ++b) {
      std::memcpy(row + static_cast<size_t>(b) * block_bytes, block.data(), block_bytes);
    }
    quant::decode_row(dtype, row, matrix.values.data() + r * num_columns, num_columns);
  }
  return matrix;
}

const std::vector<DType>& weight_formats() {
  static const std::vector<DType> formats = {DType::f32,  DType::f16,    DType::bf16,  DType::q4_0,
                                             DType::q4_1, DType::q5_0,   DType::q5_1,  DType::q8_0,
                                             DType::q2_k, DType::q3_k,   DType::q4_k,  DType::q5_k,
                                             DType::q6_k, DType::iq4_nl, DType::iq4_xs};
  return formats;
}

double norm(std::span<const float> values) {
  double squares = 0.0;
  for (const float value : values) squares += double{value} * double{value};
  return std::sqrt(squares);
}

void expect_rows_close(const std::vector<float>& actual, const std::vector<float>& expected,
                       int64_t num_columns, double tolerance, std::span<const double> floors) {
  ASSERT_EQ(actual.size(), expected.size());
  const auto num_rows = static_cast<int64_t>(expected.size()) / num_columns;
  double worst = 0.0;
  int64_t worst_row = 0;
  for (int64_t r = 0; r < num_rows; ++r) {
    const auto want = row_of(expected, r, num_columns);
    const auto got = row_of(actual, r, num_columns);
    double squares = 0.0;
    for (int64_t i = 0; i < num_columns; ++i) {
      const double difference = double{got[i]} - double{want[i]};
      squares += difference * difference;
    }
    const double scale = std::max(norm(want), floors.empty() ? 0.0 : floors[r]);
    // A row of zeros must be met exactly. A NaN fails, since it compares false.
    const double error = squares == 0.0 ? 0.0 : std::sqrt(squares) / scale;
    if (!(error <= worst)) {
      worst = error;
      worst_row = r;
    }
    if (std::isnan(error)) break;
  }
  EXPECT_TRUE(worst <= tolerance) << fmt::format("row {} of {} is off by {:.3g}, allowed {:.3g}",
                                                 worst_row, num_rows, worst, tolerance);
}

std::optional<std::string> bit_difference(std::span<const float> actual,
                                          std::span<const float> expected, int64_t num_columns) {
  if (actual.size() != expected.size()) return "the sizes differ";
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<uint32_t>(actual[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    const auto index = static_cast<int64_t>(i);
    return fmt::format("row {}, column {}: {} is not {}", index / num_columns, index % num_columns,
                       actual[i], expected[i]);
  }
  return std::nullopt;
}

std::span<const float> row_of(const std::vector<float>& matrix, int64_t index,
                              int64_t num_columns) {
  return std::span(matrix).subspan(static_cast<size_t>(index * num_columns),
                                   static_cast<size_t>(num_columns));
}

}  // namespace hasten::conformance
