// SPDX-License-Identifier: Apache-2.0
// Tests of what control groups leave to a process, on machines made of text.
#include "base/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/memory.h"

namespace hasten {
namespace {

using ::testing::ElementsAre;

/// A machine of 1000 KiB, 800 of them available, with these files beside.
ReadFile machine(std::map<std::string, std::string> files) {
  files["/proc/meminfo"] = "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 800 kB\n";
  return [files = std::move(files)](const std::string& path) {
    const auto file = files.find(path);
    return file == files.end() ? "" : file->second;
  };
}

TEST(ControlGroups, WalkFromTheProcessToTheRoot) {
  const ControlGroups nested = control_groups("cpu", machine({{"/proc/self/cgroup", "0::/a/b\n"}}));
  EXPECT_EQ(nested.version, 2);
  EXPECT_THAT(nested.folders,
              ElementsAre("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"));
  EXPECT_THAT(control_groups("cpu", machine({{"/proc/self/cgroup", "0::/\n"}})).folders,
              ElementsAre("/sys/fs/cgroup"));
  EXPECT_THAT(control_groups("cpu", machine({})).folders, ElementsAre("/sys/fs/cgroup"));
  EXPECT_THAT(control_groups("cpu", machine({{"/proc/self/cgroup", "0::odd\n7\n"}})).folders,
              ElementsAre("/sys/fs/cgroup"));
}

TEST(ControlGroups, Version1GoesBeforeVersion2) {
  const auto read = machine(
      {{"/proc/self/cgroup", "4:memory:/box\n3:cpuset:/\n1:cpuacct,cpu:/\n0::/elsewhere\n"}});
  const ControlGroups memory = control_groups("memory", read);
  EXPECT_EQ(memory.version, 1);
  EXPECT_THAT(memory.folders, ElementsAre("/sys/fs/cgroup/memory/box", "/sys/fs/cgroup/memory"));
  EXPECT_THAT(control_groups("cpu", read).folders, ElementsAre("/sys/fs/cgroup/cpu"));
}

TEST(ProcessorQuota, IsTheSmallestOnTheWay) {
  EXPECT_EQ(processor_quota(machine({})), 0);
  const auto read = machine({{"/proc/self/cgroup", "0::/a/b\n"},
                             {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                             {"/sys/fs/cgroup/a/cpu.max", "150000 100000\n"},
                             {"/sys/fs/cgroup/cpu.max", "400000 100000\n"}});
  EXPECT_DOUBLE_EQ(processor_quota(read), 1.5);
}

TEST(ProcessorQuota, OfVersion1) {
  std::map<std::string, std::string> files = {{"/proc/self/cgroup", "1:cpu:/\n"},
                                              {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                                              {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n"}};
  EXPECT_EQ(processor_quota(machine(files)), 0);
  files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "100000\n";
  EXPECT_DOUBLE_EQ(processor_quota(machine(files)), 2);
}

void expect_kib(const SystemMemory& memory, int64_t total, int64_t available) {
  EXPECT_EQ(memory.total_bytes, total << 10);
  EXPECT_EQ(memory.available_bytes, available << 10);
}

TEST(MeasureMemory, WithoutALimitIsTheMachines) {
  expect_kib(measure_memory(machine({})), 1000, 800);
  expect_kib(measure_memory(machine({{"/proc/self/cgroup", "0::/a\n"},
                                     {"/sys/fs/cgroup/a/memory.max", "max\n"},
                                     {"/sys/fs/cgroup/a/memory.current", "614400\n"}})),
             1000, 800);
  expect_kib(measure_memory(
                 machine({{"/proc/self/cgroup", "1:memory:/\n"},
                          {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"},
                          {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "614400\n"}})),
             1000, 800);
}

TEST(MeasureMemory, TakesTheTightestGroup) {
  const auto read = machine({{"/proc/self/cgroup", "0::/a/b\n"},
                             {"/sys/fs/cgroup/a/b/memory.max", "307200\n"},
                             {"/sys/fs/cgroup/a/b/memory.current", "102400\n"},
                             {"/sys/fs/cgroup/a/memory.max", "512000\n"},
                             {"/sys/fs/cgroup/a/memory.current", "409600\n"}});
  expect_kib(measure_memory(read), 300, 100);  // limit of a/b, what is left of a
}

TEST(MeasureMemory, PagesOfFilesCanBeHadAgain) {
  std::map<std::string, std::string> files = {
      {"/sys/fs/cgroup/memory.max", "512000\n"},
      {"/sys/fs/cgroup/memory.current", "460800\n"},
      {"/sys/fs/cgroup/memory.stat",
       "anon 102400\nfile 358400\ninactive_file 204800\nactive_file 102400\n"}};
  expect_kib(measure_memory(machine(files)), 500, 350);
  files["/sys/fs/cgroup/memory.stat"] = "inactive_file 999999\n";  // counted a moment later
  expect_kib(measure_memory(machine(files)), 500, 500);
  files.erase("/sys/fs/cgroup/memory.stat");
  files["/sys/fs/cgroup/memory.current"] = "999999\n";
  expect_kib(measure_memory(machine(files)), 500, 0);
  expect_kib(measure_memory(machine({{"/proc/self/cgroup", "1:memory:/box\n"},
                                     {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "512000\n"},
                                     {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "460800\n"},
                                     {"/sys/fs/cgroup/memory/memory.stat",
                                      "inactive_file 1\ntotal_inactive_file 307200\n"}})),
             500, 350);
}

}  // namespace
}  // namespace hasten
