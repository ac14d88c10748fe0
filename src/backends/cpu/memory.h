// SPDX-License-Identifier: Apache-2.0
// Large memory that is written before it is read: not zeroed, on 2-MiB pages where that helps.
#pragma once

#include <cstdint>
#include <memory>

namespace hasten::cpu {

/// Owns uninitialised memory, or none (data() is null). It is aligned to a cache line; from 8 MiB
/// on to a huge page, and the system is asked for such pages.
class Memory {
 public:
  Memory() = default;
  /// Error{resource_exhausted} when the system refuses.
  explicit Memory(int64_t num_bytes);
  uint8_t* data() const { return data_.get(); }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> data_;
  int64_t num_bytes_ = 0;
};

/// Memory for what an operation needs only while it runs.
class Scratch {
 public:
  /// At least `num_bytes`; grows when needed, and then what it held is lost. Growth after the
  /// first `reserve` is logged, because steps should not allocate.
  uint8_t* get(int64_t num_bytes);
  /// Announces the largest get().
  void reserve(int64_t num_bytes);

  template <class T>
  T* get_array(int64_t count) {
    return reinterpret_cast<T*>(get(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Memory memory_;
  bool reserved_ = false;
};

}  // namespace hasten::cpu
