// SPDX-License-Identifier: Apache-2.0
// The worker threads: pinning, and the barrier that spins and then sleeps.
#include "backends/cpu/workers.h"

#include <pthread.h>
#include <sched.h>

#include "backends/cpu/topology.h"
#include "base/clock.h"
#include "base/error.h"

namespace hasten::cpu {
namespace {

// Longer than the serial work between two operations, shorter than a scheduler's time slice: two
// processes that share the cores lose little to each other.
constexpr int64_t kSpinUs = 50;
constexpr int32_t kNotPinned = -1;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// True as soon as done() is, false after spin_us.
template <class F>
bool spin_until(int64_t spin_us, F&& done) {
  if (done()) return true;
  if (spin_us <= 0) return false;
  const int64_t end = monotonic_us() + spin_us;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      relax();
    }
  } while (monotonic_us() < end);
  return false;
}

void pin_to(int32_t processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  // May fail when the affinity has just changed; then the system places the thread.
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Workers::Workers(int32_t threads) {
  const Topology topology = read_topology();
  const int32_t usable = topology.num_usable_cores();
  l2_bytes_ = topology.l2_bytes;
  const int32_t count = threads > 0 ? threads : usable;
  // With more threads than cores, a spinning one keeps a working one from its core.
  spin_us_ = count <= usable ? kSpinUs : 0;
  const bool pin = count == static_cast<int32_t>(topology.cores.size()) && count == usable;
  try {
    threads_.reserve(static_cast<size_t>(count - 1));
    for (int32_t i = 1; i < count; ++i) {
      const int32_t processor = pin ? topology.cores[static_cast<size_t>(i)] : kNotPinned;
      threads_.emplace_back([this, i, processor] { work(i, processor); });
    }
  } catch (const std::exception& error) {
    const size_t started = threads_.size() + 1;
    stop();
    fail(ErrorCode::resource_exhausted,
         "the system gives {} of {} worker threads ({}); ask for fewer with --threads", started,
         count, error.what());
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::execute(const Job& job, int32_t thread) {
  try {
    job.call(job.context, thread, num_threads());
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_relaxed)) exception_ = std::current_exception();
  }
}

void Workers::run_job(Job job) {
  job_ = job;
  pending_.store(static_cast<int32_t>(threads_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  execute(job, 0);
  const auto done = [&] { return pending_.load(std::memory_order_acquire) == 0; };
  if (!spin_until(spin_us_, done)) {
    for (int32_t left = 0; (left = pending_.load(std::memory_order_acquire)) != 0;) {
      pending_.wait(left, std::memory_order_acquire);
    }
  }
  if (failed_.exchange(false, std::memory_order_relaxed)) {
    std::rethrow_exception(std::exchange(exception_, nullptr));
  }
}

void Workers::work(int32_t thread, int32_t processor) {
  if (processor != kNotPinned) pin_to(processor);
  uint32_t seen = 0;
  for (;;) {
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(spin_us_, changed)) epoch_.wait(seen, std::memory_order_acquire);
    if (!changed()) continue;
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    execute(job_, thread);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace hasten::cpu
