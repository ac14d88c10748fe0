// SPDX-License-Identifier: Apache-2.0
// Tests of the GGUF reader and writer: round trips, real files, damaged and lying files.
#include "weights/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/names_of_one_hash_test.h"
#include "hasten_test/paths.h"
#include "hasten_test/temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/checkpoint_bytes_test.h"
#include "weights/gguf_format.h"
#include "weights/gguf_writer.h"

namespace hasten::weights {
namespace {

using ::testing::HasSubstr;

// --- Files built by hand, so that every field can lie -------------------------------------------

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::string text(std::string_view value) {
  return raw(uint64_t{value.size()}) + std::string(value);
}

struct TensorInfo {
  std::string name = "w";
  std::vector<uint64_t> extents = {8, 2};  // innermost first
  uint32_t type = 0;                       // f32
  uint64_t offset = 0;
  [[nodiscard]] std::string bytes() const {
    std::string out = text(name) + raw(static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) out += raw(extent);
    return out + raw(type) + raw(offset);
  }
};

struct Image {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> entries;
  std::vector<TensorInfo> tensors = {TensorInfo{}};
  int64_t extra_tensors = 0;  // what the counts claim beyond what is there
  int64_t extra_entries = 0;
  size_t data_bytes = 64;
  [[nodiscard]] std::string bytes() const {
    std::string out = magic + raw(version) +
                      raw(static_cast<int64_t>(tensors.size()) + extra_tensors) +
                      raw(static_cast<int64_t>(entries.size()) + extra_entries);
    for (const std::string& entry : entries) out += entry;
    for (const TensorInfo& tensor : tensors) out += tensor.bytes();
    out.resize((out.size() + 31) / 32 * 32);
    return out + std::string(data_bytes, '\1');
  }
};

std::string u32_entry(std::string_view key, uint32_t value) {
  return text(key) + raw(uint32_t{4}) + raw(value);
}

std::string gguf_error(const std::string& bytes) {
  const auto image = aligned_copy(bytes);
  try {
    (void)open_gguf(image, "m.gguf");
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Gguf, ReadsAHandmadeFile) {
  Image image;
  image.entries = {u32_entry("a.b", 7), text("s") + raw(uint32_t{8}) + text("hello")};
  const auto bytes = aligned_copy(image.bytes());
  const auto checkpoint = open_gguf(bytes, "m.gguf");
  EXPECT_EQ(checkpoint->format(), Checkpoint::Format::gguf);
  EXPECT_EQ(checkpoint->metadata().get_u64("a.b"), 7U);
  EXPECT_EQ(checkpoint->metadata().get_string("s"), "hello");
  ASSERT_NE(checkpoint->find("w"), nullptr);
  EXPECT_EQ(checkpoint->find("w")->shape(), (Shape{2, 8}));  // turned round
  EXPECT_EQ(checkpoint->total_bytes(), 64);
  EXPECT_EQ(checkpoint->find("v"), nullptr);
  EXPECT_EQ(touch(*checkpoint), 64U);
  image.version = 2;
  EXPECT_EQ(gguf_error(image.bytes()), "no error");
}

TEST(Gguf, NamesOfOneHashCostNoMore) {
  const auto names = names_of_one_hash(2, true);
  if (std::hash<std::string_view>()(names[0]) != std::hash<std::string_view>()(names[1])) {
    GTEST_SKIP() << "this library has another hash";
  }
  using Clock = std::chrono::steady_clock;
  const auto time = [](bool of_keys, bool one_hash) {
    Image image;
    const auto many = names_of_one_hash(20'000, one_hash);
    if (of_keys) {
      for (const std::string& name : many) image.entries.push_back(u32_entry(name, 1));
    } else {
      for (const std::string& name : many) {
        image.tensors.push_back({.name = name, .offset = 64 * image.tensors.size()});
      }
      image.data_bytes = 64 * image.tensors.size();
    }
    const auto bytes = aligned_copy(image.bytes());
    const auto start = Clock::now();
    (void)open_gguf(bytes, "m.gguf");
    return Clock::now() - start;
  };
  for (const bool of_keys : {true, false}) {
    (void)time(of_keys, false);
    const auto usual = std::min(time(of_keys, false), time(of_keys, false));
    EXPECT_LT(std::min(time(of_keys, true), time(of_keys, true)), 8 * usual) << of_keys;
  }
}

TEST(Gguf, SaysThatItIsNotFetched) {
  EXPECT_THAT(gguf_error("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
              HasSubstr("is not there yet, only what Git LFS put in its place: git lfs pull"));
}

TEST(Gguf, SaysWhatIsWrong) {
  struct Case {
    std::function<void(Image&)> lie;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Image& i) { i.magic = "GG\nF"; }, "not a GGUF file: it starts with \"GG\\x0aF\""},
      {[](Image& i) { i.version = 1; }, "GGUF version 1; versions 2 and 3"},
      {[](Image& i) { i.version = 0x03000000; }, "big-endian"},
      {[](Image& i) { i.extra_tensors = int64_t{1} << 40; }, "number of tensors"},
      {[](Image& i) { i.extra_entries = -1; }, "number of metadata keys"},
      {[](Image& i) { i.entries = {raw(~uint64_t{0})}; }, "\"metadata key\" at byte"},
      {[](Image& i) { i.entries = {u32_entry("", 1)}; }, "has 0 bytes; wanted 1 to"},
      {[](Image& i) {
         i.entries = {u32_entry("k", 1), u32_entry("k", 2)};
       },
       "metadata key \"k\" appears twice"},
      {[](Image& i) { i.entries = {text("k") + raw(uint32_t{13}) + raw(uint64_t{0})}; },
       "\"k\" has unknown type 13"},
      {[](Image& i) { i.entries = {text("k") + raw(uint32_t{7}) + "\2"}; }, "boolean of value 2"},
      {[](Image& i) {
         i.entries = {text("k") + raw(uint32_t{9}) + raw(uint32_t{9}) + raw(uint64_t{1}) +
                      raw(uint32_t{9}) + raw(uint64_t{0})};
       },
       "\"k\" is an array of arrays"},
      {[](Image& i) {
         i.entries = {text("k") + raw(uint32_t{9}) + raw(uint32_t{8}) + raw(~uint64_t{0})};
       },
       "\"length of array k\" is 18446744073709551615"},
      {[](Image& i) {
         i.entries = {text("k") + raw(uint32_t{9}) + raw(uint32_t{12}) + raw(uint64_t{1} << 61)};
       },
       "\"length of array k\" is 2305843009213693952"},
      {[](Image& i) { i.entries = {u32_entry("general.alignment", 0)}; },
       "general.alignment is 0; wanted a power of two from 8"},
      {[](Image& i) { i.entries = {u32_entry("general.alignment", 48)}; }, "is 48; wanted a power"},
      {[](Image& i) { i.entries = {u32_entry("general.alignment", 1U << 30)}; }, "is 1073741824"},
      {[](Image& i) { i.entries = {text("general.alignment") + raw(uint32_t{8}) + text("x")}; },
       "general.alignment is string; wanted an unsigned integer"},
      {[](Image& i) { i.tensors[0].extents = {}; }, "tensor \"w\" has 0 dimensions"},
      {[](Image& i) {
         i.tensors[0].extents = {1, 1, 1, 1, 1};
       },
       "has 5 dimensions; wanted 1 to 4"},
      {[](Image& i) {
         i.tensors[0].extents = {8, 0};
       },
       "has extent 0 in dimension 1"},
      {[](Image& i) { i.tensors[0].extents = {~uint64_t{0}}; }, "has extent 18446744073709551615"},
      {[](Image& i) {
         i.tensors[0].extents = {1U << 31, 1U << 31, 1U << 31};
       },
       "tensor \"w\" of shape [2147483648, 2147483648, 2147483648] in f32 is larger than any file"},
      {[](Image& i) {
         i.tensors[0].extents = {8, 1000};
       },
       "bytes, and its tensors reach to byte"},
      {[](Image& i) {
         i.tensors[0].extents = {8, 3};
       },
       "is cut short"},
      {[](Image& i) { i.tensors[0].type = 2; }, "rows of 8 elements; q4_0 needs a multiple of 32"},
      {[](Image& i) { i.tensors[0].type = 21; },
       "tensor \"w\" has type 21 (iq3_s); known are f32 (0), f16"},
      {[](Image& i) { i.tensors[0].offset = 8; }, "has offset 8; wanted a multiple of 32"},
      {[](Image& i) { i.tensors[0].offset = 1 << 20; }, "(\"w\" ends there); download it again"},
      {[](Image& i) { i.tensors[0].offset = uint64_t{1} << 62; }, "has offset 4611686018427387904"},
      {[](Image& i) { i.tensors.push_back(i.tensors[0]); }, "tensor \"w\" appears twice"},
      {[](Image& i) {
         i.tensors.push_back(i.tensors[0]);
         i.tensors[1].name = "v";
         i.tensors[1].offset = 32;
         i.data_bytes = 128;
       },
       "tensors \"w\" and \"v\" overlap"},
      {[](Image& i) { i.entries = {u32_entry("split.count", 2)}; }, "one shard of several"},
  };
  for (const Case& c : cases) {
    Image image;
    c.lie(image);
    EXPECT_THAT(gguf_error(image.bytes()), HasSubstr(c.message));
  }
}

// --- Round trips ---------------------------------------------------------------------------------

constexpr int kNumTypes = static_cast<int>(DType::iq4_xs) + 1;

// A tensor of `num_rows` rows of 256 in each type, row r of type i filled with 10 i + r.
void write_every_type(const std::filesystem::path& path, int num_rows) {
  GgufWriter writer(path);
  writer.set_string("general.architecture", "test");
  writer.set_u32("u", 7);
  writer.set_f32("f", 0.25F);
  writer.set_bool("b", true);
  writer.set_strings("tokens", std::vector<std::string>{"a", "", "\xff"});
  writer.set_i32s("types", std::vector<int32_t>{1, -2});
  writer.set_f32s("scores", std::vector<float>{0.5F, -1e30F});
  for (int i = 0; i < kNumTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    writer.declare(info(dtype).name, dtype, {num_rows, 256});
  }
  for (int i = 0; i < kNumTypes; ++i) {
    const auto row = static_cast<size_t>(row_bytes(static_cast<DType>(i), 256));
    for (int r = 0; r < num_rows; ++r)
      writer.append(std::vector<std::byte>(row, static_cast<std::byte>(10 * i + r)));
  }
  writer.finish();
}

TEST(GgufWriter, RoundTripsEveryType) {
  const testing::TemporaryFolder folder;
  write_every_type(folder.path() / "all.gguf", 3);
  const auto checkpoint = open_checkpoint(folder.path() / "all.gguf");
  const Metadata& metadata = checkpoint->metadata();
  EXPECT_EQ(metadata.entries().size(), 7U);
  EXPECT_EQ(metadata.get_string("general.architecture"), "test");
  EXPECT_EQ(metadata.get_u64("u"), 7U);
  EXPECT_EQ(metadata.get_f64("f"), 0.25);
  EXPECT_TRUE(metadata.get_bool("b"));
  EXPECT_THAT(metadata.get_strings("tokens"), ::testing::ElementsAre("a", "", "\xff"));
  EXPECT_THAT(metadata.get_i64s("types", 2), ::testing::ElementsAre(1, -2));
  EXPECT_THAT(metadata.get_f32s("scores", 2), ::testing::ElementsAre(0.5F, -1e30F));
  ASSERT_EQ(checkpoint->tensors().size(), static_cast<size_t>(kNumTypes));
  for (int i = 0; i < kNumTypes; ++i) {
    const NamedTensor& named = checkpoint->tensors()[static_cast<size_t>(i)];
    EXPECT_EQ(named.name, info(static_cast<DType>(i)).name);
    EXPECT_EQ(named.tensor.dtype(), static_cast<DType>(i));
    EXPECT_EQ(named.tensor.shape(), (Shape{3, 256}));
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(named.tensor.row(r)[0], static_cast<std::byte>(10 * i + r));
      EXPECT_EQ(named.tensor.row(r)[named.tensor.row_bytes() - 1],
                static_cast<std::byte>(10 * i + r));
    }
  }
}

TEST(GgufWriter, LeavesNothingUnlessFinished) {
  const testing::TemporaryFolder folder;
  {
    GgufWriter writer(folder.path() / "half.gguf");
    writer.declare("w", DType::f32, {2, 2});
    writer.append(std::vector<std::byte>(8));
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(GgufWriter(folder.path() / "absent" / "m.gguf"), Error);
}

std::string message(const auto& get) {
  try {
    (void)get();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Metadata, ConvertsWhatIsInRangeAndNamesTheRest) {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("small", {ValueType::i8, int64_t{-3}}));
  EXPECT_TRUE(metadata.add("big", {ValueType::u64, ~uint64_t{0}}));
  EXPECT_TRUE(metadata.add("name", {ValueType::string, std::string_view("x")}));
  EXPECT_FALSE(metadata.add("name", {ValueType::u8, uint64_t{1}}));
  EXPECT_EQ(metadata.get_i64("small"), -3);
  EXPECT_EQ(metadata.get_f64("small"), -3.0);
  EXPECT_EQ(metadata.get_i64("absent", 9), 9);
  EXPECT_EQ(metadata.get_string("absent", "y"), "y");
  EXPECT_THAT(message([&] { return metadata.get_u64("small"); }), HasSubstr("small is -3; wanted"));
  EXPECT_THAT(message([&] { return metadata.get_i64("big"); }), HasSubstr("wanted at most"));
  EXPECT_THAT(message([&] { return metadata.get_u64("absent"); }), HasSubstr("absent is missing"));
  EXPECT_THAT(message([&] { return metadata.get_u64("name", 1); }),
              HasSubstr("name is string; wanted an unsigned integer"));
  EXPECT_THAT(message([&] { return metadata.get_strings("name"); }),
              HasSubstr("name is string; wanted array of string"));
}

TEST(Metadata, BoundsArraysBeforeItConvertsThem) {
  const std::array<double, 3> numbers = {0.5, -3.0, 1e39};
  const auto bytes = std::as_bytes(std::span(numbers));
  Metadata metadata;
  metadata.add("few", {ValueType::array, NumberArray{ValueType::f64, bytes.first(16)}});
  metadata.add("large", {ValueType::array, NumberArray{ValueType::f64, bytes}});
  metadata.add("types", {ValueType::array, NumberArray{ValueType::u8, bytes}});
  EXPECT_THAT(metadata.get_f32s("few", 2), ::testing::ElementsAre(0.5F, -3.0F));
  EXPECT_EQ(metadata.get_i64s("types", 24).size(), 24U);
  EXPECT_THAT(message([&] { return metadata.get_f32s("few", 1); }),
              HasSubstr("few has 2 elements; wanted at most 1"));
  EXPECT_THAT(message([&] { return metadata.get_i64s("types", 23); }),
              HasSubstr("types has 24 elements; wanted at most 23"));
  EXPECT_THAT(message([&] { return metadata.get_f32s("large", 3); }),
              HasSubstr("large[2] is 1e+39, which does not fit f32"));
}

// --- Split files ---------------------------------------------------------------------------------

void write_shard(const std::filesystem::path& path, uint32_t number, uint32_t count,
                 const std::string& tensor, uint32_t num_tensors) {
  GgufWriter writer(path);
  writer.set_u32("split.no", number);
  writer.set_u32("split.count", count);
  writer.set_u32("split.tensors.count", num_tensors);
  writer.declare(tensor, DType::f32, {4});
  writer.append(std::vector<std::byte>(16, static_cast<std::byte>(number)));
  writer.finish();
}

std::string open_error(const std::filesystem::path& path) {
  try {
    (void)open_checkpoint(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Gguf, NamesThatTheSystemRefusesAreErrors) {
  const testing::TemporaryFolder folder;
  const std::string name(300, 'n');
  EXPECT_THAT(open_error(folder.path() / name), HasSubstr(name + "': File name too long"));
  EXPECT_THAT(open_error(folder.path() / name / "m.gguf"), HasSubstr("cannot open"));
}

TEST(Gguf, ReadsSplitFiles) {
  const testing::TemporaryFolder folder;
  const auto shard = [&](int number) {
    return folder.path() / ("m-0000" + std::to_string(number) + "-of-00003.gguf");
  };
  write_shard(shard(1), 0, 3, "a", 3);
  write_shard(shard(2), 1, 3, "b", 3);
  EXPECT_THAT(open_error(shard(1)), HasSubstr("shard 3 of 3 is missing"));
  EXPECT_THAT(open_error(shard(1)), HasSubstr("m-00003-of-00003.gguf"));
  write_shard(shard(3), 1, 3, "c", 3);
  EXPECT_THAT(open_error(shard(1)), HasSubstr("says it is shard 1 of 3; wanted 2 of 3"));
  write_shard(shard(3), 2, 3, "b", 3);
  EXPECT_THAT(open_error(shard(1)), HasSubstr("tensor \"b\" lies in an earlier shard too"));
  write_shard(shard(3), 2, 3, "c", 3);
  EXPECT_THAT(open_error(shard(2)), HasSubstr("give the first"));
  const auto checkpoint = open_checkpoint(shard(1));
  ASSERT_EQ(checkpoint->tensors().size(), 3U);
  EXPECT_EQ(checkpoint->total_bytes(), 48);
  EXPECT_EQ(checkpoint->find("c")->row(0)[0], std::byte{2});
  write_shard(shard(1), 0, 3, "a", 4);
  EXPECT_THAT(open_error(shard(1)), HasSubstr("hold 3 tensors; split.tensors.count is 4"));
}

// --- Damage --------------------------------------------------------------------------------------

TEST(Gguf, EveryTruncationIsOneError) {
  const testing::TemporaryFolder folder;
  write_every_type(folder.path() / "all.gguf", 1);
  std::string bytes = hasten::testing::read_file(folder.path() / "all.gguf");
  // The padding after the last tensor may be missing.
  const size_t padding = 32 - 136 % 32;
  bytes.resize(bytes.size() - padding);
  ASSERT_EQ(gguf_error(bytes), "no error");
  for (size_t length = 0; length < bytes.size(); ++length)
    ASSERT_NE(gguf_error(bytes.substr(0, length)), "no error") << length;
}

TEST(Gguf, BitFlipsAreErrorsOrReadable) {
  const testing::TemporaryFolder folder;
  write_every_type(folder.path() / "all.gguf", 1);
  const std::string bytes = hasten::testing::read_file(folder.path() / "all.gguf");
  std::mt19937 random(3);
  int loaded = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    auto image = aligned_copy(bytes);
    // Most flips go where the header is.
    const size_t range = trial % 8 == 0 ? image.size() : 1400;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      image[random() % range] ^= static_cast<std::byte>(1 << random() % 8);
    try {
      const auto checkpoint = open_gguf(image, "m.gguf");
      if (trial % 8 == 0) touch(*checkpoint);
      ++loaded;
    } catch (const Error& error) {
      ASSERT_NE(error.code(), ErrorCode::internal) << error.what();
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_LT(loaded, 19900);
}

}  // namespace
}  // namespace hasten::weights
