// SPDX-License-Identifier: Apache-2.0
// The same tokens, wherever blocks have been meanwhile: on disk because memory ran out, on disk
// since an earlier process, damaged there, cut off, or another model's.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "equality.h"
#include "hasten_test/temporary_folder.h"

namespace hasten {
namespace {

class TierEquality : public Equality {
 protected:
  /// Little more than one sequence of the whole context fits into memory.
  EngineOptions tight() const {
    EngineOptions tight = options(32, 128);
    tight.kv_cache_bytes = 2560 * 1040;
    tight.kv_disk = store_;
    tight.kv_disk_bytes = int64_t{1} << 30;
    return tight;
  }

  /// The answers of one process, which ends.
  Stats run(const EngineOptions& chosen, const std::string& what) {
    Engine engine(chosen);
    expect_same(answers(engine), what);
    EXPECT_TRUE(engine.drain(10'000'000));
    const Stats stats = engine.stats();
    std::printf(
        "preemptions: %ld; from disk: %ld of %ld tokens; blocks: %ld, corrupt %ld, dropped %ld; "
        "bytes read %ld, written %ld\n",
        stats.preemptions, stats.kv_disk_hits, stats.kv_disk_queries, stats.kv_disk_blocks,
        stats.kv_disk_corrupt_blocks, stats.kv_disk_dropped_blocks, stats.kv_disk_read_bytes,
        stats.kv_disk_written_bytes);
    EXPECT_EQ(stats.kv_blocks_used, 0);
    return stats;
  }

  std::filesystem::path blocks() const { return store_ / "blocks.0"; }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path store_ = folder_.path() / "store";
};

TEST_F(TierEquality, BlocksGoToDiskAndComeBack) {
  const Stats cold = run(tight(), "memory runs out");
  EXPECT_GT(cold.preemptions, 0);
  EXPECT_GT(cold.kv_disk_hits, 0) << "what was preempted comes back from disk";
  EXPECT_EQ(cold.kv_disk_corrupt_blocks, 0);

  const Stats warm = run(tight(), "after a restart");
  EXPECT_GT(warm.kv_disk_hits, 2 * cold.kv_disk_hits);
  EXPECT_EQ(warm.kv_disk_corrupt_blocks, 0);

  // A bit here and there, in about every second block.
  std::mt19937 random(7);
  const auto size = std::filesystem::file_size(blocks());
  std::fstream file(blocks(), std::ios::in | std::ios::out | std::ios::binary);
  for (int64_t i = 0; i < warm.kv_disk_blocks; ++i) {
    const auto at = static_cast<std::streamoff>(random() % size);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ (1 << (random() % 8)));
    file.seekp(at);
    file.put(byte);
  }
  file.close();
  const Stats damaged = run(tight(), "damaged files");
  EXPECT_GT(damaged.kv_disk_corrupt_blocks, 0);

  std::filesystem::resize_file(blocks(), size / 3);
  const Stats cut = run(tight(), "files cut off");
  EXPECT_GT(cut.kv_disk_hits, 0);

  EngineOptions foreign = tight();
  foreign.kv_type = "f16";
  const Stats other = [&] {
    Engine engine(foreign);
    (void)answers(engine);
    EXPECT_TRUE(engine.drain(10'000'000));
    return engine.stats();
  }();
  EXPECT_EQ(other.kv_disk_corrupt_blocks, 0) << "what is another's is not even looked at";
  run(tight(), "among another's blocks");
}

TEST_F(TierEquality, AFolderWithoutRoom) {
  EngineOptions small = tight();
  small.kv_disk_bytes = 20 * 48 * 1024;
  const Stats stats = run(small, "a disk of 20 blocks");
  EXPECT_LE(stats.kv_disk_blocks, 24);
  EXPECT_GT(stats.kv_disk_written_bytes, 0);
}

TEST_F(TierEquality, NeedsThePrefixCache) {
  EngineOptions contradiction = tight();
  contradiction.prefix_cache = false;
  EXPECT_THROW(Engine{contradiction}, Error);
}

}  // namespace
}  // namespace hasten
