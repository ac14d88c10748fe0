// SPDX-License-Identifier: Apache-2.0
// Tests of the base layer: errors, JSON limits, mapped files, fresh memory, checked arithmetic.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/fetched_file.h"
#include "base/fresh_memory.h"
#include "base/hash.h"
#include "base/huge_pages.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/quantity.h"
#include "base/resident_pages_test.h"
#include "base/siphash.h"
#include "hasten_test/paths.h"

namespace hasten {
namespace {

ErrorCode code_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

TEST(Check, ThrowsInternal) {
  EXPECT_NO_THROW(HASTEN_CHECK(1 + 1 == 2));
  EXPECT_EQ(code_of([] { HASTEN_CHECK(1 + 1 == 3); }), ErrorCode::internal);
}

TEST(Fail, NamesTheParameter) {
  try {
    fail_param("temperature", "temperature {} is outside [0, 2]", 3);
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "temperature");
    EXPECT_STREQ(error.what(), "temperature 3 is outside [0, 2]");
    return;
  }
  FAIL();
}

TEST(Checked, RefusesOverflow) {
  EXPECT_EQ(checked_mul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_FALSE(checked_mul(int64_t{1} << 32, int64_t{1} << 31));
  EXPECT_FALSE(checked_add(INT64_MAX, 1));
  EXPECT_FALSE(checked_size(UINT64_MAX));
  EXPECT_EQ(round_up(17, 16), 32);
  EXPECT_EQ(ceil_div(16, 16), 1);
}

TEST(Json, KeepsItsLimits) {
  EXPECT_EQ(json::parse("[1,2]", "x").as_array().size(), 2U);
  EXPECT_EQ(code_of([] { json::parse("[1,]", "x"); }), ErrorCode::invalid_data);
  EXPECT_EQ(code_of([] { json::parse(std::string(200, '['), "x"); }), ErrorCode::invalid_data);
  EXPECT_EQ(code_of([] { json::parse("\"\xff\"", "x"); }), ErrorCode::invalid_data);
  EXPECT_EQ(code_of([] { json::parse("[1]", "x", {.max_bytes = 2}); }), ErrorCode::invalid_data);
  for (const char* half :
       {R"(["\ud800"])", R"(["\uDBFFx"])", R"(["\ud800\ud800"])", R"(["\udc00"])",
        R"(["\ud800\u0041"])", R"(["\ud800\n"])", "[\"\\\\\\ud800\n\"]"}) {
    try {
      (void)json::parse(half, "x");
      ADD_FAILURE() << half;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("half of a surrogate pair"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(json::parse(R"(["\ud83d\ude00"])", "x").at(0), "\xF0\x9F\x98\x80");
  // Behind two backslashes stands no escape.
  for (const char* other : {"[\"\\\\ud83d\n\"]", "[\"\\\\\\\\ud83d\n\"]"}) {
    try {
      (void)json::parse(other, "x");
      ADD_FAILURE() << other;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("surrogate"), std::string::npos) << error.what();
    }
  }
}

TEST(Json, KnowsWhatIsNoJsonAtAll) {
  const auto said = [](std::string_view text) -> std::string {
    try {
      (void)json::parse(text, "x.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      return error.what();
    }
    return {};
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(json::parse("\xEF\xBB\xBF[1]", "x").at(0), 1);
  EXPECT_EQ(said("\xEF\xBB\xBF[1,]"), "x.json is not valid JSON at byte 6: \"]\" is unexpected");
  for (const auto& [text, why] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"[1,]", "3: \"]\" is unexpected"},
           {"{'a': 1}", "1: \"'\" is unexpected"},
           {"[NaN]", "1: \"N\" is unexpected"},
           {"{“a”: 1}", "1: “ is unexpected; strings stand in \""},
           {"[\"a\tb\"]",
            "3: the control character 0x09 is unexpected; in a string it is written \\u0009"},
           {"[\"\xFF\xFE\"]", "2: the byte 0xff is unexpected, or no UTF-8"},
           {"[\"\xE2\x82\"]", "2: the byte 0xe2 is unexpected, or no UTF-8"},
           {"[\"caf\xE9\"]", "5: the byte 0xe9 is unexpected, or no UTF-8"},
           {"[1", "2: incomplete JSON"},
           {" \n", "2: there is nothing"}}) {
    EXPECT_EQ(said(text), fmt::format("x.json is not valid JSON at byte {}", why));
  }
  for (const std::string_view utf16 :
       {"\xFF\xFE{\0}\0"sv, "\xFE\xFF\0{\0}"sv, "{\0}\0"sv, "\0{\0}"sv})
    EXPECT_EQ(said(utf16), "x.json is UTF-16; save it as UTF-8");
  EXPECT_EQ(said("{\0}"sv),
            "x.json is not valid JSON at byte 1: the control character 0x00 is unexpected; in a "
            "string it is written \\u0000");
  EXPECT_EQ(said("\0{}}"sv),
            "x.json is not valid JSON at byte 0: the control character 0x00 is unexpected; in a "
            "string it is written \\u0000");
}

// In the place of a file, while a client's text may be HTML.
TEST(FetchedFile, TellsWhatStandsInItsPlace) {
  const auto said = [](std::string_view text) -> std::string {
    try {
      check_is_fetched(text, "x.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      return error.what();
    }
    return {};
  };
  for (const char* page :
       {"<!DOCTYPE html>\n<html>", "\n <HTML lang=\"en\">", "\xEF\xBB\xBF<!doctype HTML>"})
    EXPECT_EQ(said(page),
              "x.json is an HTML page and not the file (a failed download?): fetch it again");
  EXPECT_EQ(said("<htm"), "");
  EXPECT_EQ(said("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
            "x.json is not there yet, only what Git LFS put in its place: git lfs pull fetches it");
}

TEST(MappedFile, MapsAndRefuses) {
  const auto folder = std::filesystem::path(::testing::TempDir());
  const auto path = testing::temp_path("hasten_mapped_file_test");
  std::ofstream(path) << "content";
  EXPECT_EQ(MappedFile(path).bytes().size(), 7U);
  EXPECT_EQ(code_of([&] { MappedFile{folder}; }), ErrorCode::invalid_data);
  EXPECT_EQ(code_of([&] { MappedFile{folder / "no such file"}; }), ErrorCode::not_found);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(code_of([&] { MappedFile{path}; }), ErrorCode::invalid_data);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { MappedFile{path}; }), ErrorCode::invalid_data);
  std::filesystem::remove(path);
}

TEST(Hash, DependsOnSeedAndBytes) {
  EXPECT_NE(hash_bytes("a"), hash_bytes("b"));
  EXPECT_NE(hash_bytes("a", 1), hash_bytes("a", 2));
  EXPECT_EQ(hash_bytes("abc"), hash_bytes("abc"));
}

TEST(Quantity, SizesHaveTheUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(size_text(int64_t{9} << 40), "9.0 TiB");
  EXPECT_EQ(size_text(INT64_MAX), "8388608.0 TiB");
}

TEST(Quantity, OneIsNoPlural) {
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(2, "token"), "2 tokens");
}

TEST(SipHash, GivesTheBytesOfOpenSsl) {
  // head -c N <(printf '\000\001…') | openssl mac -macopt hexkey:000102…0f -macopt size:16 siphash
  const Hash128 key = {.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908};
  std::string bytes;
  for (int i = 0; i < 64; ++i) bytes.push_back(static_cast<char>(i));
  const auto hash = [&](size_t size) {
    return siphash(std::string_view(bytes).substr(0, size), key);
  };
  EXPECT_EQ(hash(0), (Hash128{.low = 0xe6a825ba047f81a3, .high = 0x930255c71472f66d}));
  EXPECT_EQ(hash(1), (Hash128{.low = 0x44af996bd8c187da, .high = 0x45fc229b11597634}));
  EXPECT_EQ(hash(15), (Hash128{.low = 0x11a8b03399e99354, .high = 0xd9c3cf970fec087e}));
  EXPECT_EQ(hash(64), (Hash128{.low = 0x3fcdd4c07d07af1e, .high = 0x4ba75836384dad8c}));
}

TEST(SipHash, EveryProcessHasItsOwnKey) { EXPECT_NE(random_key(), random_key()); }

constexpr int64_t kFreshBytes = 16 * kHugePage;

TEST(FreshMemory, IsZeroedWhereverItIsMovedTo) {
  FreshMemory memory(kFreshBytes - 5);
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kHugePage, 0);
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + kFreshBytes - 5,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  memory.data()[kFreshBytes - 6] = std::byte{7};
  FreshMemory other(kHugePage);
  other = std::move(memory);
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_EQ(other.data()[kFreshBytes - 6], std::byte{7});
  FreshMemory third(std::move(other));
  EXPECT_EQ(other.data(), nullptr);
  EXPECT_EQ(third.data()[kFreshBytes - 6], std::byte{7});
}

TEST(FreshMemory, CostsNothingUntilItIsUsedOrBroughtIn) {
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  const FreshMemory memory(kFreshBytes);
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(resident_bytes(memory.data(), kFreshBytes), 0);
  memory.data()[kFreshBytes - 1] = std::byte{7};
  const int64_t used = resident_bytes(memory.data(), kFreshBytes);
  EXPECT_GT(used, 0);
  EXPECT_LE(used, kHugePage);
  constexpr int64_t kBroughtIn = kFreshBytes - kHugePage;
  bring_in_pages({memory.data(), static_cast<size_t>(kBroughtIn)});
  EXPECT_EQ(resident_bytes(memory.data(), kBroughtIn), kBroughtIn);
  EXPECT_EQ(memory.data()[kFreshBytes - 1], std::byte{7});
}

TEST(FreshMemory, IsNoneWhereTheSystemRefuses) {
  EXPECT_EQ(FreshMemory(0).data(), nullptr);
  EXPECT_EQ(FreshMemory(int64_t{1} << 60).data(), nullptr);
  EXPECT_EQ(FreshMemory(std::numeric_limits<int64_t>::max()).data(), nullptr);
}

}  // namespace
}  // namespace hasten
