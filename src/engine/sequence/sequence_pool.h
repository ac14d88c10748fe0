// SPDX-License-Identifier: Apache-2.0
// SequencePool: where an engine's sequences are, side by side.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <memory_resource>

#include "engine/sequence/sequence.h"

namespace hasten::engine {

/// Each step looks at every sequence that runs, at one cache line of it. Each on a page of its own,
/// among tokens and text, thousands are more pages than a processor remembers places of, and every
/// look waits for that place, too. Keeps the memory of as many as there were at a time. One thread.
class SequencePool {
 public:
  /// Gives a sequence back.
  struct Deleter {
    SequencePool* pool = nullptr;
    void operator()(Sequence* sequence) const {
      pool->allocator_.delete_object(static_cast<Place*>(sequence));
    }
  };
  /// Must not outlive its pool.
  using Pointer = std::unique_ptr<Sequence, Deleter>;

  SequencePool() = default;
  SequencePool(const SequencePool&) = delete;
  SequencePool& operator=(const SequencePool&) = delete;

  [[nodiscard]] Pointer make() { return {allocator_.new_object<Place>(), Deleter{this}}; }

 private:
  static constexpr size_t kLine = 64;  // bytes of a cache line
  /// With a distance of an odd number of lines: the lines that are looked at would be in some of
  /// the sets of a cache only with one of four or eight.
  struct Place : Sequence {
    std::array<std::byte, kLine> gap{};
  };
  static_assert(sizeof(Place) / kLine % 2 == 1);

  std::pmr::unsynchronized_pool_resource memory_;
#if defined(__SANITIZE_ADDRESS__)
  // Or else nobody would see that a sequence is used which is gone.
  std::pmr::polymorphic_allocator<> allocator_{std::pmr::new_delete_resource()};
#else
  std::pmr::polymorphic_allocator<> allocator_{&memory_};
#endif
};

}  // namespace hasten::engine
