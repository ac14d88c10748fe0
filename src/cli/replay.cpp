// SPDX-License-Identifier: Apache-2.0
// One thread that submits, and the engine's, which delivers.
#include "cli/replay.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/quantity.h"
#include "cli/progress.h"
#include "hasten/error.h"
#include "workload/programs.h"
#include "workload/prompts.h"

namespace hasten::cli {
namespace {

/// Submits the requests of a workload when they are due and gathers what comes back. The engine's
/// thread calls `take`; the one that made it, all else.
class Replay {
 public:
  Replay(Engine& engine, const Workload& workload, const WorkloadOptions& options)
      : engine_(engine),
        workload_(workload),
        seed_(options.arrivals.seed),
        statistics_(options.targets),
        answers_(workload.trace.requests.size()),
        programs_(workload.trace),
        generations_(answers_.size()) {}

  workload::Statistics run() {
    if (workload_.times_us.empty()) {
      for (size_t i = 0; i < answers_.size(); ++i) {
        Request request = make_request(i);
        wait([this] { return under_way_ < workload_.users; });
        submit(i, std::move(request), std::nullopt);
      }
    } else {
      run_open();
    }
    wait([this] { return under_way_ == 0; });
    return std::move(statistics_);
  }

 private:
  using Due = std::pair<int64_t, size_t>;  // when, index

  void run_open() {
    start_us_ = monotonic_us();
    for (;;) {
      const std::optional<Due> next = next_due();
      if (!next && std::exchange(none_left_, false)) return;
      if (!next) {
        wait([this] { return !paused_.empty() || under_way_ == 0; });
        continue;
      }
      Request request = make_request(next->second);
      wait([&] { return monotonic_us() >= next->first || is_sooner(*next); }, next->first);
      if (monotonic_us() < next->first) continue;
      take_off(*next);
      submit(next->second, std::move(request), next->first);
    }
  }

  /// The request that is due first, of those whose time is known.
  std::optional<Due> next_due() {
    const auto& requests = workload_.trace.requests;
    while (next_ < requests.size() && requests[next_].follows >= 0) ++next_;
    std::optional<Due> next;
    if (next_ < requests.size()) next = {start_us_ + workload_.times_us[next_], next_};
    const std::lock_guard lock(mutex_);
    if (!paused_.empty() && (!next || is_sooner(*next))) next = paused_.top();
    none_left_ = !next && under_way_ == 0;
    return next;
  }

  /// Under the lock: whether one that was paused is due before.
  bool is_sooner(const Due& next) const { return !paused_.empty() && paused_.top() < next; }

  void take_off(const Due& due) {
    if (due.second == next_) {
      ++next_;
      return;
    }
    const std::lock_guard lock(mutex_);
    HASTEN_CHECK(paused_.top() == due);
    paused_.pop();
  }

  Request make_request(size_t index) const {
    const workload::TraceRequest& asked = workload_.trace.requests[index];
    Request request;
    if (!asked.text.empty()) {
      request.prompt = engine_.tokenize(asked.text);
    } else if (asked.prompt_tokens + asked.output_tokens <= engine_.model().context) {
      request.prompt =
          workload::make_prompt(workload_.trace, index, engine_.model().vocab_size, seed_);
    }  // else submit refuses its length
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    request.max_tokens = asked.output_tokens;
    request.tenant = asked.tenant;
    request.priority = asked.priority;
    request.deadline_us = asked.deadline_us;
    request.program_id = asked.program_id;
    request.program_calls_left = asked.program_calls_left;
    return request;
  }

  void submit(size_t index, Request request, std::optional<int64_t> due) {
    const int64_t now = monotonic_us();
    workload::Answer& answer = answers_[index];
    {
      const std::lock_guard lock(mutex_);
      answer.arrival_us = due.value_or(now);
      const workload::TraceRequest& asked = workload_.trace.requests[index];
      answer.prompt_tokens = asked.text.empty() ? asked.prompt_tokens : std::ssize(request.prompt);
      answer.deadline_us = request.deadline_us;
      answer.tenant = asked.tenant;
      programs_.arrive(index, answer);
      if (due) statistics_.sent_late(now - *due);
      if (answer.prompt_tokens + request.max_tokens > engine_.model().context)
        return give_up(index, now,
                       "longer than the context of " + counted(engine_.model().context, "token"));
      ++under_way_;
    }
    try {
      generations_[index] = engine_.submit(
          std::move(request), [this, index](const Chunk& chunk) { take(index, chunk); });
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      --under_way_;
      give_up(index, monotonic_us(),
              error.code() == ErrorCode::resource_exhausted ? "the queue was full" : error.what());
    }
  }

  /// Under the lock, as `take`'s own work. What was to follow does not come.
  void give_up(size_t index, int64_t now, std::string_view kind) {
    statistics_.fail(answers_[index], now, kind);
    ++num_ended_;
    for (const size_t follower : programs_.all_behind(index)) {
      answers_[follower].arrival_us = now;
      statistics_.fail(answers_[follower], now, workload::kNotReached);
      ++num_ended_;
    }
  }

  void take(size_t index, const Chunk& chunk) {
    const int64_t now = monotonic_us();
    const std::lock_guard lock(mutex_);
    workload::Answer& answer = answers_[index];
    if (!chunk.tokens.empty()) statistics_.deliver(answer, now, std::ssize(chunk.tokens));
    if (!chunk.last) return;
    --under_way_;
    answer.cached_tokens = chunk.usage.cached_tokens;
    if (chunk.finish == Finish::deadline) {
      give_up(index, now, "its deadline could not be met");
    } else if (chunk.finish == Finish::error || answer.output_tokens == 0) {
      give_up(index, now, chunk.error.empty() ? "no token" : chunk.error);
    } else {
      programs_.finish(index, answer);
      statistics_.finish(answer, now);
      ++num_ended_;
      for (const size_t follower : programs_.followers(index))
        paused_.emplace(now + workload_.trace.requests[follower].pause_us, follower);
    }
    changed_.notify_one();
  }

  /// Waits until `condition` holds, which only `take` and the time `until_us` change.
  template <class Condition>
  void wait(Condition condition, int64_t until_us = INT64_MAX) {
    constexpr int64_t kRedrawUs = 100'000;
    std::unique_lock lock(mutex_);
    while (!condition()) {
      bar_.show("replay", static_cast<double>(num_ended_) / static_cast<double>(answers_.size()));
      const int64_t left = std::min(until_us - monotonic_us(), kRedrawUs);
      changed_.wait_for(lock, std::chrono::microseconds(std::max<int64_t>(left, 0)));
    }
  }

  Engine& engine_;
  const Workload& workload_;
  const uint64_t seed_;
  ProgressBar bar_;
  std::mutex mutex_;  // guards what follows, but for generations_
  std::condition_variable changed_;
  workload::Statistics statistics_;
  std::vector<workload::Answer> answers_;  // [requests]
  workload::Programs programs_;
  // That come after another one has ended, when they are due, the first at the top.
  std::priority_queue<Due, std::vector<Due>, std::greater<>> paused_;
  int64_t under_way_ = 0;
  int64_t num_ended_ = 0;
  int64_t start_us_ = 0;    // not guarded, as the two below
  size_t next_ = 0;         // of those that come by themselves
  bool none_left_ = false;  // nothing is due, and nothing is under way that could change that
  std::vector<Generation> generations_;  // last: goes first, and its sinks use what stands above
};

}  // namespace

void warm_up(Engine& engine) {
  Request request;
  request.prompt = {0};
  request.max_tokens = 1;
  (void)engine.generate(std::move(request));
}

workload::Statistics replay(Engine& engine, const Workload& workload,
                            const WorkloadOptions& options) {
  return Replay(engine, workload, options).run();
}

}  // namespace hasten::cli
