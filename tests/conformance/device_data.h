// SPDX-License-Identifier: Apache-2.0
// Inputs on a device, outputs between guard zones, and how two results are compared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "random.h"

namespace hasten::conformance {

/// Host values as a device tensor.
ops::DeviceTensor to_device(ops::Backend& backend, const std::vector<float>& values, Shape shape);

/// A device tensor between two guard zones; all of it is poison (a NaN of its own) until written.
class GuardedOutput {
 public:
  GuardedOutput(ops::Backend& backend, Shape shape);
  /// For operations in place: holds `values`; only the guard zones are poison.
  GuardedOutput(ops::Backend& backend, Shape shape, const std::vector<float>& values);

  const Tensor& view() const { return view_; }
  /// The values. Adds a test failure when a guard zone was written or poison is left.
  std::vector<float> take();
  /// Adds a test failure when anything at all was written.
  void expect_untouched();

 private:
  std::vector<float> download();

  ops::Backend& backend_;
  ops::DeviceTensor memory_;  // guard, values, guard
  Tensor view_;
};

/// A matrix of any weight format on the host.
struct HostMatrix {
  OwnedTensor tensor;         // [num_rows, num_columns]
  std::vector<float> values;  // decoded
};

/// Random rows of many magnitudes and means, so that scales, sub-scales and minima all take part.
/// Of more than 211, the others repeat these.
HostMatrix random_matrix(DType dtype, int64_t num_rows, int64_t num_columns, Random& random);

/// Rows of a quantised format whose codes all are the largest.
HostMatrix largest_codes(DType dtype, int64_t num_rows, int64_t num_columns);

/// The formats that every backend multiplies with: three float and twelve block formats.
const std::vector<DType>& weight_formats();

/// sqrt(sum of squares).
double norm(std::span<const float> values);

/// Adds a failure when a row of `actual` is further than tolerance * max(norm of the expected row,
/// floor) from `expected`, in the Euclidean norm, or is not finite where `expected` is.
void expect_rows_close(const std::vector<float>& actual, const std::vector<float>& expected,
                       int64_t num_columns, double tolerance, std::span<const double> floors = {});

/// Where two results differ in a bit: "row 3, column 7: 1.5 is not 1.25"; nullopt when nowhere.
std::optional<std::string> bit_difference(std::span<const float> actual,
                                          std::span<const float> expected, int64_t num_columns);

/// Row `index` of a row-major matrix.
std::span<const float> row_of(const std::vector<float>& matrix, int64_t index, int64_t num_columns);

}  // namespace hasten::conformance
