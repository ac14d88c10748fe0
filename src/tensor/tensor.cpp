// SPDX-License-Identifier: Apache-2.0
// Shapes, views and host buffers.
#include "tensor/tensor.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/huge_pages.h"

// AddressSanitizer, which some versions of Clang tell of by a feature alone, watches the heap.
#if defined(__SANITIZE_ADDRESS__)
#define HASTEN_WATCHES_THE_HEAP 1
#elif defined(__has_feature)
#define HASTEN_WATCHES_THE_HEAP __has_feature(address_sanitizer)
#else
#define HASTEN_WATCHES_THE_HEAP 0
#endif

namespace hasten {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  HASTEN_CHECK(dims.size() <= kMaxRank);
  for (size_t i = 0; i < dims.size(); ++i) {
    HASTEN_CHECK(dims[i] >= 0);
    dims_[i] = dims[i];
  }
}

int64_t Shape::num_elements() const {
  int64_t count = 1;
  for (int axis = 0; axis < rank_; ++axis) {
    const auto product = checked_mul(count, (*this)[axis]);
    HASTEN_CHECK(product.has_value());
    count = *product;
  }
  return count;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(dims_.begin(), dims_.begin() + rank_, ", "));
}

Tensor Tensor::slice(int64_t begin, int64_t count) const {
  HASTEN_CHECK(shape_.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape_[0]);
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (int axis = 0; axis < shape_.rank(); ++axis) dims[static_cast<size_t>(axis)] = shape_[axis];
  const int64_t bytes_per_slice = shape_[0] == 0 ? 0 : num_bytes() / shape_[0];
  dims[0] = count;
  return {static_cast<std::byte*>(data_) + begin * bytes_per_slice, dtype_,
          Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape_.rank()))),
          device_};
}

Tensor Tensor::reshape(Shape shape) const {
  HASTEN_CHECK(shape.num_elements() == num_elements());
  return {data_, dtype_, shape, device_};
}

Buffer::Buffer(int64_t num_bytes) : num_bytes_(num_bytes) {
  const bool is_large = num_bytes >= kLeastOnHugePages && !HASTEN_WATCHES_THE_HEAP;
  HASTEN_CHECK(num_bytes >= 0);
  if (num_bytes == 0) return;
  if (is_large) {
    large_ = FreshMemory(num_bytes);
  } else {
    const auto rounded = static_cast<size_t>(round_up(num_bytes, kAlignment));
    small_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (small_ != nullptr) std::memset(small_.get(), 0, rounded);
  }
  if (data() == nullptr)
    fail(ErrorCode::resource_exhausted, "cannot allocate {} bytes of memory", num_bytes);
}

void Buffer::Free::operator()(std::byte* p) const { std::free(p); }

OwnedTensor::OwnedTensor(DType dtype, Shape shape) {
  view = Tensor(static_cast<void*>(nullptr), dtype, shape);
  buffer = Buffer(view.num_bytes());
  view = Tensor(static_cast<void*>(buffer.data()), dtype, shape);
}

}  // namespace hasten
