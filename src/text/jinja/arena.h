// SPDX-License-Identifier: Apache-2.0
// A bump allocator with a limit: trees and values live in it and go with it, so that no chain of
// destructors, however deep the data, can exhaust the stack.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace hasten::text::jinja {

/// One thread at a time. Memory is returned when the arena is destroyed.
class Arena {
 public:
  /// `limit`: bytes that it may hold. `purpose` names them in the error.
  Arena(int64_t limit, const char* purpose) : limit_(limit), purpose_(purpose) {}

  /// Counts memory outside of the arena against its limit, until it is released.
  void charge(size_t bytes) {
    if (bytes > static_cast<size_t>(limit_)) exhausted();
    used_ += static_cast<int64_t>(bytes);
    if (used_ <= limit_) return;
    used_ -= static_cast<int64_t>(bytes);
    exhausted();
  }
  void release(size_t bytes) { used_ -= static_cast<int64_t>(bytes); }
  void set_limit(int64_t bytes) { limit_ = bytes; }
  /// The template's line, which the error tells then. Borrowed.
  void set_line(const int32_t* line) { line_ = line; }
  int64_t used() const { return used_; }

  /// Throws Error{resource_exhausted} past the limit.
  void* allocate(size_t bytes) {
    if (bytes > static_cast<size_t>(limit_)) exhausted();
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    if (bytes > static_cast<size_t>(end_ - next_)) grow(bytes);
    void* result = next_;
    next_ += bytes;
    return result;
  }

  template <class T>
  T* make(const T& value) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlign);
    return new (allocate(sizeof(T))) T(value);
  }

  /// A default-constructed object, made in place.
  template <class T>
  T& make() {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlign);
    return *new (allocate(sizeof(T))) T();
  }

  /// `count` default-constructed objects.
  template <class T>
  std::span<T> array(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlign);
    if (count > static_cast<size_t>(limit_) / sizeof(T)) exhausted();
    T* items = static_cast<T*>(allocate(count * sizeof(T)));
    std::uninitialized_default_construct_n(items, count);
    return {items, count};
  }

  template <class T>
  std::span<const T> copy(std::span<const T> from) {
    const std::span<T> to = array<T>(from.size());
    std::copy(from.begin(), from.end(), to.begin());
    return to;
  }
  std::string_view copy(std::string_view from) {
    const std::span<const char> bytes = copy(std::span<const char>(from.data(), from.size()));
    return {bytes.data(), bytes.size()};
  }

 private:
  static constexpr size_t kAlign = alignof(std::max_align_t);

  void grow(size_t bytes) {
    // Chunks double from 4 KiB to 256 KiB: small templates stay small, large ones need few chunks.
    const size_t chunk = std::max(bytes, size_t{4096} << std::min<size_t>(chunks_.size(), 6));
    charge(chunk);
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(chunk));
    next_ = chunks_.back().get();
    end_ = next_ + chunk;
  }
  [[noreturn]] void exhausted() const {
    fail(ErrorCode::resource_exhausted,
         "the chat template exceeds the memory limit of {} bytes for {}{}", limit_, purpose_,
         line_ == nullptr ? std::string() : fmt::format(" (line {})", *line_));
  }

  int64_t limit_;
  const char* purpose_;
  const int32_t* line_ = nullptr;
  int64_t used_ = 0;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

}  // namespace hasten::text::jinja
