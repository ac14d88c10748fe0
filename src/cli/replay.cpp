// SPDX-License-Identifier: Apache-2.0
// One thread that submits, and the engine's, which delivers.
#include "cli/replay.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/progress.h"
#include "hasten/error.h"
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
        generations_(answers_.size()) {}

  workload::Statistics run() {
    const int64_t start = monotonic_us();
    for (size_t i = 0; i < answers_.size(); ++i) {
      const bool is_open = !workload_.times_us.empty();
      Request request = make_request(i);
      if (is_open) {
        const int64_t due = start + workload_.times_us[i];
        wait([due] { return monotonic_us() >= due; }, due);
        submit(i, std::move(request), due);
      } else {
        wait([this] { return under_way_ < workload_.users; });
        submit(i, std::move(request), std::nullopt);
      }
    }
    wait([this] { return under_way_ == 0; });
    return std::move(statistics_);
  }

 private:
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
      if (due) statistics_.sent_late(now - *due);
      if (answer.prompt_tokens + request.max_tokens > engine_.model().context)
        return give_up(answer, now, "longer than the context");
      ++under_way_;
    }
    try {
      generations_[index] = engine_.submit(
          std::move(request), [this, index](const Chunk& chunk) { take(index, chunk); });
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      --under_way_;
      give_up(answer, monotonic_us(),
              error.code() == ErrorCode::resource_exhausted ? "the queue was full" : error.what());
    }
  }

  /// Under the lock, as `take`'s own work.
  void give_up(const workload::Answer& answer, int64_t now, std::string_view kind) {
    statistics_.fail(answer, now, kind);
    ++num_ended_;
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
      give_up(answer, now, "its deadline could not be met");
    } else if (chunk.finish == Finish::error || answer.output_tokens == 0) {
      give_up(answer, now, chunk.error.empty() ? "no token" : chunk.error);
    } else {
      statistics_.finish(answer, now);
      ++num_ended_;
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
  int64_t under_way_ = 0;
  int64_t num_ended_ = 0;
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
