// SPDX-License-Identifier: Apache-2.0
// Tests of the worker threads: every thread once, every piece once, errors, sleep,
// oversubscription.
#include "backends/cpu/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/topology.h"
#include "base/error.h"
#include "hasten_test/address_space_limit.h"

namespace hasten::cpu {
namespace {

TEST(Workers, RunsEveryThreadOnce) {
  for (const int32_t count : {1, 2, 5}) {
    Workers workers(count);
    ASSERT_EQ(workers.num_threads(), count);
    std::vector<int> calls(static_cast<size_t>(count));  // each thread writes its own
    for (int round = 0; round < 2000; ++round) {
      workers.run([&](int32_t thread, int32_t num_threads) {
        ASSERT_EQ(num_threads, count);
        ++calls[static_cast<size_t>(thread)];
      });
    }
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(count), 2000));
  }
}

TEST(Workers, DealsEveryPieceOnce) {
  Workers workers(3);
  for (const int64_t count : {0, 1, 7, 100, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<int> seen(static_cast<size_t>(count));
      workers.for_each(count, grain, [&](int64_t begin, int64_t end, int32_t thread) {
        ASSERT_LE(end - begin, grain);
        ASSERT_LT(thread, 3);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count);
    }
  }
}

TEST(Workers, RangesCoverAllInPiecesThatShrink) {
  Workers workers(3);
  for (const int64_t count : {0, 1, 2, 7, 100, 1000}) {
    for (const int64_t least : {1, 4, 64, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      const auto piece = [&](int64_t begin, int64_t end, int64_t next, int32_t thread) {
        ASSERT_TRUE(end - begin >= least || end == count);
        ASSERT_LE(end - begin, std::max(least, (count / least / 3 + 2) / 2 * least));
        ASSERT_TRUE(next == end || next == count);
        ASSERT_LT(thread, 3);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      };
      for (int round = 1; round <= 20; ++round) {
        workers.for_each_in_ranges(count, least, piece);
        EXPECT_EQ(std::count(seen.begin(), seen.end(), round), count);
      }
    }
  }
}

TEST(Workers, LastPiecesComeOnceEachAndWaitForNoRange) {
  for (const int32_t threads : {1, 3}) {
    Workers workers(threads);
    for (const int64_t count : {0, 1, 2, 100}) {
      for (const int64_t num_last : {0, 1, 5, 40}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        std::vector<std::atomic<int>> seen_last(static_cast<size_t>(num_last));
        for (int round = 1; round <= 20; ++round) {
          workers.for_each_in_ranges(
              count, 1,
              [&](int64_t begin, int64_t end, int64_t, int32_t) {
                for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
              },
              num_last,
              [&](int64_t index, int32_t thread) {
                ASSERT_LT(thread, threads);
                ++seen_last[static_cast<size_t>(index)];
              });
          EXPECT_EQ(std::count(seen.begin(), seen.end(), round), count);
          EXPECT_EQ(std::count(seen_last.begin(), seen_last.end(), round), num_last);
        }
      }
    }
  }
  // One piece is worth waking nobody for.
  Workers pool(3);
  for (int round = 0; round < 200; ++round) {
    pool.for_each_in_ranges(
        4, 4,
        [](int64_t begin, int64_t end, int64_t, int32_t thread) {
          EXPECT_EQ(thread, 0);
          EXPECT_EQ(end - begin, 4);
        },
        0, [](int64_t, int32_t) {});
  }
  // A thread in its only range does not keep the other from the last pieces.
  Workers workers(2);
  std::atomic<int> done{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  workers.for_each_in_ranges(
      1, 1,
      [&](int64_t, int64_t, int64_t, int32_t) {
        while (done < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        EXPECT_EQ(done, 4);
      },
      4, [&](int64_t, int32_t) { ++done; });
}

TEST(Workers, AThreadGoesOnBehindItsPieceAndThenTakesWhatAnotherHasLeft) {
  Workers workers(2);
  const auto wait_for = [](auto&& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(done());
  };
  // The first thread stays in its first piece, and the other one begins after it.
  std::vector<int64_t> begins;  // of the other one's pieces
  std::vector<int> seen(1000);
  std::atomic<bool> started{false};
  std::atomic<int64_t> left{1000};
  int64_t expected = 500;
  workers.for_each_in_ranges(1000, 1, [&](int64_t begin, int64_t end, int64_t next, int32_t) {
    left -= end - begin;
    if (begin == 0) {
      EXPECT_EQ(end, 250);
      EXPECT_EQ(next, 250);
      started = true;
      wait_for([&] { return left == 0; });
      return;
    }
    wait_for([&] { return started.load(); });
    if (expected < 1000) {
      EXPECT_EQ(begin, expected);
    }
    expected = next;
    begins.push_back(begin);
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  ASSERT_GT(begins.size(), 3U);
  EXPECT_EQ(begins[1], 750);
  EXPECT_THAT(begins, ::testing::Contains(375));  // the second half of what the first has left
  EXPECT_THAT(std::span(seen).first(250), ::testing::Each(0));
  EXPECT_THAT(std::span(seen).subspan(250), ::testing::Each(1));
}

TEST(Workers, APieceThatFailsEndsTheOthersWhereTheyAre) {
  Workers workers(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> inside{0};
    const auto piece = [&](int64_t begin, int64_t, int32_t) {
      ++inside;
      const bool fails = begin >= 20;
      --inside;
      if (fails) throw std::runtime_error("piece failed");
    };
    const auto in_ranges = [&](int64_t begin, int64_t end, int64_t, int32_t thread) {
      piece(begin, end, thread);
    };
    const auto last = [&](int64_t index, int32_t thread) { piece(index, index + 1, thread); };
    const auto no_range = [](int64_t, int64_t, int64_t, int32_t) {};
    if (round % 3 == 0) {
      EXPECT_THROW(workers.for_each(1000, 1, piece), std::runtime_error);
    } else if (round % 3 == 1) {
      EXPECT_THROW(workers.for_each_in_ranges(1000, 1, in_ranges), std::runtime_error);
    } else {
      EXPECT_THROW(workers.for_each_in_ranges(10, 1, no_range, 1000, last), std::runtime_error);
    }
    EXPECT_EQ(inside.load(), 0);  // nobody is left behind in what the caller has given up
    std::atomic<int> calls{0};
    workers.run([&](int32_t, int32_t) { ++calls; });
    EXPECT_EQ(calls.load(), 3);
  }
}

TEST(Workers, PassesOnAnExceptionAndLives) {
  Workers workers(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(workers.run([&](int32_t thread, int32_t) {
      if (thread == round % 3) throw std::runtime_error("piece failed");
    }),
                 std::runtime_error);
    std::atomic<int> calls{0};
    workers.run([&](int32_t, int32_t) { ++calls; });
    EXPECT_EQ(calls.load(), 3);
  }
}

#if HASTEN_LIMITS_ADDRESS_SPACE
TEST(Workers, TooManyThreadsAreAnError) {
  std::string message;
  try {
    // Room for some threads, far from all: those that started must be joined.
    const testing::AddressSpaceLimit limit(int64_t{256} << 20);
    const Workers workers(3000);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    message = error.what();
  }
  EXPECT_THAT(message, ::testing::HasSubstr("of 3000 worker threads"));
  EXPECT_THAT(message, ::testing::HasSubstr("--threads"));
}
#endif

TEST(Workers, IdleCostsNoProcessorTime) {
  Workers workers(4);
  workers.run([](int32_t, int32_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // they fall asleep
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 50);
}

/// Keeps a thread from running, as somebody else on its core would, until this ends.
class Held {
 public:
  explicit Held(pthread_t thread) {
    HASTEN_CHECK(pipe(told_) == 0 && pipe(asked_) == 0);
    wanted_.store(true);
    struct sigaction action = {};
    action.sa_handler = [](int) {
      if (!wanted_.exchange(false)) return;  // of a signal that was sent again
      char byte = 0;
      if (write(told_[1], &byte, 1) != 1 || read(asked_[0], &byte, 1) != 1 ||
          write(told_[1], &byte, 1) != 1) {
        std::abort();
      }
    };
    HASTEN_CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
    // Again and again: under TSan a thread that is about to sleep runs no handler until it is
    // woken, which a second signal does.
    pollfd told = {.fd = told_[0], .events = POLLIN, .revents = 0};
    do {
      HASTEN_CHECK(pthread_kill(thread, SIGUSR1) == 0);
    } while (poll(&told, 1, /*timeout=*/10) == 0);
    wait_for_thread();
  }
  ~Held() {
    const char byte = 0;
    HASTEN_CHECK(write(asked_[1], &byte, 1) == 1);
    wait_for_thread();
    // The handler stays: a signal may still be on its way.
    for (const int end : {told_[0], told_[1], asked_[0], asked_[1]}) close(end);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  static void wait_for_thread() {
    char byte = 0;
    HASTEN_CHECK(read(told_[0], &byte, 1) == 1);
  }

  static inline std::atomic<bool> wanted_{false};
  static inline int told_[2];   // by the thread
  static inline int asked_[2];  // to go on
};

TEST(Workers, PiecesDoNotWaitForAThreadThatDoesNotRun) {
  Workers workers(3);
  std::vector<pthread_t> threads(3);
  workers.run(
      [&](int32_t thread, int32_t) { threads[static_cast<size_t>(thread)] = pthread_self(); });
  for (int round = 0; round < 20; ++round) {
    std::vector<int> seen(1000);
    {
      const Held held(threads[1]);
      workers.for_each(1000, 3, [&](int64_t begin, int64_t end, int32_t thread) {
        EXPECT_NE(thread, 1);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      workers.for_each_in_ranges(1000, 3, [&](int64_t begin, int64_t end, int64_t, int32_t thread) {
        EXPECT_NE(thread, 1);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 2), 1000);
    // It missed two jobs and is back for the next, once.
    std::atomic<int> calls{0};
    workers.run([&](int32_t, int32_t) { ++calls; });
    EXPECT_EQ(calls.load(), 3);
  }
}

TEST(Workers, TheCallerIsBroughtToTheCoreThatNoOtherThreadHas) {
  const Topology topology = read_topology();
  const auto count = static_cast<int32_t>(topology.cores.size());
  if (count < 2 || topology.num_usable_cores() != count)
    GTEST_SKIP() << "no core of this process is left to each thread: " << count << " cores, "
                 << topology.num_usable_cores() << " of them usable";
  Workers workers(0);
  cpu_set_t allowed;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed), 0);
  constexpr int kRounds = 20;
  int num_apart = 0;
  for (int round = 0; round < kRounds; ++round) {
    cpu_set_t of_another;
    CPU_ZERO(&of_another);
    CPU_SET(static_cast<size_t>(topology.cores.back()), &of_another);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof of_another, &of_another), 0);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed), 0);
    workers.run([&](int32_t thread, int32_t) {
      if (thread == 0 && sched_getcpu() == topology.cores.front()) ++num_apart;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GE(num_apart, kRounds / 4);  // where the system has no other plans
  cpu_set_t now;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof now, &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&now, &allowed));
}

TEST(Workers, PoolsSideBySideDoNotHang) {
  Workers first(4);
  Workers second(4);
  std::atomic<int64_t> sum{0};
  std::thread other([&] {
    for (int i = 0; i < 300; ++i) second.run([&](int32_t thread, int32_t) { sum += thread; });
  });
  for (int i = 0; i < 300; ++i) first.run([&](int32_t thread, int32_t) { sum += thread; });
  other.join();
  EXPECT_EQ(sum.load(), 2 * 300 * (1 + 2 + 3));
}

}  // namespace
}  // namespace hasten::cpu
