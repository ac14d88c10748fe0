// SPDX-License-Identifier: Apache-2.0
// What is kept of blocks outside memory: the index of slots, the file that trusts nothing, and the
// folder that belongs to one process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/kv_cache/block_file.h"
#include "engine/kv_cache/block_index.h"
#include "engine/kv_cache/store_directory.h"
#include "hasten_test/temporary_folder.h"

namespace hasten::engine {
namespace {

Hash128 key(uint64_t number) { return {.low = number, .high = ~number}; }

TEST(BlockIndex, HandsOutFreeSlotsThenTheOldest) {
  BlockIndex index(3);
  for (uint64_t i = 0; i < 3; ++i) {
    const int64_t slot = index.claim();
    EXPECT_EQ(slot, static_cast<int64_t>(i));
    index.publish(slot, key(i));
  }
  index.touch(key(0));
  const int64_t slot = index.claim();
  EXPECT_EQ(slot, 1);
  EXPECT_EQ(index.find(key(1)), -1);
  EXPECT_EQ(index.find(key(0)), 0);
  index.release(slot);
  EXPECT_EQ(index.claim(), 1);
  EXPECT_EQ(index.claim(), 2);
  EXPECT_EQ(index.claim(), 0);
  EXPECT_EQ(index.claim(), -1) << "all are claimed";
}

// The list of free slots may name those that were found in use.
TEST(BlockIndex, TakesNoBlockFromAnEarlierRunWhileThereIsRoom) {
  BlockIndex index(6);
  for (int64_t slot = 0; slot < 3; ++slot)
    EXPECT_TRUE(index.restore(slot, key(static_cast<uint64_t>(slot))));
  for (int64_t i = 3; i < 6; ++i) {
    const int64_t slot = index.claim();
    EXPECT_EQ(slot, i);
    index.publish(slot, key(static_cast<uint64_t>(i)));
  }
  for (uint64_t i = 0; i < 6; ++i) EXPECT_GE(index.find(key(i)), 0) << i;
  EXPECT_EQ(index.claim(), 0);
}

TEST(BlockIndex, KeepsOneSlotForAKey) {
  BlockIndex index(4);
  index.publish(index.claim(), key(7));
  const int64_t second = index.claim();
  index.publish(second, key(7));
  EXPECT_EQ(index.find(key(7)), 0);
  EXPECT_EQ(index.num_used(), 1);
  EXPECT_EQ(index.claim(), second);
  EXPECT_FALSE(index.restore(3, key(7)));
  EXPECT_TRUE(index.restore(3, key(8)));
  EXPECT_FALSE(index.restore(3, key(9)));
  index.forget(key(8));
  EXPECT_EQ(index.find(key(8)), -1);
  EXPECT_TRUE(index.restore(3, key(9)));
}

TEST(BlockIndex, AgreesWithALongListUnderRandomCalls) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    const auto size = static_cast<int64_t>(1 + random() % 6);
    BlockIndex index(size);
    std::vector<uint64_t> order;  // the oldest first
    for (int i = 0; i < 300; ++i) {
      const uint64_t number = random() % 9;
      const auto at = std::ranges::find(order, number);
      const bool known = at != order.end();
      ASSERT_EQ(index.find(key(number)) >= 0, known);
      switch (random() % 3) {
        case 0:
          index.touch(key(number));
          if (known) std::rotate(at, at + 1, order.end());
          break;
        case 1:
          index.forget(key(number));
          if (known) order.erase(at);
          break;
        default:
          if (known) break;
          if (std::ssize(order) == size) order.erase(order.begin());
          index.publish(index.claim(), key(number));
          order.push_back(number);
      }
      ASSERT_EQ(index.num_used(), std::ssize(order));
    }
  }
}

class BlockFileTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 4;
  static constexpr int64_t kBytes = 5000;

  BlockFile open(uint64_t seal = 1, int64_t max_bytes = 10 * 8192) {
    return BlockFile(StoreDirectory(store_).open_file("blocks"), {.block_tokens = kTokens,
                                                                  .payload_bytes = kBytes,
                                                                  .max_bytes = max_bytes,
                                                                  .seal = key(seal)});
  }
  static std::vector<int32_t> tokens(int32_t i) { return {i, i + 1, i + 2, i + 3}; }
  static std::vector<std::byte> contents(int32_t i) {
    std::vector<std::byte> bytes(kBytes);
    for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = std::byte(b * 7 + static_cast<size_t>(i));
    return bytes;
  }
  static BlockName name(int32_t i, const std::vector<int32_t>& tokens) {
    return {.key = key(static_cast<uint64_t>(i)),
            .parent = key(static_cast<uint64_t>(i) + 100),
            .group = 0,
            .tokens = tokens};
  }
  void write(BlockFile& file, int32_t i) {
    EXPECT_EQ(file.write(i, name(i, tokens(i)), static_cast<uint64_t>(10 + i), contents(i)), "");
  }
  BlockFile::Outcome read(BlockFile& file, int32_t i) {
    std::vector<std::byte> bytes(kBytes);
    const auto outcome = file.read(i, name(i, tokens(i)), bytes);
    if (outcome == BlockFile::Outcome::ok) {
      EXPECT_EQ(bytes, contents(i));
    }
    return outcome;
  }
  static std::map<int64_t, uint64_t> scan(BlockFile& file, int64_t expected_others) {
    std::map<int64_t, uint64_t> found;
    EXPECT_EQ(file.scan([&](int64_t slot, const Hash128& k, uint64_t serial) {
      EXPECT_EQ(k, key(static_cast<uint64_t>(slot)));
      found[slot] = serial;
    }),
              expected_others);
    return found;
  }
  void overwrite(int64_t offset, std::byte value) {
    std::fstream file(store_ / "blocks", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.put(static_cast<char>(value));
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path store_ = folder_.path() / "store";
};

TEST_F(BlockFileTest, KeepsBlocksBetweenProcesses) {
  {
    BlockFile file = open();
    EXPECT_EQ(file.num_slots(), 10);
    for (const int32_t i : {0, 3, 9}) write(file, i);
  }
  BlockFile file = open();
  EXPECT_THAT(scan(file, 0),
              ::testing::ElementsAre(::testing::Pair(0, 10U), ::testing::Pair(3, 13U),
                                     ::testing::Pair(9, 19U)));
  EXPECT_EQ(read(file, 3), BlockFile::Outcome::ok);
  EXPECT_EQ(read(file, 4), BlockFile::Outcome::corrupt) << "never written";
}

TEST_F(BlockFileTest, OnlyTheVeryBlockIsRead) {
  BlockFile file = open();
  write(file, 3);
  std::vector<std::byte> bytes(kBytes);
  const auto known = tokens(3);
  const BlockName right = name(3, known);
  EXPECT_EQ(file.read(3, right, bytes), BlockFile::Outcome::ok);
  BlockName wrong = right;
  wrong.key.high ^= 1;
  EXPECT_EQ(file.read(3, wrong, bytes), BlockFile::Outcome::absent);
  wrong = right;
  wrong.parent.low ^= 1;
  EXPECT_EQ(file.read(3, wrong, bytes), BlockFile::Outcome::absent);
  wrong = right;
  wrong.group = 1;
  EXPECT_EQ(file.read(3, wrong, bytes), BlockFile::Outcome::absent);
  const auto others = tokens(4);
  wrong = right;
  wrong.tokens = others;
  EXPECT_EQ(file.read(3, wrong, bytes), BlockFile::Outcome::absent);
}

TEST_F(BlockFileTest, ABitAnywhereIsNoticed) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    BlockFile file = open();
    write(file, 0);
    const auto head = static_cast<int64_t>(8 + 4 * 16 + 4 * 8 + kTokens * 4);
    // Half of them in what leads to the contents.
    const auto at = static_cast<int64_t>(random()) % (round % 2 == 0 ? head : head + kBytes);
    std::fstream stream(store_ / "blocks", std::ios::in | std::ios::binary);
    stream.seekg(at);
    const auto byte = static_cast<std::byte>(stream.get());
    overwrite(at, byte ^ (std::byte{1} << (random() % 8)));
    EXPECT_EQ(read(file, 0), BlockFile::Outcome::corrupt) << "byte " << at;
    EXPECT_EQ(scan(file, at < head ? 1 : 0).size(), at < head ? 0U : 1U) << "byte " << at;
  }
}

TEST_F(BlockFileTest, AWriteThatWasCutOffAnywhereIsNoBlock) {
  BlockFile file = open();
  write(file, 0);
  const auto path = store_ / "blocks";
  std::vector<char> whole(8192);
  std::ifstream(path, std::ios::binary).read(whole.data(), std::ssize(whole));
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(file.write(0, name(1, tokens(1)), 11, contents(1)), "");
    // The first bytes of the new block over the old one.
    const auto count = static_cast<int64_t>(random() % 5200);
    std::vector<char> torn(8192);
    std::ifstream(path, std::ios::binary).read(torn.data(), std::ssize(torn));
    std::copy(whole.begin(), whole.begin() + count, torn.begin());
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        .write(torn.data(), std::ssize(torn));
    std::vector<std::byte> bytes(kBytes);
    for (const int32_t i : {0, 1}) {
      const auto outcome = file.read(0, name(i, tokens(i)), bytes);
      if (outcome == BlockFile::Outcome::ok) {
        EXPECT_EQ(bytes, contents(i)) << count << " bytes";
      }
    }
  }
}

TEST_F(BlockFileTest, AnotherSealsBlocksAreNone) {
  {
    BlockFile file = open(1);
    write(file, 2);
  }
  BlockFile file = open(2);
  EXPECT_TRUE(scan(file, 1).empty());
  EXPECT_EQ(read(file, 2), BlockFile::Outcome::corrupt);
}

TEST_F(BlockFileTest, StaysWithinItsBytes) {
  {
    BlockFile file = open(1, 6 * 8192 + 8191);
    EXPECT_EQ(file.num_slots(), 6);
    write(file, 1);
    write(file, 5);
    EXPECT_THROW((void)file.write(6, name(6, tokens(6)), 1, contents(6)), Error);
  }
  EXPECT_EQ(std::filesystem::file_size(store_ / "blocks"), 6U * 8192);
  BlockFile file = open(1, 3 * 8192);
  EXPECT_EQ(std::filesystem::file_size(store_ / "blocks"), 3U * 8192);
  EXPECT_EQ(read(file, 1), BlockFile::Outcome::ok);
  std::filesystem::resize_file(store_ / "blocks", 8192 + 4000);
  EXPECT_EQ(read(file, 1), BlockFile::Outcome::corrupt) << "cut off by somebody";
}

TEST(StoreDirectory, KeepsItsSecretAndIsOnesOwn) {
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  Hash128 secret;
  {
    const StoreDirectory folder(store);
    secret = folder.secret();
    try {
      const StoreDirectory second(store);
      FAIL() << "two at a time";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("--kv-disk"));
    }
    struct stat info {};
    for (const char* file : {"secret", "lock"}) {
      ASSERT_EQ(::stat((store / file).c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, 0600U) << file;
    }
    ASSERT_EQ(::stat(store.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
  }
  EXPECT_EQ(StoreDirectory(store).secret(), secret);
  // A secret that is damaged is replaced.
  std::filesystem::resize_file(store / "secret", 20);
  const Hash128 another = StoreDirectory(store).secret();
  EXPECT_NE(another, secret);
  EXPECT_EQ(StoreDirectory(store).secret(), another);
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string why_refused(const std::filesystem::path& folder) {
  try {
    const StoreDirectory opened(folder);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
}

TEST(StoreDirectory, LeavesFoldersOfOtherFilesAlone) {
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  std::filesystem::create_directory(store);
  std::filesystem::permissions(store, std::filesystem::perms::owner_all);
  std::ofstream(store / "thesis.txt") << "mine";
  EXPECT_THAT(why_refused(store),
              ::testing::HasSubstr("such as thesis.txt: give --kv-disk a name"));
  EXPECT_FALSE(std::filesystem::exists(store / "lock")) << "nothing was made there";
  std::filesystem::remove(store / "thesis.txt");
  // As a process leaves it that was killed early, at the top of a file system.
  std::ofstream(store / "lock").flush();
  std::ofstream(store / "secret.new").flush();
  std::filesystem::create_directory(store / "lost+found");
  { const StoreDirectory begun(store); }
  std::ofstream(store / "thesis.txt") << "mine";
  const StoreDirectory ours(store);
}

TEST(StoreDirectory, LeavesFilesThatAreNamedAsItsOwnAlone) {
  const std::string mine(32, 'x');  // of the size of ours, too
  for (const std::string name : {"secret", "secret.new", "lock", "blocks.0"}) {
    for (const std::string& text : {mine.substr(0, 20), mine, mine + mine}) {
      const testing::TemporaryFolder temporary;
      const auto file = temporary.path() / name;
      std::filesystem::permissions(temporary.path(), std::filesystem::perms::owner_all);
      write_text(file, text);
      EXPECT_THAT(why_refused(temporary.path()),
                  ::testing::HasSubstr(": " + name + " is there and"))
          << text.size();
      EXPECT_EQ(text_of(file), text);
      const std::filesystem::directory_iterator files(temporary.path());
      EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing was made";
    }
  }
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  { const StoreDirectory made(store); }
  for (const char* name : {"secret", "secret.new"}) {
    std::filesystem::remove(store / "secret");
    write_text(store / name, mine + mine);
    EXPECT_THAT(why_refused(store), ::testing::HasSubstr("is there and not hasten's"));
    EXPECT_EQ(text_of(store / name), mine + mine) << name;
  }
}

TEST(StoreDirectory, TakesItsOwnFolderWithoutItsSecret) {
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  const auto open = [&] { return StoreDirectory(store).secret(); };
  const Hash128 first = open();
  write_text(store / "blocks.0", "blocks");
  write_text(store / ".DS_Store", "how it was looked at");
  std::filesystem::remove(store / "secret");
  const Hash128 second = open();
  EXPECT_NE(second, first);
  EXPECT_EQ(open(), second);
  std::filesystem::resize_file(store / "secret", 20);
  const Hash128 third = open();
  EXPECT_NE(third, second);
  write_text(store / "secret", std::string(32, 'x'));
  EXPECT_NE(open(), third);
  EXPECT_EQ(text_of(store / "secret.lost"), std::string(32, 'x'))
      << "what may be another's is kept";
  EXPECT_EQ(text_of(store / "blocks.0"), "blocks");
  std::filesystem::remove(store / "secret");
  write_text(store / "blocks.x", "mine");
  EXPECT_THAT(why_refused(store), ::testing::HasSubstr("such as blocks.x"));
}

TEST(StoreDirectory, TrustsNoSecretOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of other users";
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  { const StoreDirectory made(store); }
  ASSERT_EQ(::chown((store / "secret").c_str(), 1000, 1000), 0);
  EXPECT_THAT(why_refused(store), ::testing::HasSubstr("secret is there and not hasten's"));
}

TEST(StoreDirectory, NamesASymbolicLink) {
  const testing::TemporaryFolder temporary;
  { const StoreDirectory made(temporary.path() / "store"); }
  std::filesystem::create_directory_symlink("store", temporary.path() / "link");
  for (const char* name : {"link", "link/"})
    EXPECT_THAT(why_refused(temporary.path() / name), ::testing::HasSubstr("is a symbolic link"));
}

TEST(StoreDirectory, TellsThatItsSecretHasGone) {
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  const StoreDirectory folder(store);
  EXPECT_TRUE(folder.has_secret());
  std::filesystem::rename(store, temporary.path() / "moved");
  EXPECT_TRUE(folder.has_secret()) << "it moved with the folder";
  std::filesystem::rename(temporary.path() / "moved", store);
  std::filesystem::remove(store / "secret");
  EXPECT_FALSE(folder.has_secret());
  std::filesystem::remove_all(store);
  EXPECT_FALSE(folder.has_secret());
  { const StoreDirectory another(store); }
  EXPECT_FALSE(folder.has_secret()) << "another folder of that name";
}

TEST(StoreDirectory, TouchesNothingThroughLinksAndInOthersFolders) {
  const testing::TemporaryFolder temporary;
  const auto store = temporary.path() / "store";
  { const StoreDirectory made(store); }
  const auto victim = store / "victim";
  std::ofstream(victim) << "mine";
  std::filesystem::create_symlink(victim, store / "symbolic");
  std::filesystem::create_hard_link(victim, store / "hard");
  ::mkfifo((store / "pipe").c_str(), 0600);
  std::filesystem::create_directory(store / "folder");
  {
    const StoreDirectory folder(store);
    for (const char* name : {"symbolic", "hard", "pipe", "folder"})
      EXPECT_THROW((void)folder.open_file(name), Error) << name;
  }
  std::filesystem::create_directory_symlink(store, store / "link");
  EXPECT_THROW(StoreDirectory(store / "link"), Error);
  EXPECT_THROW(StoreDirectory{victim}, Error);
  EXPECT_THROW(StoreDirectory(store / "a" / "b"), Error);
  std::filesystem::permissions(store, std::filesystem::perms(0777));
  EXPECT_THROW(StoreDirectory{store}, Error);
}

}  // namespace
}  // namespace hasten::engine
