// SPDX-License-Identifier: Apache-2.0
// Reads one byte of what the system maps at a time.
#include "weights/map_ahead.h"

#include <sched.h>

#include <cstdint>
#include <exception>
#include <utility>

namespace hasten::weights {
namespace {

// Linux maps so much around an address that is read, of what it has in its cache. To ask for many
// pages by madvise is slower: it keeps threads that allocate memory waiting.
constexpr int64_t kMappedTogether = 64 * 1024;
// Below, it is not worth a thread.
constexpr int64_t kLeastBytes = int64_t{16} << 20;

/// Whether there is another processor that this thread may run on.
bool has_company() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) > 1;
}

void read_all(std::span<const NamedTensor> tensors, const std::stop_token& stop) {
  for (const NamedTensor& entry : tensors) {
    const auto* data = static_cast<const volatile uint8_t*>(entry.tensor.data());
    for (int64_t at = 0; at < entry.tensor.num_bytes(); at += kMappedTogether) {
      if (stop.stop_requested()) return;
      (void)data[at];
    }
  }
}

}  // namespace

MapAhead::MapAhead(std::span<const NamedTensor> tensors,
                   std::function<void(const std::stop_token&)> then) {
  int64_t num_bytes = 0;
  for (const NamedTensor& entry : tensors) num_bytes += entry.tensor.num_bytes();
  if (num_bytes < kLeastBytes || !has_company()) return;
  try {
    thread_ = std::jthread([tensors, then = std::move(then)](const std::stop_token& stop) {
      read_all(tensors, stop);
      if (!then || stop.stop_requested()) return;
      try {
        then(stop);
      } catch (const std::exception&) {
        // Whoever needs it does it, or fails, in its turn.
      }
    });
  } catch (const std::exception&) {
    // No thread, or no memory for one: pages are mapped when they are read.
  }
}

}  // namespace hasten::weights
