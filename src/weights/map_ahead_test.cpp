// SPDX-License-Identifier: Apache-2.0
// MapAhead: the pages of tensors become mapped, all of them, before anybody reads them.
#include "weights/map_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "hasten_test/temporary_folder.h"

namespace hasten::weights {
namespace {

constexpr int64_t kFileBytes = int64_t{32} << 20;

/// Bytes of a file that this process has mapped; -1 where the system does not tell.
int64_t mapped_bytes(const MappedFile& file) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(file.bytes().data()) << '-';
  std::ifstream maps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.starts_with(begin.str());
    if (found && line.starts_with("Rss:")) return std::stoll(line.substr(4)) * 1024;
  }
  return -1;
}

std::vector<NamedTensor> halves_of(const MappedFile& file) {
  std::vector<NamedTensor> halves;
  for (const int64_t first : {int64_t{0}, kFileBytes / 2}) {
    const auto* data = static_cast<const void*>(file.bytes().data() + first);
    halves.push_back(
        {.name = "half", .tensor = Tensor(data, DType::f32, {kFileBytes / 2 / 4096, 1024})});
  }
  return halves;
}

TEST(MapAhead, MapsWhatIsReadLater) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "zeros";
  std::ofstream(path).put('\0');
  std::filesystem::resize_file(path, kFileBytes);
  const MappedFile first(path);
  for (const std::byte byte : first.bytes()) ASSERT_EQ(byte, std::byte{0});  // into the cache
  const MappedFile file(path);
  const std::vector<NamedTensor> halves = halves_of(file);
  if (mapped_bytes(first) != kFileBytes || mapped_bytes(file) != 0)
    GTEST_SKIP() << "this system does not tell what is mapped";
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "there is one processor";
  const MapAhead ahead(halves);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (mapped_bytes(file) < kFileBytes && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(mapped_bytes(file), kFileBytes);
}

}  // namespace
}  // namespace hasten::weights
