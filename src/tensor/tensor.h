// SPDX-License-Identifier: Apache-2.0
// Tensor, a view of numbers in memory that somebody else owns; Buffer, the owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/fresh_memory.h"
#include "tensor/dtype.h"

namespace hasten {

struct Device {
  enum class Kind : uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int32_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// Up to four extents, outermost first; the last is contiguous in memory.
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(
      std::span<const int64_t> dims);  // Error{internal} for more than four or a negative one

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t back() const { return rank_ == 0 ? 1 : dims_[static_cast<size_t>(rank_ - 1)]; }
  int64_t num_elements() const;
  std::string to_string() const;  // "[2, 3]"
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// A dense row-major view. Copying copies the view. The bytes must outlive it.
///
/// A weight of a linear layer is [out_features, in_features]: a row is one output, its elements lie
/// along the dot product. Block formats quantise along the last axis.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, DType dtype, Shape shape, Device device = {})
      : data_(data), shape_(shape), device_(device), dtype_(dtype) {}
  /// A view of read-only bytes (a mapped file). Writing through it is a bug that the mapping's
  /// protection turns into a fault.
  Tensor(const void* data, DType dtype, Shape shape, Device device = {})
      : Tensor(const_cast<void*>(data), dtype, shape, device) {}

  bool defined() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int axis) const { return shape_[axis]; }
  Device device() const { return device_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  /// Rows when everything but the last axis is flattened.
  int64_t num_rows() const { return shape_.back() == 0 ? 0 : num_elements() / shape_.back(); }
  int64_t row_bytes() const { return hasten::row_bytes(dtype_, shape_.back()); }
  int64_t num_bytes() const { return num_rows() * row_bytes(); }

  void* data() const { return data_; }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), defined() ? static_cast<size_t>(num_bytes()) : 0};
  }
  std::byte* row(int64_t index) const {
    return static_cast<std::byte*>(data_) + index * row_bytes();
  }
  float* f32() const {
    HASTEN_CHECK(dtype_ == DType::f32);
    return static_cast<float*>(data_);
  }
  /// Rows [begin, begin + count) along the first axis.
  Tensor slice(int64_t begin, int64_t count) const;
  /// The same bytes with another shape of as many elements.
  Tensor reshape(Shape shape) const;

 private:
  void* data_ = nullptr;
  Shape shape_;
  Device device_;
  DType dtype_ = DType::f32;
};

/// Owns host memory, 64-byte aligned, zeroed: from kLeastOnHugePages on by the system, page by
/// page as it is first written to, so that what is never used costs nothing.
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;  // one cache line, and one AVX-512 register
  Buffer() = default;
  /// Error{resource_exhausted} when the system refuses.
  explicit Buffer(int64_t num_bytes);
  std::byte* data() const { return large_.data() != nullptr ? large_.data() : small_.get(); }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> small_;
  FreshMemory large_;
  int64_t num_bytes_ = 0;
};

/// A Buffer with a Tensor over it.
struct OwnedTensor {
  OwnedTensor() = default;
  OwnedTensor(DType dtype, Shape shape);
  Buffer buffer;
  Tensor view;
};

}  // namespace hasten
