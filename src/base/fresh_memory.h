// SPDX-License-Identifier: Apache-2.0
// FreshMemory: large zeroed memory that costs nothing until it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace hasten {

/// Owns zeroed memory that begins on a huge page, or none (data() is null). The system gives each
/// page, cleared, when it is first written to: huge ones where it can, so that a byte may bring in
/// as much as a huge page. For much memory of which little may ever be used; of less than some MiB,
/// rounding up to whole pages costs more than clearing.
class FreshMemory {
 public:
  FreshMemory() = default;
  /// None of 0 bytes, and when the system refuses.
  explicit FreshMemory(int64_t num_bytes);
  FreshMemory(FreshMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), mapped_bytes_(other.mapped_bytes_) {}
  FreshMemory& operator=(FreshMemory&& other) noexcept {
    const FreshMemory old(std::move(*this));
    data_ = std::exchange(other.data_, nullptr);
    mapped_bytes_ = other.mapped_bytes_;
    return *this;
  }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  ~FreshMemory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

/// Has the system give all pages of memory whose contents nobody needs, by writing a zero to each.
/// Of two threads that do so to one page both would clear one.
void bring_in_pages(std::span<std::byte> unused);

}  // namespace hasten
