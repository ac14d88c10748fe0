// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's accounts of memory.
#include "api/memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace hasten::api {
namespace {

/// A file that holds one number; nullopt when it does not ("max", or no such file).
std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// The folder of this process's control group, from the line "0::/path".
std::string control_group_folder() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
  }
  return "/sys/fs/cgroup";
}

}  // namespace

Memory measure_memory() {
  Memory memory;
  std::ifstream in("/proc/meminfo");
  for (std::string key; in >> key;) {
    int64_t kib = 0;
    if (!(in >> kib)) break;
    if (key == "MemTotal:") memory.total_bytes = kib << 10;
    if (key == "MemAvailable:") memory.available_bytes = kib << 10;
    in.ignore(64, '\n');
  }
  const std::string folder = control_group_folder();
  const auto limit = read_number(folder + "/memory.max");
  if (limit && *limit < memory.total_bytes) {
    memory.total_bytes = *limit;
    const int64_t used = read_number(folder + "/memory.current").value_or(0);
    memory.available_bytes = std::clamp<int64_t>(*limit - used, 0, memory.available_bytes);
  }
  return memory;
}

}  // namespace hasten::api
