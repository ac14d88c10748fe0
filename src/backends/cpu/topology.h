// SPDX-License-Identifier: Apache-2.0
// Which physical cores this process may use, and their caches; hwloc is behind it.
#pragma once

#include <cstdint>
#include <vector>

namespace hasten::cpu {

struct Topology {
  std::vector<int32_t> cores;  // one logical processor (as the OS numbers them) per physical core
                               // within this process's affinity and cpuset
  int64_t l2_bytes = 0;        // of the first core; 0: unknown
  int32_t quota = 0;           // whole processors that the cgroup's CPU quota grants; 0: no quota

  /// Threads that can run at the same time on physical cores; at least 1.
  int32_t num_usable_cores() const;
};

[[nodiscard]] Topology read_topology();

}  // namespace hasten::cpu
