// SPDX-License-Identifier: Apache-2.0
// MapAhead: pages of tensors are mapped before anybody reads them, until it is told to end.
#include "weights/map_ahead.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <stop_token>
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
  const auto half = std::ssize(file.bytes()) / 2;
  std::vector<NamedTensor> halves;
  for (const int64_t first : {int64_t{0}, int64_t{half}}) {
    const auto* data = static_cast<const void*>(file.bytes().data() + first);
    halves.push_back({.name = "half", .tensor = Tensor(data, DType::f32, {half / 4096, 1024})});
  }
  return halves;
}

/// A file of zeros that take no room on the disk.
class Zeros {
 public:
  explicit Zeros(int64_t num_bytes) {
    std::ofstream(path()).put('\0');
    std::filesystem::resize_file(path(), static_cast<uintmax_t>(num_bytes));
  }
  std::filesystem::path path() const { return folder_.path() / "zeros"; }

 private:
  testing::TemporaryFolder folder_;
};

/// Reads a byte of each `step`; a mapping of its own.
int64_t mapped_by_reading(const std::filesystem::path& path, size_t step) {
  const MappedFile file(path);
  for (size_t at = 0; at < file.bytes().size(); at += step)
    (void)static_cast<const volatile std::byte*>(file.bytes().data())[at];
  return mapped_bytes(file);
}

bool has_one_processor() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < 2;
}

TEST(MapAhead, MapsWhatIsReadLater) {
  const Zeros zeros(kFileBytes);
  const MappedFile file(zeros.path());
  if (mapped_by_reading(zeros.path(), 4096) != kFileBytes || mapped_bytes(file) != 0)
    GTEST_SKIP() << "this system does not tell what is mapped";
  if (mapped_by_reading(zeros.path(), 65536) != kFileBytes)
    GTEST_SKIP() << "this system does not map 64 KiB at a time";
  if (has_one_processor())
    GTEST_SKIP() << "this process may use one processor only, where MapAhead does nothing";
  const std::vector<NamedTensor> halves = halves_of(file);
  const MapAhead ahead(halves);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (mapped_bytes(file) < kFileBytes && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(mapped_bytes(file), kFileBytes);
}

TEST(MapAhead, GoesOnWithWhatElseCanBeDone) {
  if (has_one_processor())
    GTEST_SKIP() << "this process may use one processor only, where MapAhead does nothing";
  const Zeros zeros(kFileBytes);
  // The first reading brings the file into the system's cache.
  const bool all_is_seen = mapped_by_reading(zeros.path(), 4096) == kFileBytes &&
                           mapped_by_reading(zeros.path(), 65536) == kFileBytes;
  const MappedFile file(zeros.path());
  const std::vector<NamedTensor> halves = halves_of(file);
  std::promise<int64_t> mapped;
  std::atomic<bool> told_to_end{false};
  std::optional<MapAhead> ahead;
  ahead.emplace(halves, [&](const std::stop_token& stop) {
    mapped.set_value(mapped_bytes(file));
    while (!stop.stop_requested()) std::this_thread::yield();
    told_to_end = true;
  });
  std::future<int64_t> seen = mapped.get_future();
  ASSERT_EQ(seen.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  if (all_is_seen) {
    EXPECT_EQ(seen.get(), kFileBytes);
  }
  ahead.reset();
  EXPECT_TRUE(told_to_end);
}

TEST(MapAhead, WhatFailsAheadFailsNobody) {
  const Zeros zeros(kFileBytes);
  const MappedFile file(zeros.path());
  const std::vector<NamedTensor> halves = halves_of(file);
  if (has_one_processor())
    GTEST_SKIP() << "this process may use one processor only, where MapAhead does nothing";
  std::promise<void> failed;
  const MapAhead ahead(halves, [&](const std::stop_token&) {
    failed.set_value();
    throw std::runtime_error("no memory");
  });
  EXPECT_EQ(failed.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(MapAhead, EndsBeforeItHasReadAll) {
  constexpr int64_t kBytes = int64_t{2} << 30;
  const Zeros zeros(kBytes);
  const MappedFile file(zeros.path());
  const std::vector<NamedTensor> halves = halves_of(file);
  bool went_on = false;
  {
    const MapAhead ahead(halves, [&](const std::stop_token&) { went_on = true; });
  }
  EXPECT_FALSE(went_on);
  EXPECT_LT(mapped_bytes(file), kBytes / 2);
}

}  // namespace
}  // namespace hasten::weights
