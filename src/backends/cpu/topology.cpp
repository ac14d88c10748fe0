// SPDX-License-Identifier: Apache-2.0
// Physical cores and caches from hwloc, quota from the control groups.
#include "backends/cpu/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/cgroup.h"

namespace hasten::cpu {
namespace {

/// Whole processors, at least one if there is a quota at all.
int32_t read_quota() {
  const double quota = processor_quota();
  return quota > 0 ? static_cast<int32_t>(std::clamp(quota, 1.0, 4096.0)) : 0;
}

Topology read_machine() {
  Topology machine;
  // Without /sys, as in some containers, hwloc complains on standard error; no cores are no error.
  ::setenv("HWLOC_HIDE_ERRORS", "2", /*overwrite=*/0);
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return machine;
  hwloc_topology_set_flags(
      topology, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (hwloc_topology_load(topology) == 0) {
    hwloc_obj_t core = nullptr;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
      const int first = hwloc_bitmap_first(core->cpuset);
      if (first >= 0) machine.cores.push_back(first);
    }
    hwloc_obj_t cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L2CACHE, nullptr);
    if (cache != nullptr) machine.l2_bytes = static_cast<int64_t>(cache->attr->cache.size);
  }
  hwloc_topology_destroy(topology);
  return machine;
}

}  // namespace

int32_t Topology::num_usable_cores() const {
  auto count = static_cast<int32_t>(cores.size());
  if (count == 0) count = static_cast<int32_t>(std::thread::hardware_concurrency());
  if (quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

Topology read_topology() {
  Topology machine = read_machine();
  machine.quota = read_quota();
  return machine;
}

}  // namespace hasten::cpu
