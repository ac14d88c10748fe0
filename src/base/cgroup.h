// SPDX-License-Identifier: Apache-2.0
// Control groups (cgroups), versions 1 and 2: what the system limits this process to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hasten {

/// The text of a file of the system, empty where there is none. Tests hand in texts of their own.
using ReadFile = std::function<std::string(const std::string& path)>;
std::string read_system_file(const std::string& path);

/// The groups that hold this process, for one controller. The limits of all of them hold.
struct ControlGroups {
  int32_t version = 2;
  std::vector<std::string> folders;  // the process's own, its parent, ..., the root that it sees
};

/// `controller`: "memory" or "cpu". Never fails; a folder need not exist, as where a container sees
/// no more than its own groups.
[[nodiscard]] ControlGroups control_groups(std::string_view controller,
                                           const ReadFile& read = read_system_file);

/// Processors' worth of time that CPU quotas grant this process (1.5: half of the time of a second
/// one); 0 without a quota.
[[nodiscard]] double processor_quota(const ReadFile& read = read_system_file);

}  // namespace hasten
