// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's accounts of memory.
#include "base/memory.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace hasten {
namespace {

/// The number that a text consists of; nullopt for any other ("max", or no such file).
std::optional<int64_t> read_number(const std::string& text) {
  std::istringstream in(text);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// The number behind `key` at the start of a line, 0 without one.
int64_t find_number(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  // In memory.stat: the page cache of files, of the group and those below it.
  const char* inactive_file;
  const char* active_file;
};

constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "total_inactive_file", "total_active_file"};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file", "active_file"};

}  // namespace

SystemMemory measure_memory(const ReadFile& read) {
  const std::string machine = read("/proc/meminfo");  // in KiB
  SystemMemory memory = {.total_bytes = find_number(machine, "MemTotal:") << 10,
                         .available_bytes = find_number(machine, "MemAvailable:") << 10};
  const ControlGroups groups = control_groups("memory", read);
  const GroupFiles& files = groups.version == 1 ? kVersion1 : kVersion2;
  for (const std::string& folder : groups.folders) {
    const auto limit = read_number(read(folder + files.limit));
    if (!limit) continue;
    // The kernel drops pages of files when the group needs memory; a model just read is all such.
    const std::string stat = read(folder + "/memory.stat");
    const int64_t used = read_number(read(folder + files.usage)).value_or(0) -
                         find_number(stat, files.inactive_file) -
                         find_number(stat, files.active_file);
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes =
        std::clamp<int64_t>(*limit - std::max<int64_t>(used, 0), 0, memory.available_bytes);
  }
  return memory;
}

}  // namespace hasten
