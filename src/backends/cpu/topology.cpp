// SPDX-License-Identifier: Apache-2.0
// Physical cores from hwloc, quota from the cgroup file system.
#include "backends/cpu/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace hasten::cpu {
namespace {

/// "max 100000" or "150000 100000" (version 2 of control groups): quota and period in microseconds.
int32_t read_cgroup_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int32_t>(std::clamp(quota / period, 1.0, 4096.0));
}

std::vector<int32_t> read_cores() {
  std::vector<int32_t> cores;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return cores;
  hwloc_topology_set_flags(
      topology, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (hwloc_topology_load(topology) == 0) {
    hwloc_obj_t core = nullptr;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
      const int first = hwloc_bitmap_first(core->cpuset);
      if (first >= 0) cores.push_back(first);
    }
  }
  hwloc_topology_destroy(topology);
  return cores;
}

}  // namespace

int32_t Topology::num_usable_cores() const {
  auto count = static_cast<int32_t>(cores.size());
  if (count == 0) count = static_cast<int32_t>(std::thread::hardware_concurrency());
  if (quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

Topology read_topology() { return {.cores = read_cores(), .quota = read_cgroup_quota()}; }

}  // namespace hasten::cpu
