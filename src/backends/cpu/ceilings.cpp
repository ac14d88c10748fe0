// SPDX-License-Identifier: Apache-2.0
// Timing of the peak kernels on all threads at once.
#include "backends/cpu/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/workers.h"
#include "base/clock.h"
#include "base/memory.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kMeasureUs = 300'000;
constexpr int64_t kMebibyte = int64_t{1} << 20;

/// Units per second at the best of several rounds: a round that another process disturbed does not
/// count. `round()` does some milliseconds of work and returns its units.
template <class Round>
double best_rate(Round&& round) {
  double best = 0;
  const int64_t end = monotonic_us() + kMeasureUs;
  do {
    const int64_t start = monotonic_us();
    const auto units = static_cast<double>(round());
    const auto elapsed = static_cast<double>(std::max<int64_t>(1, monotonic_us() - start));
    best = std::max(best, units / elapsed * 1e6);
  } while (monotonic_us() < end);
  return best;
}

/// What a loop of one instruction reaches, over all threads; 0 without a kernel.
double peak_rate(Workers& workers, PeakKernel kernel) {
  if (kernel == nullptr) return 0;
  constexpr int64_t kRounds = 500'000;  // of 12 instructions: one or two milliseconds
  std::vector<int64_t> operations(static_cast<size_t>(workers.num_threads()));
  return best_rate([&] {
    workers.run([&](int32_t thread, int32_t) {
      operations[static_cast<size_t>(thread)] = kernel(kRounds);
    });
    int64_t total = 0;
    for (const int64_t count : operations) total += count;
    return total;
  });
}

double read_rate(Workers& workers, const KernelTable& kernels) {
  // Twice the last cache, so that little of it is still there when the next round comes around.
  const auto last_cache = static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  int64_t bytes = std::clamp(2 * last_cache, 256 * kMebibyte, 1024 * kMebibyte);
  bytes = std::max(16 * kMebibyte, std::min(bytes, measure_memory().available_bytes / 4));
  const Memory memory(bytes);
  const auto share = [&](int32_t thread, int32_t num_threads) {
    const int64_t size = bytes / num_threads / 256 * 256;
    return std::pair(memory.data() + thread * size, size);
  };
  workers.run([&](int32_t thread, int32_t num_threads) {
    const auto [data, size] = share(thread, num_threads);
    std::memset(data, 1, static_cast<size_t>(size));
  });
  std::vector<int64_t> sums(static_cast<size_t>(workers.num_threads()));
  return best_rate([&] {
    workers.run([&](int32_t thread, int32_t num_threads) {
      const auto [data, size] = share(thread, num_threads);
      sums[static_cast<size_t>(thread)] = kernels.read_bytes(data, size);
    });
    return bytes;
  });
}

}  // namespace

Ceilings measure_ceilings(int32_t threads) {
  Workers workers(threads);
  const KernelTable& kernels = select_kernels({});
  return {.read_bytes_per_s = read_rate(workers, kernels),
          .int8_ops_per_s = peak_rate(workers, kernels.peak_int8),
          .bf16_flops_per_s = peak_rate(workers, bf16_peak_kernel()),
          .f32_flops_per_s = peak_rate(workers, kernels.peak_f32)};
}

}  // namespace hasten::cpu
