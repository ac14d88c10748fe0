// SPDX-License-Identifier: Apache-2.0
// Which changes of a model's files make it another model.
#include "api/content_key.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hasten_test/temporary_folder.h"
#include "weights/gguf_writer.h"

namespace hasten::api {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTensorBytes = int64_t{4} << 20;  // of which samples are read

class ContentKey : public ::testing::Test {
 protected:
  ContentKey() {
    for (uint32_t i = 0; i < 2; ++i) write_shard(i);
  }

  fs::path shard(uint32_t index) const {
    return folder_.path() / ("m-0000" + std::to_string(index + 1) + "-of-00002.gguf");
  }
  void write_shard(uint32_t index) const {
    weights::GgufWriter writer(shard(index));
    writer.set_u32("split.no", index);
    writer.set_u32("split.count", 2);
    writer.declare("tensor " + std::to_string(index), DType::f32, {kTensorBytes / 4});
    writer.append(std::vector<std::byte>(kTensorBytes));
    writer.finish();
  }
  /// Changes one byte that no sample has, and then says that nothing was written.
  void change(uint32_t index) const {
    const fs::file_time_type time = fs::last_write_time(shard(index));
    const auto place = static_cast<int64_t>(fs::file_size(shard(index))) - kTensorBytes / 2;
    // The clock of files goes on by a few milliseconds at a time.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::fstream(shard(index), std::ios::in | std::ios::out | std::ios::binary)
        .seekp(place)
        .put('\1');
    fs::last_write_time(shard(index), time);
  }
  std::string key() const { return content_key(*weights::open_checkpoint(shard(0))); }

  const testing::TemporaryFolder folder_;
};

TEST_F(ContentKey, IsTheSameEachTimeTheSameFilesAreOpened) {
  const std::string before = key();
  EXPECT_EQ(before.size(), 32U);
  std::ofstream(folder_.path() / "beside.gguf") << "another model";
  EXPECT_EQ(key(), before);
}

TEST_F(ContentKey, ChangesWithEachByteOfAnyShardWhateverTheTimeOfWriting) {
  std::string before = key();
  for (const uint32_t index : {0U, 1U}) {
    change(index);
    const std::string after = key();
    EXPECT_NE(after, before) << "shard " << index;
    before = after;
  }
}

TEST_F(ContentKey, ChangesWhenALaterShardIsReplaced) {
  const std::string before = key();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  write_shard(1);
  EXPECT_NE(key(), before);
}

}  // namespace
}  // namespace hasten::api
