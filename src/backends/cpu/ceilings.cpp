// SPDX-License-Identifier: Apache-2.0
// Timing of the peak kernels on all threads at once.
#include "backends/cpu/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/memory.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int kLeastRounds = 3;  // or a neighbour in the only one would be taken for the machine

/// Units per second at the best of the rounds of a window: a round that another process disturbed
/// does not count. `round()` does its work and returns how many units that was.
template <class Round>
double best_rate(int64_t window_us, Round&& round) {
  double best = 0;
  const int64_t end = monotonic_us() + window_us;
  int rounds = 0;
  do {
    const int64_t start = monotonic_us();
    const auto units = static_cast<double>(round());
    const auto elapsed = static_cast<double>(std::max<int64_t>(1, monotonic_us() - start));
    best = std::max(best, units / elapsed * 1e6);
  } while (++rounds < kLeastRounds || monotonic_us() < end);
  return best;
}

/// Twice the last cache, so that little of it is still there when the next round comes around.
int64_t stream_bytes() {
  const auto last_cache = static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  const int64_t bytes = std::clamp(2 * last_cache, 256 * kMebibyte, 1024 * kMebibyte);
  return std::max(16 * kMebibyte, std::min(bytes, measure_memory().available_bytes / 4));
}

/// What one thread reads of the memory, in bytes.
struct Share {
  int64_t first;
  int64_t size;
};

Share share_of(int64_t bytes, int32_t thread, int32_t num_threads) {
  const int64_t size = bytes / num_threads / 256 * 256;
  return {thread * size, size};
}

}  // namespace

CeilingMeter::CeilingMeter(int32_t threads)
    : workers_(threads), kernels_(select_kernels({})), memory_(stream_bytes()) {
  workers_.run([&](int32_t thread, int32_t num_threads) {
    const Share share = share_of(memory_.num_bytes(), thread, num_threads);
    std::memset(memory_.data() + share.first, 1, static_cast<size_t>(share.size));
  });
}

/// What a loop of one instruction reaches at best, over all threads; 0 without a kernel. A core's
/// units are nobody else's, so a round that another process disturbed does not count.
double CeilingMeter::peak_rate(PeakKernel kernel, int64_t window_us) {
  if (kernel == nullptr) return 0;
  constexpr int64_t kRounds = 500'000;  // of up to 12 products: one or two milliseconds
  std::vector<int64_t> operations(static_cast<size_t>(workers_.num_threads()));
  return best_rate(window_us, [&] {
    workers_.run([&](int32_t thread, int32_t) {
      operations[static_cast<size_t>(thread)] = kernel(kRounds);
    });
    int64_t total = 0;
    for (const int64_t count : operations) total += count;
    return total;
  });
}

/// Reads all of the memory once, dealt as the weights of a product of few rows are. Returns the
/// bytes per second.
double CeilingMeter::read_all(bool one_stream) {
  std::vector<int64_t> sums(static_cast<size_t>(workers_.num_threads()));
  const int64_t count = memory_.num_bytes() / kMebibyte;
  const int64_t num_bytes = count * kMebibyte;
  const int64_t start = monotonic_us();
  workers_.for_each_in_ranges(
      count, 1, [&](int64_t begin, int64_t end, int64_t /*next*/, int32_t thread) {
        sums[static_cast<size_t>(thread)] += kernels_.read_bytes(
            memory_.data() + begin * kMebibyte, (end - begin) * kMebibyte, one_stream);
      });
  const auto elapsed = static_cast<double>(std::max<int64_t>(1, monotonic_us() - start));
  return static_cast<double>(num_bytes) / elapsed * 1e6;
}

/// Both ways to read, in turns, so that they meet the same neighbours; of the better one.
void CeilingMeter::measure_reading(int64_t window_us, Ceilings& to) {
  double times[2] = {0, 0};  // of a byte, the sum over all rounds
  const int64_t end = monotonic_us() + window_us;
  int rounds = 0;
  do {
    for (const bool one_stream : {true, false}) {
      const double rate = read_all(one_stream);
      times[one_stream ? 1 : 0] += 1 / rate;
      to.best_read_bytes_per_s = std::max(to.best_read_bytes_per_s, rate);
    }
  } while (++rounds < kLeastRounds || monotonic_us() < end);
  one_stream_ = times[1] <= times[0];
  to.read_bytes_per_s = rounds / std::min(times[0], times[1]);
}

double CeilingMeter::read_rate() { return read_all(one_stream_); }

Ceilings CeilingMeter::measure(int64_t window_us) {
  Ceilings ceilings;
  measure_reading(window_us, ceilings);
  ceilings.int8_ops_per_s = peak_rate(kernels_.peak_int8, window_us);
  ceilings.int4_ops_per_s =
      std::max(ceilings.int8_ops_per_s, peak_rate(kernels_.peak_int4, window_us));
  ceilings.bf16_flops_per_s = peak_rate(bf16_peak_kernel(), window_us);
  ceilings.f32_flops_per_s = peak_rate(kernels_.peak_f32, window_us);
  return ceilings;
}

double CeilingMeter::barrier_us(int64_t window_us) {
  constexpr int kBarriers = 100;  // the clock counts whole microseconds: so many are one sample
  std::vector<double> samples;
  const int64_t end = monotonic_us() + window_us;
  do {
    const int64_t start = monotonic_us();
    for (int i = 0; i < kBarriers; ++i) workers_.run([](int32_t, int32_t) {});
    samples.push_back(static_cast<double>(monotonic_us() - start) / kBarriers);
  } while (monotonic_us() < end);
  const auto middle = samples.begin() + std::ssize(samples) / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace hasten::cpu
