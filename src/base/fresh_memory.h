// SPDX-License-Identifier: Apache-2.0
// FreshMemory: large zeroed memory that costs nothing until it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hasten {

/// Owns zeroed memory that begins on a huge page (2 MiB), or none (data() is null). The system
/// gives each page, cleared, when something is first read from it or written to it: huge ones where
/// it can. For much memory of which little may ever be used; of less than some MiB, rounding up to
/// whole pages costs more than clearing.
class FreshMemory {
 public:
  FreshMemory() = default;
  /// None when the system refuses.
  explicit FreshMemory(int64_t num_bytes);
  FreshMemory(FreshMemory&& other) noexcept { *this = std::move(other); }
  FreshMemory& operator=(FreshMemory&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  ~FreshMemory();

  std::byte* data() const { return data_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;  // in the mapping, on a huge page
};

}  // namespace hasten
