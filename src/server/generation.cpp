// SPDX-License-Identifier: Apache-2.0
// The loop between the engine's chunks and the client.
#include "server/generation.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "server/errors.h"
#include "server/sse.h"

namespace hasten::server {
namespace {

void add_usage(Usage& total, const Usage& usage) {
  total.prompt_tokens += usage.prompt_tokens;
  total.cached_tokens += usage.cached_tokens;
  total.completion_tokens += usage.completion_tokens;
}

/// Tells the metrics when the tokens of each answer came.
class TokenClock {
 public:
  TokenClock(Metrics& metrics, int64_t arrival_us) : metrics_(metrics), arrival_us_(arrival_us) {}

  void add(const Arrival& arrival) {
    const auto num_tokens = static_cast<int64_t>(arrival.chunk.tokens.size());
    if (num_tokens == 0) return;
    const auto [last, is_first] =
        last_us_.try_emplace({arrival.request, arrival.chunk.choice}, arrival.time_us);
    if (is_first) {
      metrics_.first_token(arrival.time_us - arrival_us_);
    } else {
      metrics_.more_tokens(arrival.time_us - last->second, num_tokens);
      last->second = arrival.time_us;
    }
  }

 private:
  Metrics& metrics_;
  int64_t arrival_us_;
  std::map<std::pair<int32_t, int32_t>, int64_t> last_us_;  // of each request's choices
};

/// The engine's own words are for the log: they tell of bugs and of this machine.
ApiError generation_failed() {
  return {.status = 500,
          .message = "The generation failed; the server's log says why.",
          .type = "server_error",
          .code = "generation_failed"};
}

/// Why a chunk ends the whole answer, if it does.
std::optional<ApiError> failure(const Chunk& chunk) {
  if (chunk.finish == Finish::cancelled) {
    return to_api_error(
        Error(ErrorCode::unavailable, "The answer was cancelled: the server is shutting down."));
  }
  if (chunk.finish == Finish::deadline) {
    return ApiError{.status = 503,
                    .message = chunk.error,
                    .type = "server_error",
                    .param = "deadline_ms",
                    .code = "deadline_unreachable",
                    .retry_after_s = 1};
  }
  if (chunk.finish != Finish::error) return std::nullopt;
  log::error("generation: {}", chunk.error);
  return generation_failed();
}

ApiError too_many_logprobs(int64_t limit) {
  return {.status = 400,
          .message = fmt::format("The answer has more than {} log-probabilities, alternatives "
                                 "included; ask for fewer, or for fewer tokens, prompts or "
                                 "choices, or stream what is generated.",
                                 limit),
          .param = "logprobs",
          .code = "too_many_logprobs"};
}

/// Entries for the prompts' tokens, which every choice repeats.
int64_t num_prompt_logprobs(const std::vector<Request>& requests) {
  int64_t count = 0;
  for (const Request& request : requests) {
    if (request.prompt_logprobs < 0) continue;
    count += std::ssize(request.prompt) * request.n * (1 + request.prompt_logprobs);
  }
  return count;
}

int64_t num_logprobs(const Chunk& chunk) {
  int64_t count = 0;
  for (const TokenLogprob& logprob : chunk.logprobs) count += 1 + std::ssize(logprob.top);
  return count;
}

/// One answer on its way.
struct Progress {
  Usage usage;
  std::string events;              // to be sent next
  std::optional<ApiError> failed;  // then nothing more is taken
  std::size_t num_running = 0;     // requests
  int64_t num_logprobs = 0;        // entries, the prompts' included
};

void take(const std::vector<Arrival>& arrivals, AnswerWriter& writer, TokenClock& clock,
          Metrics& metrics, int64_t arrival_us, Progress& progress) {
  for (const Arrival& arrival : arrivals) {
    progress.failed = failure(arrival.chunk);
    if (progress.failed) return;
    clock.add(arrival);
    progress.num_logprobs += num_logprobs(arrival.chunk);
    progress.events += writer.add(arrival);
    if (!arrival.chunk.last) continue;
    --progress.num_running;
    add_usage(progress.usage, arrival.chunk.usage);
    metrics.finished(arrival.time_us - arrival_us, arrival.chunk.usage);
  }
}

}  // namespace

void check_context(const Context& context, const std::vector<int32_t>& prompt,
                   const std::string& param) {
  const int64_t limit = context.engine.model().context;
  if (prompt.empty()) fail_param(param, "{} is empty; send at least one token", param);
  if (static_cast<int64_t>(prompt.size()) < limit) return;
  throw ApiError{
      .status = 400,
      .message = fmt::format("This model's context is {} tokens, and {} has {}; at least "
                             "one must be left for the answer.",
                             limit, param, prompt.size()),
      .param = param,
      .code = "context_length_exceeded"};
}

Task<> answer_generation(Context& context, Exchange& exchange, std::vector<Request> requests,
                         AnswerWriter& writer, bool stream) {
  const Limits& limits = context.options.limits;
  const int64_t arrival_us = exchange.request().arrival_us;
  Progress progress;
  progress.num_logprobs = num_prompt_logprobs(requests);
  if (progress.num_logprobs > limits.logprobs) throw too_many_logprobs(limits.logprobs);
  ChunkQueue queue(co_await boost::asio::this_coro::executor, limits.output_bytes,
                   exchange.cutter());
  std::vector<Generation> generations;  // destroyed before the queue: that cancels them
  for (Request& request : requests) {
    request.tenant = exchange.request().tenant;
    if (context.options.share_prefixes) request.cache_group = "all keys";
    const auto index = static_cast<int32_t>(generations.size());
    generations.push_back(context.engine.submit(std::move(request), queue.sink(index)));
  }

  progress.num_running = generations.size();
  TokenClock clock(context.metrics, arrival_us);
  while (progress.num_running > 0 && !progress.failed) {
    // Asked before the queue: then all their chunks are in it.
    const bool all_done = std::all_of(generations.begin(), generations.end(),
                                      [](const Generation& each) { return each.done(); });
    const std::vector<Arrival> arrivals = co_await queue.next(limits.stream_ping);
    // An engine that fails ends its requests without a last chunk.
    if (all_done && arrivals.empty()) progress.failed = generation_failed();
    take(arrivals, writer, clock, context.metrics, arrival_us, progress);
    // A stream lets go of them as they come.
    if (!stream && progress.num_logprobs > limits.logprobs) {
      throw too_many_logprobs(limits.logprobs);
    }
    if (!stream) continue;
    // What fails before anything was sent still gets its own status.
    if (exchange.status() == 0 && !progress.failed) {
      HttpResponse head = sse_head();
      co_await exchange.start_stream(std::move(head));
    }
    if (arrivals.empty() && !progress.failed) progress.events = kSsePing;
    if (exchange.streaming()) co_await exchange.write(progress.events);
    progress.events.clear();
  }

  if (!stream) {
    if (progress.failed) throw *progress.failed;
    HttpResponse response{.body = writer.body(progress.usage)};
    co_await exchange.respond(std::move(response));
    co_return;
  }
  if (progress.failed && exchange.status() == 0) throw *progress.failed;
  const std::string end = progress.failed ? writer.stream_error(error_json(*progress.failed))
                                          : writer.stream_end(progress.usage);
  co_await exchange.write(end);
  co_await exchange.end_stream();
  if (progress.failed) throw *progress.failed;
}

}  // namespace hasten::server
