// SPDX-License-Identifier: Apache-2.0
// The worker threads: pinning, and the barrier that spins and then sleeps.
#include "backends/cpu/workers.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cpu/topology.h"
#include "base/clock.h"
#include "base/error.h"

namespace hasten::cpu {
namespace {

// Longer than the serial work between two operations, shorter than a scheduler's time slice: two
// processes that share the cores lose little to each other.
constexpr int64_t kSpinUs = 50;
// Between two moves of the caller: where somebody else has its core, the system knows better.
constexpr int64_t kMoveUs = 10'000;
constexpr int32_t kMostThreads = std::numeric_limits<uint16_t>::max();  // that a door counts

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

/// Where this thread goes on, if it may; the system may place it elsewhere later.
void move_to(int32_t processor) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0 ||
      !CPU_ISSET(static_cast<size_t>(processor), &allowed)) {
    return;
  }
  pin_to(processor);
  pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

}  // namespace

Workers::Workers(int32_t threads) {
  const Topology topology = read_topology();
  const int32_t usable = topology.num_usable_cores();
  l2_bytes_ = topology.l2_bytes;
  const int32_t count = threads > 0 ? threads : usable;
  if (count > kMostThreads) {
    fail(ErrorCode::invalid_argument,
         "{} worker threads are more than {}; ask for fewer with --threads", count, kMostThreads);
  }
  ranges_ = std::vector<OwnRange>(static_cast<size_t>(count));
  // With more threads than cores, a spinning one keeps a working one from its core.
  spin_us_ = count <= usable ? kSpinUs : 0;
  const bool pin = count == static_cast<int32_t>(topology.cores.size()) && count == usable;
  if (pin) {
    caller_processor_ = topology.cores.front();
    is_anothers_.resize(static_cast<size_t>(std::ranges::max(topology.cores)) + 1);
    for (int32_t i = 1; i < count; ++i)
      is_anothers_[static_cast<size_t>(topology.cores[static_cast<size_t>(i)])] = true;
  }
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

/// [0, count) to all threads, of which the caller, which is awake, has the most; while nobody is
/// inside.
void Workers::deal(int64_t count) {
  HASTEN_CHECK(count <= std::numeric_limits<uint32_t>::max());
  const auto threads = std::ssize(ranges_);
  const auto first_of = [&](int64_t thread) {
    return static_cast<uint32_t>((thread * count + threads - 1) / threads);
  };
  for (int64_t i = 0; i < threads; ++i) {
    const Range own{first_of(i), first_of(i + 1)};
    ranges_[static_cast<size_t>(i)].left.store(own, std::memory_order_relaxed);
  }
}

/// Half of what the thread has left, at least one, and what is left behind it. False: nobody has
/// anything left.
bool Workers::take_piece(int32_t thread, Range& piece, Range& rest) {
  std::atomic<Range>& own = ranges_[static_cast<size_t>(thread)].left;
  Range left = own.load(std::memory_order_relaxed);
  for (;;) {
    if (left.is_empty()) {
      if (!take_from_another(thread)) return false;
      left = own.load(std::memory_order_relaxed);
      continue;
    }
    piece = {left.begin, left.begin + std::max(1U, (left.end - left.begin) / 2)};
    rest = {piece.end, left.end};
    if (own.compare_exchange_weak(left, rest, std::memory_order_relaxed)) return true;
  }
}

/// Makes the second half of the longest range that anybody has left the thread's own. Of equal ones
/// each thread takes another.
bool Workers::take_from_another(int32_t thread) {
  const auto own = static_cast<size_t>(thread);
  for (;;) {
    std::atomic<Range>* longest = nullptr;
    Range left;
    for (size_t i = 1; i < ranges_.size(); ++i) {
      OwnRange& range = ranges_[(own + i) % ranges_.size()];
      const Range other = range.left.load(std::memory_order_relaxed);
      if (other.is_empty() || other.end - other.begin <= left.end - left.begin) continue;
      longest = &range.left;
      left = other;
    }
    if (longest == nullptr) return false;
    const uint32_t middle = left.begin + (left.end - left.begin) / 2;
    if (longest->compare_exchange_strong(left, {left.begin, middle}, std::memory_order_relaxed)) {
      ranges_[own].left.store({middle, left.end}, std::memory_order_relaxed);
      return true;
    }
  }
}

/// Whether this thread works on the job at hand, which it does once.
bool Workers::enter(uint32_t& last_epoch) {
  Door door = door_.load(std::memory_order_acquire);
  while (door.places > 0 && door.epoch != last_epoch) {
    const Door entered{door.epoch, static_cast<uint16_t>(door.places - 1),
                       static_cast<uint16_t>(door.inside + 1)};
    if (door_.compare_exchange_weak(door, entered, std::memory_order_acquire)) {
      last_epoch = door.epoch;
      return true;
    }
  }
  return false;
}

void Workers::leave() {
  Door door = door_.load(std::memory_order_relaxed);
  Door left;
  do {
    left = {door.epoch, door.places, static_cast<uint16_t>(door.inside - 1)};
  } while (!door_.compare_exchange_weak(door, left, std::memory_order_release,
                                        std::memory_order_relaxed));
  if (left.places == 0 && left.inside == 0) door_.notify_one();
}

/// Nobody gets in any more.
void Workers::close() {
  Door door = door_.load(std::memory_order_relaxed);
  while (
      !door_.compare_exchange_weak(door, {door.epoch, 0, door.inside}, std::memory_order_relaxed)) {
  }
}

/// The system may have placed the caller on the processor of another thread while that slept, and
/// then takes milliseconds to see that both have something to do.
void Workers::keep_caller_apart() {
  const int processor = sched_getcpu();
  if (processor < 0 || std::cmp_greater_equal(processor, is_anothers_.size()) ||
      !is_anothers_[static_cast<size_t>(processor)]) {
    return;
  }
  const int64_t now = monotonic_us();
  if (now - moved_us_ < kMoveUs) return;
  moved_us_ = now;
  move_to(caller_processor_);
}

void Workers::run_job(Job job, Join join) {
  job_ = job;
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  door_.store({epoch, static_cast<uint16_t>(threads_.size()), 0}, std::memory_order_release);
  // Not just release: notify_all looks for sleepers, and on x86 a plain store may become visible
  // after that look, to a thread that has fallen asleep in between and would miss the job.
  epoch_.store(epoch, std::memory_order_seq_cst);
  epoch_.notify_all();
  keep_caller_apart();
  execute(job, 0);
  if (join == Join::who_comes) close();
  const auto ended = [](Door door) { return door.places == 0 && door.inside == 0; };
  const auto done = [&] { return ended(door_.load(std::memory_order_acquire)); };
  if (!spin_until(spin_us_, done)) {
    for (Door door; !ended(door = door_.load(std::memory_order_acquire));) {
      door_.wait(door, std::memory_order_acquire);
    }
  }
  if (failed_.exchange(false, std::memory_order_relaxed)) {
    std::rethrow_exception(std::exchange(exception_, nullptr));
  }
}

void Workers::work(int32_t thread, int32_t processor) {
  if (processor != kNotPinned) pin_to(processor);
  uint32_t seen = 0;
  uint32_t last_epoch = 0;  // of the jobs that this thread worked on
  for (;;) {
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(spin_us_, changed)) epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!enter(last_epoch)) continue;
    execute(job_, thread);
    leave();
  }
}

}  // namespace hasten::cpu
