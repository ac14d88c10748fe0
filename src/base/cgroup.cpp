// SPDX-License-Identifier: Apache-2.0
// Finds the folders of control groups under /sys/fs/cgroup and reads their CPU quotas.
#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace hasten {

std::string read_system_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Lines of /proc/self/cgroup are "number:controllers:path". Version 2 has the one line "0::path";
// a controller that a line of version 1 names does not work in version 2 (cgroups(7)).
ControlGroups control_groups(std::string_view controller, const ReadFile& read) {
  ControlGroups groups;
  std::string root = "/sys/fs/cgroup";
  std::string path;
  std::istringstream lines(read("/proc/self/cgroup"));
  for (std::string number, controllers, rest; std::getline(lines, number, ':') &&
                                              std::getline(lines, controllers, ':') &&
                                              std::getline(lines, rest);) {
    if (controllers.empty()) path = rest;
    if (("," + controllers + ",").find("," + std::string(controller) + ",") == std::string::npos) {
      continue;
    }
    groups.version = 1;
    root += "/" + std::string(controller);
    path = rest;
    break;
  }
  for (; path.size() > 1 && path.front() == '/'; path.resize(path.rfind('/'))) {
    groups.folders.push_back(root + path);
  }
  groups.folders.push_back(root);
  return groups;
}

double processor_quota(const ReadFile& read) {
  const ControlGroups groups = control_groups("cpu", read);
  double least = 0;
  for (const std::string& folder : groups.folders) {
    // Microseconds: "150000 100000", or "max 100000" (version 2) or "-1 100000" without a quota.
    std::istringstream text(groups.version == 2 ? read(folder + "/cpu.max")
                                                : read(folder + "/cpu.cfs_quota_us") + ' ' +
                                                      read(folder + "/cpu.cfs_period_us"));
    double quota = 0;
    double period = 0;
    if (!(text >> quota >> period) || quota <= 0 || period <= 0) continue;
    least = least > 0 ? std::min(least, quota / period) : quota / period;
  }
  return least;
}

}  // namespace hasten
