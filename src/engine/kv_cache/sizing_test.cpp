// SPDX-License-Identifier: Apache-2.0
// The arithmetic of cache memory.
#include "engine/kv_cache/sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/block_table.h"
#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PeakBlocks, BoundsAWindowByTheWindowAndOneStep) {
  EXPECT_EQ(peak_blocks(100, 0, 8, 16), 7);
  EXPECT_EQ(peak_blocks(1000, 31, 1, 16), 3);
  EXPECT_EQ(peak_blocks(20, 32, 512, 16), 2);
  // Against what a table really holds, for every alignment.
  for (const int64_t window : {1, 5, 16, 33}) {
    for (const int64_t step : {1, 7, 16, 40}) {
      BlockPool pool(200);
      BlockTable table(pool, 16);
      int64_t most = 0;
      for (int64_t begin = 0; begin < 1000; begin += step) {
        table.release_before(std::max<int64_t>(0, begin - window));
        ASSERT_TRUE(table.extend(begin + step));
        most = std::max(most, table.num_held());
      }
      EXPECT_LE(most, peak_blocks(1000 + step, window, step, 16));
    }
  }
}

TEST(SizeCache, GivesAllBytesToTheBlocksThatCanBeUsed) {
  const std::vector<GroupSize> groups = {{.block_bytes = 1000, .window = 0}};
  SizingInput input = {.groups = groups,
                       .bytes = 10'500,
                       .context = 100,
                       .max_context = 4096,
                       .max_sequences = 4,
                       .step_tokens = 32};
  CacheSizing sizing = size_cache(input);
  EXPECT_THAT(sizing.num_blocks, ElementsAre(10));
  EXPECT_EQ(sizing.bytes, 10'000);
  EXPECT_EQ(sizing.context, 100);
  input.bytes = int64_t{1} << 40;
  EXPECT_THAT(size_cache(input).num_blocks, ElementsAre(4 * 7));
  input.context = 0;
  input.bytes = 10'500;
  EXPECT_EQ(size_cache(input).context, 160);
  input.bytes = int64_t{1} << 40;
  EXPECT_EQ(size_cache(input).context, 4096);
}

TEST(SizeCache, KeepsGroupsWithAWindowSmallWhenMemoryIsShort) {
  const std::vector<GroupSize> groups = {{.block_bytes = 100, .window = 0},
                                         {.block_bytes = 500, .window = 32}};
  SizingInput input = {.groups = groups,
                       .bytes = 0,
                       .context = 1600,
                       .max_context = 4096,
                       .max_sequences = 4,
                       .step_tokens = 16};
  // One sequence: 100 blocks of the first group, ceil((32 + 16) / 16) + 1 = 4 of the second.
  input.bytes = 100 * 100 + 4 * 500;
  EXPECT_THAT(size_cache(input).num_blocks, ElementsAre(100, 4));
  input.bytes += 3 * 500;
  EXPECT_THAT(size_cache(input).num_blocks, ElementsAre(100, 7));
  // Four sequences can use 16 blocks of the second; what is left goes to the first.
  input.bytes = 100 * 100 + 16 * 500 + 700;
  EXPECT_THAT(size_cache(input).num_blocks, ElementsAre(107, 16));
}

TEST(SizeCache, SaysWhatOneSequenceWouldTake) {
  const std::vector<GroupSize> groups = {{.block_bytes = 1 << 20, .window = 0}};
  const SizingInput input = {.groups = groups,
                             .bytes = 3 << 20,
                             .context = 100,
                             .max_context = 4096,
                             .max_sequences = 4,
                             .step_tokens = 32};
  try {
    size_cache(input);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_THAT(error.what(), HasSubstr("100 tokens take 7.0 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("the cache has 3.0 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("48 tokens"));
    EXPECT_THAT(error.what(), HasSubstr("--ctx"));
  }
}

TEST(SizeCache, SaysWhatTheSmallestCacheWouldTake) {
  const std::vector<GroupSize> groups = {{.block_bytes = 40 << 10, .window = 0}};
  SizingInput input = {.groups = groups, .bytes = 1 << 10, .context = 0, .max_context = 64};
  const auto refusal = [&] {
    try {
      size_cache(input);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal(), HasSubstr("less than one block of keys and values, which is of 16 tokens "
                                   "and takes 40.0 KiB"));
  EXPECT_THAT(refusal(),
              HasSubstr("a context of 64 tokens takes 160.0 KiB, the model's whole one;"));
  input.context = 20;
  EXPECT_THAT(refusal(), HasSubstr("a context of 20 tokens takes 80.0 KiB; raise --kv-cache"));
}

TEST(DefaultCacheBytes, LeavesRoomForWeightsInTheFile) {
  EXPECT_EQ(default_cache_bytes(1000, 0), 600);
  EXPECT_EQ(default_cache_bytes(1000, 500), 300);
  EXPECT_EQ(default_cache_bytes(1000, 5000), 150) << "which do not fit in any case";
  // Those that fit stay: the cache has a share of the rest, down to what an engine starts with.
  EXPECT_EQ(default_cache_bytes(1000, 800), 120);
  EXPECT_EQ(default_cache_bytes(3200, 3000), 120);
  EXPECT_EQ(default_cache_bytes(3200, 3199), 60);
  EXPECT_EQ(default_cache_bytes(3200, 3200), 480);
  EXPECT_EQ(default_cache_bytes(-1000, 0), 0);
  EXPECT_EQ(default_cache_bytes(-1000, 500), 0);
}

TEST(SizeCache, SurvivesNumbersThatOverflow) {
  const std::vector<GroupSize> groups = {{.block_bytes = int64_t{1} << 60, .window = 0}};
  const SizingInput input = {.groups = groups,
                             .bytes = int64_t{1} << 62,
                             .context = 0,
                             .max_context = int64_t{1} << 62,
                             .max_sequences = 1 << 30,
                             .step_tokens = 1};
  EXPECT_EQ(size_cache(input).context, 64);
}

}  // namespace
}  // namespace hasten::engine
