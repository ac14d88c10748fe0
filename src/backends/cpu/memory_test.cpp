// SPDX-License-Identifier: Apache-2.0
// Arena: pieces lie apart, live as long as they are wanted, and have their pages told once.
#include "backends/cpu/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace hasten::cpu {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST(Arena, PiecesLieApartWhateverTheirSizes) {
  Arena arena;
  std::vector<std::pair<Arena::Piece, int64_t>> pieces;
  // Some share a chunk, two do not fit in one, and the last are larger than any.
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

TEST(Arena, AChunkWithoutPiecesIsGivenBack) {
  Arena arena;
  const std::weak_ptr<uint8_t> gone = arena.allocate(1000);
  EXPECT_TRUE(gone.expired());
  const Arena::Piece next = arena.allocate(1000);  // of another one
  next.get()[999] = 1;
}

TEST(Arena, EachPageIsToldOnce) {
  Arena arena;
  std::vector<Arena::Piece> pieces;
  const uint8_t* last = nullptr;  // page
  int64_t num_pages = 0;
  for (const int64_t size : {3 * kMegabyte, int64_t{1000}, 5 * kMegabyte, 100 * kMegabyte}) {
    pieces.push_back(arena.allocate(size));
    const uint8_t* end = pieces.back().get() + size;
    while (uint8_t* page = arena.next_page(end)) {
      EXPECT_LT(page, end);
      EXPECT_NE(page, last);
      bring_in(page);
      last = page;
      ++num_pages;
    }
    EXPECT_GT(last + kHugePage, pieces.back().get());
    EXPECT_GE(last + kHugePage, end);
    pieces.back().get()[size - 1] = 1;
  }
  // Nine megabytes share a chunk, the rest is another.
  EXPECT_EQ(num_pages, 5 + 50);
}

}  // namespace
}  // namespace hasten::cpu
