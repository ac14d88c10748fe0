// SPDX-License-Identifier: Apache-2.0
// The threads that share the work of one operation.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace hasten::cpu {

/// A pool in which the caller of run() is thread 0. Between two runs the others spin for a few
/// microseconds, because the next operation usually follows at once, and then sleep: idle costs
/// nothing. run() and its like are called by one thread at a time, never from inside each other.
///
/// Work that is dealt in pieces waits for those threads alone that have taken one. A thread that
/// the system runs late, because somebody else has its core, finds the work done: beside a busy
/// process an operation takes the time that its awake threads need, not a time slice.
class Workers {
 public:
  /// `threads` <= 0: one per usable physical core. With exactly as many threads as cores, each but
  /// the caller's is pinned to its own, and a caller that is found on one of those is brought to
  /// the one that is left, with the affinity that it had; otherwise the system places them.
  /// Error{resource_exhausted} when the system gives fewer.
  explicit Workers(int32_t threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int32_t num_threads() const { return static_cast<int32_t>(threads_.size()) + 1; }
  /// Of a core's second-level cache; 0 where it is not known.
  int64_t l2_bytes() const { return l2_bytes_; }

  /// Calls fn(thread_index, num_threads) on every thread, and waits. The first exception thrown in
  /// it is thrown here, after all have ended.
  template <class F>
  void run(F&& fn) {
    run_job(job_of(fn), Join::all);
  }

  /// Calls fn(begin, end, thread_index) for pieces of [0, count) of at most `grain`, each to the
  /// next free thread; on the caller alone when there is one piece.
  template <class F>
  void for_each(int64_t count, int64_t grain, F&& fn) {
    if (count <= 0) return;
    if (count <= grain || threads_.empty()) {
      for (int64_t begin = 0; begin < count; begin += grain) {
        fn(begin, begin + grain < count ? begin + grain : count, 0);
      }
      return;
    }
    std::atomic<int64_t> next{0};
    const auto take_pieces = [&](int32_t thread, int32_t) {
      for (;;) {
        const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        fn(begin, begin + grain < count ? begin + grain : count, thread);
      }
    };
    run_job(job_of(take_pieces), Join::who_comes);
  }

  /// As for_each, for work that is faster in long pieces, one where the last one ended: calls
  /// fn(begin, end, next, thread_index). A thread begins with a range of its own, of which a piece
  /// is half of what is left, and goes on with half of the longest range that another one has left.
  /// Pieces are at least `least` but for the last one. Where `next` is not `count`, the thread goes
  /// on there, unless another one does. On the caller alone when there is one piece. (Blumofe and
  /// Leiserson, Scheduling multithreaded computations by work stealing, 1999; Polychronopoulos and
  /// Kuck, Guided self-scheduling, 1987.)
  template <class F>
  void for_each_in_ranges(int64_t count, int64_t least, F&& fn) {
    for_each_in_ranges(count, least, fn, 0, [](int64_t, int32_t) {});
  }

  /// Likewise, and then last(index, thread_index) for [0, num_last), each to the next free thread,
  /// while others are still at their ranges: small pieces that even out when threads end.
  template <class F, class G>
  void for_each_in_ranges(int64_t count, int64_t least, F&& fn, int64_t num_last, G&& last) {
    if (count <= 0 && num_last <= 0) return;
    if (threads_.empty() || (count <= least && num_last <= 0)) {
      if (count > 0) fn(int64_t{0}, count, count, int32_t{0});
      for (int64_t i = 0; i < num_last; ++i) last(i, int32_t{0});
      return;
    }
    deal((count + least - 1) / least);
    std::atomic<int64_t> next_last{0};
    const auto take_pieces = [&](int32_t thread, int32_t) {
      Range piece;
      Range rest;
      while (take_piece(thread, piece, rest)) {
        fn(piece.begin * least, std::min(piece.end * least, count),
           rest.is_empty() ? count : rest.begin * least, thread);
      }
      while (num_last > 0) {
        const int64_t index = next_last.fetch_add(1, std::memory_order_relaxed);
        if (index >= num_last) return;
        last(index, thread);
      }
    };
    run_job(job_of(take_pieces), Join::who_comes);
  }

 private:
  static constexpr int32_t kNotPinned = -1;

  struct Job {
    void (*call)(void* context, int32_t thread, int32_t num_threads) = nullptr;
    void* context = nullptr;
  };

  /// Which threads a job waits for.
  enum class Join : uint8_t { all, who_comes };

  /// The job at hand, in one word, so that whether a thread still gets in is one decision.
  struct alignas(8) Door {
    uint32_t epoch;   // of the job
    uint16_t places;  // for threads that have not come in yet; none once the door is closed
    uint16_t inside;  // threads that work on it, but for the caller
  };

  /// What a thread has left of its own, in multiples of `least`, in one word.
  struct alignas(8) Range {
    uint32_t begin = 0;
    uint32_t end = 0;
    bool is_empty() const { return begin >= end; }
  };
  /// Each thread's on a line of its own.
  struct alignas(64) OwnRange {
    std::atomic<Range> left{Range{}};
    static_assert(std::atomic<Range>::is_always_lock_free);
  };

  template <class F>
  static Job job_of(F& fn) {
    return {.call = [](void* context, int32_t thread,
                       int32_t num) { (*static_cast<F*>(context))(thread, num); },
            .context = const_cast<void*>(static_cast<const void*>(&fn))};
  }

  void stop();
  void deal(int64_t count);
  bool take_piece(int32_t thread, Range& piece, Range& rest);
  bool take_from_another(int32_t thread);
  void keep_caller_apart();
  void run_job(Job job, Join join);
  void work(int32_t thread, int32_t processor);
  void execute(const Job& job, int32_t thread);
  bool enter(uint32_t& last_epoch);
  void leave();
  void close();

  std::vector<std::thread> threads_;
  std::vector<OwnRange> ranges_;  // of each thread
  int64_t spin_us_ = 0;
  int64_t l2_bytes_ = 0;
  int32_t caller_processor_ = kNotPinned;  // of the core that no other thread is pinned to
  std::vector<bool> is_anothers_;          // by processor: another thread is pinned to it
  int64_t moved_us_ = 0;                   // when the caller was brought there
  Job job_;                                // changes only while nobody is inside
  std::exception_ptr exception_;           // written by the one that sets failed_ first
  std::atomic<bool> failed_{false};
  std::atomic<bool> stopping_{false};
  // On lines of their own: one is read by all who wait for work, the other written by all who come
  // and go.
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<Door> door_{Door{}};
  static_assert(std::atomic<Door>::is_always_lock_free);
};

}  // namespace hasten::cpu
