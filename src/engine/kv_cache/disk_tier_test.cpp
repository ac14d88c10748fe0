// SPDX-License-Identifier: Apache-2.0
// Blocks on their way to a disk and back: what is staged, what is dropped, what survives.
#include "engine/kv_cache/disk_tier.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "hasten_test/temporary_folder.h"

namespace hasten::engine {
namespace {

constexpr int64_t kTokens = 4;
constexpr int64_t kBytes = 3000;

class DiskTierTest : public ::testing::Test {
 protected:
  std::unique_ptr<DiskTier> open(const std::string& model = "a model", int64_t num_slots = 100,
                                 int64_t num_staged = 8) const {
    return std::make_unique<DiskTier>(
        DiskTierOptions{.folder = store_,
                        .max_bytes = num_slots * 2 * BlockFile::slot_bytes(kTokens, kBytes),
                        .staging_bytes = num_staged * kBytes,
                        .block_tokens = kTokens,
                        .block_bytes = {kBytes, kBytes},
                        .model = model});
  }

  BlockName name(int32_t i, int32_t group = 0) {
    tokens_ = {i, i * 3, 7, 9};
    const auto number = static_cast<uint64_t>(i);
    return {.key = {.low = number, .high = 5},
            .parent = {.low = number, .high = 4},
            .group = group,
            .tokens = tokens_};
  }
  static std::vector<std::byte> contents(int32_t i, int32_t group = 0) {
    return std::vector<std::byte>(kBytes, static_cast<std::byte>(i * 5 + group));
  }
  /// False: there was no room.
  bool save(DiskTier& tier, int32_t i, int32_t group = 0) {
    const auto to = tier.save(name(i, group));
    if (!to.empty()) std::ranges::copy(contents(i, group), to.begin());
    tier.end_step(true);
    return !to.empty();
  }
  void save_all(DiskTier& tier, int32_t begin, int32_t end, int32_t group = 0) {
    for (int32_t i = begin; i < end; ++i) {
      ASSERT_TRUE(tier.await_writes(10'000'000));
      ASSERT_TRUE(save(tier, i, group));
    }
    ASSERT_TRUE(tier.await_writes(10'000'000));
  }
  TierState read(DiskTier& tier, int32_t i, int64_t round = 1, int32_t group = 0) {
    TierState state = tier.fetch(name(i, group), round);
    while (state == TierState::reading) {
      tier.await_read(10'000'000);
      state = tier.fetch(name(i, group), round);
    }
    return state;
  }
  /// Whether a block comes back; it is what was saved.
  bool load(DiskTier& tier, int32_t i, int32_t group = 0) {
    if (read(tier, i, 1, group) != TierState::ready) return false;
    const auto found = tier.take(name(i, group));
    EXPECT_TRUE(std::ranges::equal(found, contents(i, group))) << "block " << i;
    tier.end_step(true);
    return true;
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path store_ = folder_.path() / "store";
  std::vector<int32_t> tokens_;
};

TEST_F(DiskTierTest, BlocksSurviveTheirProcess) {
  Hash128 secret;
  {
    const auto tier = open();
    secret = tier->secret();
    for (int32_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(save(*tier, i, i % 2));
      EXPECT_TRUE(tier->contains(name(i, i % 2))) << "on its way";
    }
    EXPECT_TRUE(load(*tier, 2, 0));
    EXPECT_FALSE(load(*tier, 2, 1)) << "another group";
  }  // writes the rest
  const auto tier = open();
  EXPECT_EQ(tier->secret(), secret);
  EXPECT_EQ(tier->stats().num_blocks, 5);
  for (int32_t i = 0; i < 5; ++i) EXPECT_TRUE(load(*tier, i, i % 2));
  EXPECT_FALSE(load(*tier, 5));
  EXPECT_EQ(tier->stats().read_bytes, 5 * kBytes);
  EXPECT_EQ(tier->stats().num_corrupt, 0);
}

TEST_F(DiskTierTest, WhatIsSavedFirstAtTheEndStaysLongest) {
  constexpr int32_t kSlots = 6;
  {
    const auto tier = open("a model", kSlots);
    save_all(*tier, 20, 22);
    tier->expect_newest_first();
    save_all(*tier, 0, kSlots);
  }
  const auto tier = open("a model", kSlots);
  save_all(*tier, 30, 32);
  for (int32_t i = 0; i < kSlots; ++i) EXPECT_EQ(tier->contains(name(i)), i < kSlots - 2) << i;
}

TEST_F(DiskTierTest, WhatIsLookedForIsNotWrittenOverNext) {
  const auto tier = open("a model", 3);
  save_all(*tier, 0, 3);
  EXPECT_TRUE(tier->contains(name(0)));
  save_all(*tier, 3, 5);
  EXPECT_TRUE(tier->contains(name(0)));
  EXPECT_FALSE(tier->contains(name(1)));
  EXPECT_FALSE(tier->contains(name(2)));
}

TEST_F(DiskTierTest, AnotherModelsBlocksAreNotThere) {
  { save_all(*open("a model"), 0, 5); }
  {
    const auto tier = open("another model");
    EXPECT_EQ(tier->stats().num_blocks, 0);
    for (int32_t i = 0; i < 5; ++i) EXPECT_FALSE(tier->contains(name(i)));
  }
  EXPECT_EQ(open("a model")->stats().num_blocks, 5);
}

TEST_F(DiskTierTest, FilesOfMoreGroupsThanThereAreGo) {
  { save_all(*open(), 0, 5); }
  const std::vector<std::string> foreign = {"blocks", "blocks.", "blocks.3x", "blocks.-1",
                                            "other.7"};
  for (const std::string& file : foreign) std::ofstream(store_ / file) << "somebody's";
  for (const char* file : {"blocks.2", "blocks.17"}) {  // with a gap, as a kill may leave them
    std::ofstream(store_ / file) << "of a model with more groups";
  }
  std::ofstream(folder_.path() / "target") << "somebody's";
  std::filesystem::create_symlink(folder_.path() / "target", store_ / "blocks.3");
  EXPECT_EQ(open()->stats().num_blocks, 5);
  for (const char* file : {"blocks.2", "blocks.3", "blocks.17"})
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(store_ / file))) << file;
  for (const std::string& file : foreign)
    EXPECT_TRUE(std::filesystem::exists(store_ / file)) << file;
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "target"));
  std::filesystem::create_directory(store_ / "blocks.2");
  EXPECT_THROW(open(), Error) << "it would not be bounded";
}

TEST_F(DiskTierTest, AFolderThatIsInUseIsLeftAlone) {
  const auto tier = open();
  std::ofstream(store_ / "blocks.2") << "of a model with more groups";
  EXPECT_THROW(open(), Error);
  EXPECT_TRUE(std::filesystem::exists(store_ / "blocks.2"));
}

TEST_F(DiskTierTest, AnEqualKeyOfOtherTokensIsAMiss) {
  const auto tier = open();
  save_all(*tier, 0, 1);
  BlockName other = name(0);
  const std::vector<int32_t> tokens = {0, 0, 7, 8};
  other.tokens = tokens;
  EXPECT_EQ(tier->fetch(other, 1), TierState::reading);
  tier->await_read(10'000'000);
  EXPECT_EQ(tier->fetch(other, 1), TierState::absent);
}

TEST_F(DiskTierTest, AnEqualKeyOfOtherTokensIsAMissBesideTheStagedBlock) {
  const auto tier = open();
  save_all(*tier, 0, 1);
  BlockName other = name(0);
  const std::vector<int32_t> tokens = {0, 0, 7, 8};
  other.tokens = tokens;
  EXPECT_EQ(tier->fetch(name(0), 1), TierState::reading);
  EXPECT_EQ(tier->fetch(other, 1), TierState::absent) << "while it is read";
  EXPECT_EQ(read(*tier, 0), TierState::ready);
  EXPECT_EQ(tier->fetch(other, 1), TierState::absent);
  EXPECT_TRUE(load(*tier, 0)) << "which stays what it was";
}

TEST_F(DiskTierTest, WhatWasUsedLongestAgoMakesRoom) {
  const auto tier = open("a model", 4);
  save_all(*tier, 0, 4);
  EXPECT_TRUE(load(*tier, 0));
  save_all(*tier, 4, 6);
  for (const int32_t i : {0, 3, 4, 5}) EXPECT_TRUE(load(*tier, i)) << i;
  for (const int32_t i : {1, 2}) EXPECT_FALSE(load(*tier, i)) << i;
  EXPECT_LE(std::filesystem::file_size(store_ / "blocks.0"),
            4U * static_cast<size_t>(BlockFile::slot_bytes(kTokens, kBytes)));
}

TEST_F(DiskTierTest, StagingIsBoundedAndGoesToWhoNeedsItNow) {
  const auto tier = open("a model", 100, 4);
  save_all(*tier, 0, 8);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(read(*tier, i, 0), TierState::ready);
  EXPECT_EQ(tier->fetch(name(4), 0), TierState::no_room) << "read ahead takes nobody's place";
  EXPECT_EQ(read(*tier, 1, 1), TierState::ready);
  for (const int32_t i : {4, 5, 6}) EXPECT_EQ(read(*tier, i, 1), TierState::ready) << i;
  EXPECT_EQ(tier->fetch(name(7), 1), TierState::no_room) << "all is of the same round";
  EXPECT_EQ(tier->fetch(name(1), 1), TierState::ready);
  (void)tier->take(name(1));
  tier->end_step(true);
  EXPECT_EQ(read(*tier, 7, 1), TierState::ready) << "what was taken makes room";
}

TEST_F(DiskTierTest, BlocksThatComeTooFastAreDropped) {
  const auto tier = open("a model", 100, 3);
  int64_t num_saved = 0;
  for (int32_t i = 0; i < 40; ++i) {
    if (!tier->save(name(i)).empty()) ++num_saved;  // all in one step
  }
  EXPECT_EQ(num_saved, 3);
  EXPECT_EQ(tier->stats().num_dropped, 37);
  tier->end_step(false);
  EXPECT_TRUE(tier->await_writes(10'000'000));
  EXPECT_EQ(tier->stats().num_blocks, 0) << "contents that never came are not kept";
  EXPECT_TRUE(save(*tier, 1));
}

TEST_F(DiskTierTest, ADamagedBlockIsAMissOnce) {
  { save_all(*open(), 0, 3); }
  const int64_t slot = BlockFile::slot_bytes(kTokens, kBytes);
  std::fstream file(store_ / "blocks.0", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(slot + 1000);
  file.put('!');
  file.close();
  const auto tier = open();
  EXPECT_TRUE(tier->contains(name(1)));
  EXPECT_FALSE(load(*tier, 1));
  EXPECT_FALSE(tier->contains(name(1)));
  EXPECT_EQ(tier->stats().num_corrupt, 1);
  EXPECT_TRUE(load(*tier, 0));
  EXPECT_TRUE(load(*tier, 2));
  save_all(*tier, 1, 2);
  EXPECT_TRUE(load(*tier, 1));
}

/// As long as it lives, no file grows beyond so many bytes, whatever asks for that.
class FileLimit {
 public:
  explicit FileLimit(size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    struct rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  struct rlimit before_ {};
};

TEST_F(DiskTierTest, AWriteThatFailsEndsTheWritingOnly) {
  const auto tier = open();
  save_all(*tier, 0, 2);
  {
    const FileLimit limit(0);
    EXPECT_TRUE(save(*tier, 2));
    EXPECT_TRUE(tier->await_writes(10'000'000));
  }
  EXPECT_FALSE(tier->contains(name(2)));
  EXPECT_FALSE(save(*tier, 3)) << "nothing more is written";
  EXPECT_TRUE(load(*tier, 0));
  EXPECT_TRUE(load(*tier, 1));
}

TEST_F(DiskTierTest, ADiskWithoutRoomEndsTheWritingOnly) {
  const auto tier = open();
  save_all(*tier, 0, 2);
  {
    // The first block of the other group makes its file ask for all of its 100 slots, then for one.
    // The limit of files stands for the disk's; a write without the room asked for would succeed.
    const auto slot = static_cast<size_t>(BlockFile::slot_bytes(kTokens, kBytes));
    const FileLimit limit(2 * slot);
    save_all(*tier, 2, 4, 1);
    if (std::filesystem::file_size(store_ / "blocks.1") > 2 * slot)
      GTEST_SKIP() << "posix_fallocate goes beyond RLIMIT_FSIZE on the file system of " << store_;
    EXPECT_TRUE(tier->contains(name(3, 1))) << "what there is room for is used";
    EXPECT_TRUE(save(*tier, 4, 1));
    EXPECT_TRUE(tier->await_writes(10'000'000));
  }
  EXPECT_FALSE(tier->contains(name(4, 1)));
  EXPECT_FALSE(save(*tier, 5)) << "nothing more is written";
  EXPECT_FALSE(save(*tier, 5, 1));
  EXPECT_EQ(tier->stats().num_blocks, 4);
  EXPECT_TRUE(load(*tier, 0));
  EXPECT_TRUE(load(*tier, 1));
}

TEST_F(DiskTierTest, TooFewBytesForABlockAreRefused) { EXPECT_THROW(open("a model", 0), Error); }

TEST_F(DiskTierTest, RandomTrafficBringsBackOnlyWhatWasSaved) {
  std::mt19937 random(11);
  int64_t num_loaded = 0;
  for (int life = 0; life < 10; ++life) {
    const auto tier = open("a model", 20, 6);
    for (int i = 0; i < 200; ++i) {
      const auto block = static_cast<int32_t>(random() % 40);
      if (random() % 2 == 0)
        save(*tier, block, static_cast<int32_t>(random() % 2));
      else
        num_loaded += load(*tier, block, static_cast<int32_t>(random() % 2)) ? 1 : 0;
      ASSERT_LE(tier->stats().num_blocks, 40);
    }
  }
  EXPECT_GT(num_loaded, 200);
}

}  // namespace
}  // namespace hasten::engine
