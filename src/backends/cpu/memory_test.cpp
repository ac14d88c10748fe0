// SPDX-License-Identifier: Apache-2.0
// Arena: pieces lie apart, live as long as they are wanted, and have their pages brought in once;
// the cache's pages are brought in on request.
#include "backends/cpu/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kv_cache.h"
#include "base/fresh_memory.h"
#include "base/resident_pages_test.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST(Arena, PiecesLieApartWhateverTheirSizes) {
  Arena arena;
  std::vector<std::pair<Arena::Piece, int64_t>> pieces;
  // Some share a chunk, two do not fit in one, and the last are larger than any, under ASan those
  // two as well.
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{65}, 40 * kMegabyte, 40 * kMegabyte,
                             64 * kMegabyte, 65 * kMegabyte, int64_t{3}}) {
    pieces.emplace_back(arena.allocate(size), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces.back().first.get()) % 64, 0U);
    if (size == 0) continue;
    // Ends are enough to see an overlap, and cost few pages.
    const auto mark = static_cast<uint8_t>(pieces.size());
    pieces.back().first.get()[0] = mark;
    pieces.back().first.get()[size - 1] = mark;
  }
  uint8_t mark = 0;
  for (const auto& [piece, size] : pieces) {
    ++mark;
    if (size == 0) continue;
    EXPECT_EQ(piece.get()[0], mark);
    EXPECT_EQ(piece.get()[size - 1], mark);
    for (const auto& [other, other_size] : pieces) {
      if (other == piece || other_size == 0) continue;
      EXPECT_TRUE(other.get() + other_size <= piece.get() || piece.get() + size <= other.get());
    }
  }
}

TEST(Arena, APieceOutlivesItsArenaAndItsNeighbours) {
  Arena::Piece kept;
  {
    Arena arena;
    const Arena::Piece gone = arena.allocate(1000);
    kept = arena.allocate(1000);
    std::memset(kept.get(), 7, 1000);
  }
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(kept.get()[i], 7);
}

TEST(Arena, APieceHasAnOwnerOfItsOwn) {
  Arena arena;
  EXPECT_FALSE(arena.has_room(1000));
  Arena::Piece piece = arena.allocate(1000);
  const Arena::Piece neighbour = arena.allocate(1000);
  const std::weak_ptr<uint8_t> gone = piece;
  piece.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_TRUE(arena.has_room(1000));
}

TEST(Arena, AChunkWithoutPiecesIsGivenBackThoughOneIsRemembered) {
  Arena arena;
  const std::weak_ptr<uint8_t> gone = arena.allocate(1000);
  EXPECT_TRUE(gone.expired());
  EXPECT_FALSE(arena.has_room(1000));
  const Arena::Piece next = arena.allocate(1000);  // of another one
  next.get()[999] = 1;
}

TEST(Arena, EachPageIsNewOnce) {
  Arena arena;
  EXPECT_EQ(arena.new_pages().count(), 0);
  std::vector<Arena::Piece> pieces;
  const uint8_t* end = nullptr;  // of the pages before
  int64_t num_pages = 0;
  for (const int64_t size : {3 * kMegabyte, int64_t{1000}, 5 * kMegabyte, 100 * kMegabyte}) {
    pieces.push_back(arena.allocate(size));
    uint8_t* piece = pieces.back().get();
    const NewPages pages = arena.new_pages();
    EXPECT_EQ(arena.new_pages().count(), 0);
    num_pages += pages.count();
    if (pages.count() > 0) {
      EXPECT_LT(pages.first(), piece + size);
      if (pages.first() > piece) {
        EXPECT_EQ(pages.first(), end);
      }
      end = pages.first() + pages.count() * kHugePage;
    }
    EXPECT_GE(end, piece + size);
    EXPECT_LT(end - kHugePage, piece + size);
  }
  // Nine megabytes share a chunk, the rest is another.
  EXPECT_EQ(num_pages, 5 + 50);
}

TEST(Arena, PiecesLieOnWhatWasBroughtInAhead) {
  Arena arena;
  EXPECT_EQ(arena.end_of_ahead(), nullptr);
  EXPECT_EQ(arena.bytes_ahead(), 0);
  const int64_t size = 70 * kMegabyte;
  arena.bring_in(Arena::piece_bytes(size) + Arena::piece_bytes(1000), std::stop_token());
  EXPECT_EQ(arena.bytes_ahead(), 72 * kMegabyte);
  const Arena::Piece first = arena.allocate(size);
  EXPECT_EQ(arena.end_of_ahead(), first.get() + 72 * kMegabyte);
  EXPECT_EQ(arena.bytes_ahead(), 72 * kMegabyte - Arena::piece_bytes(size));
  const Arena::Piece second = arena.allocate(1000);
  EXPECT_EQ(second.get(), first.get() + Arena::piece_bytes(size));
  EXPECT_EQ(arena.new_pages().count(), 0);
  first.get()[size - 1] = 1;
  second.get()[999] = 1;
  const Arena::Piece third = arena.allocate(3 * kMegabyte);  // more than was announced
  EXPECT_EQ(arena.bytes_ahead(), 0);
  EXPECT_EQ(arena.new_pages().count(), 2);
}

TEST(Arena, WhatWasNotBroughtInWhenItWasStoppedIsNew) {
  Arena arena;
  std::jthread stopped([](const std::stop_token&) {});
  stopped.request_stop();
  arena.bring_in(Arena::piece_bytes(70 * kMegabyte), stopped.get_stop_token());
  EXPECT_EQ(arena.bytes_ahead(), 0);
  EXPECT_TRUE(arena.has_room(70 * kMegabyte));
  const Arena::Piece piece = arena.allocate(70 * kMegabyte);
  EXPECT_EQ(arena.end_of_ahead(), nullptr);
  EXPECT_EQ(arena.new_pages().count(), 35);
}

TEST(Arena, WhatIsAheadOfAllPiecesIsGivenBack) {
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  const auto is_there = [](const uint8_t* begin, int64_t page) {
    return resident_bytes(begin + page * kHugePage, 1) > 0;
  };
  Arena arena;
  arena.bring_in(80 * kMegabyte, std::stop_token());
  const Arena::Piece piece = arena.allocate(9 * kMegabyte);
  std::memset(piece.get(), 7, 9 * kMegabyte);
  EXPECT_TRUE(is_there(piece.get(), 4));
  EXPECT_TRUE(is_there(piece.get(), 5));
  arena.give_back_ahead();
  EXPECT_TRUE(is_there(piece.get(), 4));
  EXPECT_FALSE(is_there(piece.get(), 5));
  EXPECT_FALSE(is_there(piece.get(), 39));
  EXPECT_EQ(arena.bytes_ahead(), 10 * kMegabyte - Arena::piece_bytes(9 * kMegabyte));
  EXPECT_EQ(piece.get()[9 * kMegabyte - 1], 7);
  const Arena::Piece next = arena.allocate(2 * kMegabyte);  // on the same chunk
  EXPECT_EQ(next.get(), piece.get() + Arena::piece_bytes(9 * kMegabyte));
  EXPECT_EQ(arena.new_pages().count(), 1);
}

TEST(NewPages, EachIsBroughtInByWhoComesFirst) {
  Arena arena;
  const Arena::Piece piece = arena.allocate(40 * kMegabyte);
  NewPages pages = arena.new_pages();
  ASSERT_EQ(pages.count(), 20);
  const auto in_page = [&](int64_t page) { return piece.get() + page * kHugePage; };
  EXPECT_EQ(pages.bring_in(in_page(0) - 5, in_page(0) - 4), 0);  // before all
  EXPECT_EQ(pages.bring_in(in_page(3) - 1, in_page(4) + 1), 3);
  EXPECT_EQ(pages.bring_in(in_page(3), in_page(5)), 0);
  EXPECT_EQ(pages.bring_in(in_page(19), in_page(25)), 1);  // and behind all
  std::atomic<int64_t> num_brought{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { num_brought += pages.bring_in(in_page(0), in_page(20)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_brought, 16);
}

TEST(NewPages, AreThereThen) {
#if defined(MADV_POPULATE_WRITE)
  Arena arena;
  const Arena::Piece piece = arena.allocate(8 * kMegabyte);
  NewPages pages = arena.new_pages();
  ASSERT_EQ(pages.count(), 4);
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  const auto is_there = [&](int64_t page) {  // behind what AddressSanitizer writes
    return resident_bytes(pages.first() + page * kHugePage + 65536, 1) > 0;
  };
  if (madvise(pages.first(), 4096, MADV_POPULATE_WRITE) != 0)
    GTEST_SKIP() << "this system does not bring pages in before they are written";
  pages.bring_in(piece.get() + 2 * kHugePage - 1, piece.get() + 2 * kHugePage + 1);
  EXPECT_TRUE(is_there(1));
  EXPECT_TRUE(is_there(2));
  EXPECT_FALSE(is_there(3));
#else
  GTEST_SKIP() << "this system does not bring pages in before they are written";
#endif
}

TEST(KvCache, HasItsMemoryBroughtInOnRequest) {
  const auto backend = make_cpu_backend({.threads = 2});
  const auto cache = backend->make_kv_cache(
      {.num_layers = 3, .num_blocks = 700, .block_size = 16, .num_kv_heads = 8, .head_dim = 64});
  const auto& blocks = dynamic_cast<const CpuKvCache&>(*cache);
  const auto size = std::ssize(blocks.bytes());
  ASSERT_GT(size, 64 * kMegabyte);  // more than one report of two threads
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  EXPECT_LT(resident_bytes(blocks.bytes().data(), size), size / 2);
  std::vector<double> told;
  backend->bring_in(*cache, [&](double fraction) { told.push_back(fraction); });
  EXPECT_GE(resident_bytes(blocks.bytes().data(), size), size);
  ASSERT_GT(told.size(), 1U);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_LT(told.front(), 1);
  EXPECT_EQ(told.back(), 1);
}

TEST(CpuBackend, BringsInWhatItReservedOnRequest) {
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  const auto backend = make_cpu_backend({.threads = 2});
  backend->reserve({.max_tokens = 2048,
                    .max_sequences = 1,
                    .max_features = 8192,
                    .max_context = 128,
                    .max_heads = 1,
                    .max_head_dim = 64});
  const int64_t before = resident_bytes_of_process();
  backend->bring_in_reserved();
  EXPECT_GT(resident_bytes_of_process() - before, 64 * kMegabyte);  // as much as rows of floats
}

TEST(CpuBackend, BringsMemoryInOnRequest) {
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  constexpr int64_t kBytes = 40 * kMegabyte;
  const FreshMemory memory(kBytes);
  const auto backend = make_cpu_backend({.threads = 2});
  backend->bring_in_memory({static_cast<void*>(memory.data()), DType::f32, {kBytes / 4}});
  EXPECT_EQ(resident_bytes(memory.data(), kBytes), kBytes);
}

}  // namespace
}  // namespace hasten::cpu
