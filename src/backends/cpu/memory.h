// SPDX-License-Identifier: Apache-2.0
// Large memory that is written before it is read: not zeroed, on 2-MiB pages where that helps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/huge_pages.h"

namespace hasten::cpu {

/// Owns uninitialised memory, or none (data() is null). It is aligned to a cache line; from 8 MiB
/// on to a huge page, and the system is asked for such pages.
class Memory {
 public:
  Memory() = default;
  /// Error{resource_exhausted} when the system refuses.
  explicit Memory(int64_t num_bytes);
  /// None when the system refuses.
  static Memory try_allocate(int64_t num_bytes);
  uint8_t* data() const { return data_.get(); }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> data_;
  int64_t num_bytes_ = 0;
};

/// Pages that nobody has written to yet, to be written by several threads: each is brought in,
/// which has the system clear it, by the one that comes first, while others that want it wait. Of
/// two that write to a new page at the same time both would clear one, and one of these is thrown
/// away.
class NewPages {
 public:
  NewPages() = default;
  NewPages(uint8_t* first, int64_t count) : first_(first), states_(static_cast<size_t>(count)) {}
  NewPages(const NewPages&) = delete;
  NewPages& operator=(const NewPages&) = delete;

  uint8_t* first() const { return first_; }
  int64_t count() const { return std::ssize(states_); }
  /// Returns when all that [begin, end) lies on are there; how many of them it brought in itself.
  int64_t bring_in(const uint8_t* begin, const uint8_t* end);

 private:
  enum class State : uint8_t { fresh, coming, there };

  uint8_t* first_ = nullptr;
  std::vector<std::atomic<State>> states_;
};

/// Memory for what lives long and is written once, as weights do: many pieces to a chunk, so that
/// small ones lie on huge pages, too. A chunk is given back with its last piece. Not thread-safe.
class Arena {
 public:
  using Piece = std::shared_ptr<uint8_t>;

  /// Aligned to a cache line. Null when the system refuses.
  Piece allocate(int64_t num_bytes);
  /// Begins a chunk for pieces of so much in all, one by one as piece_bytes() says, and brings its
  /// pages in, in their order, until `stop`: ahead of the pieces. Nothing where the system refuses.
  void bring_in(int64_t num_bytes, const std::stop_token& stop);
  /// Where the pages end that bring_in() brought in; null: there are none on the latest chunk.
  const uint8_t* end_of_ahead() const;
  /// Bytes of those pages that no piece has yet.
  int64_t bytes_ahead() const;
  /// Gives the system back those that lie wholly behind the pieces.
  void give_back_ahead();
  /// What a piece takes of its chunk.
  static int64_t piece_bytes(int64_t num_bytes);
  /// Whether such a piece would lie on the same chunk as the latest one.
  bool has_room(int64_t num_bytes) const;
  /// The pages of the latest chunk's pieces that have not been given out here: whoever writes to
  /// these brings them in.
  NewPages new_pages();

 private:
  /// Null, and the latest one remains, where the system refuses.
  std::shared_ptr<Memory> begin_chunk(int64_t num_bytes);

  std::shared_ptr<Memory> begun_;  // a chunk that has no piece yet
  std::weak_ptr<Memory> chunk_;    // of the latest piece
  int64_t used_ = 0;               // bytes of it
  int64_t piece_end_ = 0;          // likewise, up to the end of the latest piece
  int64_t touched_ = 0;            // likewise, up to the end of a page
  int64_t ahead_ = 0;              // likewise: those that bring_in() brought in
};

/// Memory for what an operation needs only while it runs.
class Scratch {
 public:
  /// At least `num_bytes`; grows when needed, and then what it held is lost. Growth after the
  /// first `reserve` is logged, because steps should not allocate.
  uint8_t* get(int64_t num_bytes);
  /// Announces the largest get().
  void reserve(int64_t num_bytes);

  /// All that was allocated.
  std::span<std::byte> bytes() const {
    return {reinterpret_cast<std::byte*>(memory_.data()), static_cast<size_t>(memory_.num_bytes())};
  }

  template <class T>
  T* get_array(int64_t count) {
    return reinterpret_cast<T*>(get(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Memory memory_;
  bool reserved_ = false;
};

}  // namespace hasten::cpu
