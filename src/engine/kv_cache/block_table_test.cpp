// SPDX-License-Identifier: Apache-2.0
// Growing, sharing and giving back the blocks of a sequence.
#include "engine/kv_cache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> ids(const BlockTable& table) {
  return {table.ids().begin(), table.ids().end()};
}

TEST(BlockTable, GivesItsLastBlockBackFirst) {
  BlockPool pool(6);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t owner) {
    EXPECT_EQ(owner, 10 + id);
    evicted.push_back(id);
  });
  BlockTable first(pool, 4);
  BlockTable second(pool, 4);
  ASSERT_TRUE(first.extend(12));
  ASSERT_TRUE(second.extend(12));
  for (int32_t id = 0; id < 6; ++id) pool.keep(id, 10 + id);
  first.clear();
  second = BlockTable(pool, 4);
  while (pool.evict()) {
  }
  EXPECT_THAT(evicted, ElementsAre(2, 1, 0, 5, 4, 3));
}

TEST(BlockTable, AnEntryMayGetAnotherBlock) {
  BlockPool pool(3);
  BlockTable table(pool, 4);
  ASSERT_TRUE(table.extend(8));
  table.replace(0, pool.allocate());
  EXPECT_THAT(ids(table), ElementsAre(2, 1));
  EXPECT_EQ(pool.ref_count(0), 0);
  table.append(BlockRef());
  EXPECT_THAT(ids(table), ElementsAre(2, 1, -1));
  EXPECT_EQ(table.num_held(), 2);
}

TEST(BlockTable, ExtendsByWholeBlocksAndAllOrNothing) {
  BlockPool pool(3);
  BlockTable table(pool, 4);
  EXPECT_TRUE(table.extend(4));
  EXPECT_EQ(table.num_held(), 1);
  EXPECT_TRUE(table.extend(5));
  EXPECT_TRUE(table.extend(2));
  EXPECT_EQ(table.num_held(), 2);
  EXPECT_FALSE(table.extend(17));
  EXPECT_EQ(table.num_held(), 2);
  EXPECT_EQ(pool.num_free(), 1);
  table = BlockTable(pool, 4);
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(BlockTable, WhereAnEvictionFailsItGivesBackWhatItGot) {
  BlockPool pool(4);
  BlockTable first(pool, 4);
  ASSERT_TRUE(first.extend(16));
  for (int32_t id = 0; id < 4; ++id) pool.keep(id, id);
  first.clear();
  int num_evicted = 0;
  pool.on_evict([&](int32_t, int32_t) {
    if (++num_evicted == 2) throw std::bad_alloc();  // as when its contents are to be saved
  });
  BlockTable second(pool, 4);
  EXPECT_THROW((void)second.extend(16), std::bad_alloc);
  second.clear();
  EXPECT_EQ(pool.num_free(), 4);
  ASSERT_TRUE(second.extend(16));
  EXPECT_THAT(ids(second), ::testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST(BlockTable, ReleasesWhatLeftTheWindow) {
  BlockPool pool(4);
  BlockTable table(pool, 4);
  ASSERT_TRUE(table.extend(16));
  table.release_before(7);
  EXPECT_THAT(ids(table), ElementsAre(-1, 1, 2, 3));
  EXPECT_TRUE(table.covers(7, 16));
  EXPECT_FALSE(table.covers(3, 16));
  EXPECT_FALSE(table.covers(7, 17));
  table.release_before(12);
  EXPECT_THAT(ids(table), ElementsAre(-1, -1, -1, 3));
  EXPECT_EQ(table.num_held(), 1);
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(BlockTable, SharesWholeBlocksAndCopiesThePartialOne) {
  BlockPool pool(8);
  BlockTable source(pool, 4);
  ASSERT_TRUE(source.extend(12));
  {
    BlockTable partial(pool, 4);
    const auto copy = partial.share_prefix(source, 10);
    ASSERT_TRUE(copy);
    EXPECT_EQ(*copy, std::pair(2, 3));
    EXPECT_THAT(ids(partial), ElementsAre(0, 1, 3));
    EXPECT_EQ(pool.ref_count(0), 2);
    EXPECT_EQ(pool.ref_count(2), 1);

    BlockTable whole(pool, 4);
    EXPECT_FALSE(whole.share_prefix(source, 8));
    EXPECT_THAT(ids(whole), ElementsAre(0, 1));
    EXPECT_EQ(pool.ref_count(0), 3);
    source = BlockTable(pool, 4);
    EXPECT_EQ(pool.ref_count(0), 2);
  }
  EXPECT_EQ(pool.num_free(), 8);
}

TEST(BlockTable, RandomOperationsNeitherLeakNorFreeTwice) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  };
  BlockPool pool(64);
  std::vector<BlockTable> tables;
  std::vector<int64_t> lengths(8, 0);
  for (int i = 0; i < 8; ++i) tables.emplace_back(pool, 4);
  for (int round = 0; round < 20'000; ++round) {
    const auto at = static_cast<size_t>(draw(8));
    const auto other = static_cast<size_t>(draw(8));
    switch (draw(4)) {
      case 0:
        if (tables[at].extend(lengths[at] + 9)) lengths[at] += 9;
        break;
      case 1:
        tables[at].release_before(draw(lengths[at] + 1));
        break;
      case 2:
        tables[at] = BlockTable(pool, 4);
        lengths[at] = 0;
        break;
      default:
        if (lengths[at] == 0 && tables[other].covers(0, lengths[other]) && pool.num_free() > 0) {
          lengths[at] = draw(lengths[other] + 1);
          (void)tables[at].share_prefix(tables[other], lengths[at]);
        }
    }
    std::vector<int32_t> counts(64, 0);
    for (const BlockTable& table : tables)
      for (const int32_t id : table.ids())
        if (id >= 0) ++counts[static_cast<size_t>(id)];
    int64_t num_free = 0;
    for (int32_t id = 0; id < 64; ++id) {
      ASSERT_EQ(pool.ref_count(id), counts[static_cast<size_t>(id)]);
      if (counts[static_cast<size_t>(id)] == 0) ++num_free;
    }
    ASSERT_EQ(pool.num_free(), num_free);
  }
}

}  // namespace
}  // namespace hasten::engine
