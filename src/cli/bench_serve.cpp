// SPDX-License-Identifier: Apache-2.0
// hasten bench serve: a workload against a running server, over HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "cli/workload_flags.h"
#include "client/load.h"
#include "workload/programs.h"
#include "workload/prompts.h"

namespace hasten::cli {
namespace {

struct LoadOptions {
  std::string url = "http://127.0.0.1:8080";
  client::ServerAddress server;
  std::string model;
  bool chat = false;
  int64_t token_ids = 0;  // below which prompts have ids; 0: words
  bool end_tokens = false;
  int64_t stall_seconds = 60;
  int64_t request_seconds = 600;
  WorkloadOptions workload;
};

/// The first model that the server names.
std::string first_model(const client::ServerAddress& server) {
  const json::Value answer = json::parse(client::get(server, "/v1/models"), "/v1/models");
  const json::Object* object = answer.if_object();
  const json::Value* data = object != nullptr ? object->if_contains("data") : nullptr;
  if (data != nullptr && data->is_array() && !data->get_array().empty()) {
    const json::Object* model = data->get_array()[0].if_object();
    const json::Value* id = model != nullptr ? model->if_contains("id") : nullptr;
    if (id != nullptr && id->is_string()) return std::string(id->get_string());
  }
  fail(ErrorCode::unavailable, "the server's /v1/models names no model: give --model-name NAME");
}

/// Makes the bodies of requests in order, some ahead of the thread that sends them and measures.
class BodyMaker {
 public:
  BodyMaker(size_t count, std::function<std::string(size_t index)> make)
      : count_(count), make_(std::move(make)), thread_([this] { run(); }) {}
  ~BodyMaker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  BodyMaker(const BodyMaker&) = delete;
  BodyMaker& operator=(const BodyMaker&) = delete;

  /// The next one, made ahead or waited for. Throws what making it threw.
  std::string next() {
    std::unique_lock lock(mutex_);
    made_.wait(lock, [this] { return !bodies_.empty() || failed_; });
    if (bodies_.empty()) std::rethrow_exception(failed_);
    std::string body = std::move(bodies_.front());
    bodies_.pop_front();
    bytes_ -= body.size();
    changed_.notify_one();
    return body;
  }

 private:
  static constexpr size_t kAhead = 64 << 20;  // bytes; a long prompt as text is under 1 MiB

  void run() {
    try {
      for (size_t i = 0; i < count_; ++i) {
        std::string body = make_(i);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return bytes_ < kAhead || stopping_; });
        if (stopping_) return;
        bytes_ += body.size();
        bodies_.push_back(std::move(body));
        made_.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failed_ = std::current_exception();
      made_.notify_one();
    }
  }

  const size_t count_;
  const std::function<std::string(size_t index)> make_;
  std::mutex mutex_;                 // guards what follows, thread_ left out
  std::condition_variable made_;     // for `next`
  std::condition_variable changed_;  // for `run`
  std::deque<std::string> bodies_;
  size_t bytes_ = 0;  // of bodies_
  bool stopping_ = false;
  std::exception_ptr failed_;
  std::thread thread_;  // last: uses what stands above
};

/// Sends a workload and gathers what comes back. One thread, and one that makes bodies.
class ServerLoad {
 public:
  ServerLoad(const LoadOptions& options, const Workload& workload)
      : options_(options),
        workload_(workload),
        statistics_(options.workload.targets),
        answers_(workload.trace.requests.size()),
        programs_(workload.trace),
        firsts_(that_follow_nobody(workload.trace)),
        bodies_(firsts_.size(), [this](size_t i) { return body(firsts_[i]); }) {}

  workload::Statistics run() {
    client::run_load(
        options_.server,
        {.num_requests = answers_.size(),
         .times_us = workload_.times_us,
         .followers = followers(),
         .users = std::min<int64_t>(workload_.users, std::ssize(answers_)),
         .path = options_.chat ? "/v1/chat/completions" : "/v1/completions",
         .body =
             [this](size_t i) {
               return workload_.trace.requests[i].follows < 0 ? bodies_.next() : body(i);
             },
         .on_send =
             [this](size_t i, int64_t due, int64_t now) {
               answers_[i].arrival_us = due;
               answers_[i].deadline_us = workload_.trace.requests[i].deadline_us;
               answers_[i].tenant = workload_.trace.requests[i].tenant;
               programs_.arrive(i, answers_[i]);
               if (!workload_.times_us.empty()) statistics_.sent_late(now - due);
             },
         .on_text = [this](size_t i, int64_t now) { statistics_.deliver(answers_[i], now, 1); },
         .on_end = [this](size_t i, int64_t now,
                          const client::Ending& ending) { end(i, now, ending); }});
    return std::move(statistics_);
  }
  /// What went wrong first, in all words that there are of it; empty: nothing.
  const std::string& first_failure() const { return first_failure_; }

 private:
  static std::vector<size_t> that_follow_nobody(const workload::Trace& trace) {
    std::vector<size_t> indices;
    for (size_t i = 0; i < trace.requests.size(); ++i)
      if (trace.requests[i].follows < 0) indices.push_back(i);
    return indices;
  }

  std::vector<std::vector<std::pair<size_t, int64_t>>> followers() const {
    if (workload_.times_us.empty()) return {};
    std::vector<std::vector<std::pair<size_t, int64_t>>> followers(answers_.size());
    for (size_t i = 0; i < followers.size(); ++i)
      for (const size_t next : programs_.followers(i))
        followers[i].emplace_back(next, workload_.trace.requests[next].pause_us);
    return followers;
  }

  std::string body(size_t index) const {
    const workload::TraceRequest& asked = workload_.trace.requests[index];
    const uint64_t seed = options_.workload.arrivals.seed;
    json::Object object = {{"model", options_.model},
                           {"max_tokens", asked.output_tokens},
                           {"temperature", 0},
                           {"stream", true},
                           {"stream_options", json::Object{{"include_usage", true}}}};
    if (!options_.end_tokens) object["ignore_eos"] = true;
    // There lower is more urgent.
    if (asked.priority != 0) object["priority"] = -int64_t{asked.priority};
    if (asked.deadline_us > 0) object["deadline_ms"] = ceil_div(asked.deadline_us, 1000);
    if (!asked.program_id.empty()) object["program_id"] = asked.program_id;
    if (asked.program_calls_left >= 0) object["program_calls_left"] = asked.program_calls_left;
    if (options_.token_ids > 0 && asked.text.empty()) {
      const auto ids = workload::make_prompt(workload_.trace, index, options_.token_ids, seed);
      object["prompt"] = json::Array(ids.begin(), ids.end());
      return json::serialize(object);
    }
    const std::string text =
        asked.text.empty() ? workload::make_prompt_text(workload_.trace, index, seed) : asked.text;
    if (options_.chat) {
      object["messages"] = json::Array{json::Object{{"role", "user"}, {"content", text}}};
    } else {
      object["prompt"] = text;
    }
    return json::serialize(object);
  }

  void end(size_t index, int64_t now, const client::Ending& ending) {
    workload::Answer& answer = answers_[index];
    const workload::TraceRequest& asked = workload_.trace.requests[index];
    bar_.show("serve", static_cast<double>(++num_ended_) / static_cast<double>(answers_.size()));
    std::string failure = ending.failure;
    if (failure.empty() && answer.output_tokens == 0) failure = "no text";
    if (failure.empty() && !is_possible(ending, answer, asked)) failure = "its usage cannot be";
    if (!ending.failure.empty()) fail_followers(index, now);
    if (!failure.empty()) {
      if (first_failure_.empty())
        first_failure_ = failure + (ending.detail.empty() ? "" : ": " + ending.detail);
      return statistics_.fail(answer, now, failure);
    }
    if (ending.completion_tokens > 0) answer.output_tokens = ending.completion_tokens;
    answer.prompt_tokens = std::max<int64_t>(ending.prompt_tokens, 0);
    answer.cached_tokens = std::clamp<int64_t>(ending.cached_tokens, 0, answer.prompt_tokens);
    programs_.finish(index, answer);
    statistics_.finish(answer, now);
  }

  /// Each event has at least one token, and no answer more than were asked for and an end token. A
  /// prompt may have any number more than were sent, as a server's template says, but not more than
  /// a trace's may: sums of them stay far from where they end.
  static bool is_possible(const client::Ending& ending, const workload::Answer& answer,
                          const workload::TraceRequest& asked) {
    if (ending.prompt_tokens > workload::TraceLimits{}.tokens) return false;
    return ending.completion_tokens < 0 ||
           (ending.completion_tokens >= answer.output_tokens &&
            ending.completion_tokens <= asked.output_tokens + 1 && ending.prompt_tokens >= 0);
  }

  /// What was to follow a request that failed does not come.
  void fail_followers(size_t index, int64_t now) {
    for (const size_t follower : programs_.all_behind(index)) {
      ++num_ended_;
      answers_[follower].arrival_us = now;
      statistics_.fail(answers_[follower], now, workload::kNotReached);
    }
  }

  const LoadOptions& options_;
  const Workload& workload_;
  ProgressBar bar_;
  workload::Statistics statistics_;
  std::vector<workload::Answer> answers_;  // [requests]
  workload::Programs programs_;
  int64_t num_ended_ = 0;
  std::string first_failure_;
  const std::vector<size_t> firsts_;  // requests that come by themselves
  BodyMaker bodies_;                  // last: uses what stands above
};

int bench_serve(LoadOptions& options) {
  log::set_level(log::Level::warn);
  options.server.url = client::parse_url(options.url);
  options.server.stall_timeout = std::chrono::seconds(options.stall_seconds);
  options.server.request_timeout = std::chrono::seconds(options.request_seconds);
  if (options.chat && options.token_ids > 0)
    fail_param("token_ids",
               "--token-ids is for /v1/completions: a chat has words (leave out --chat)");
  const Workload workload = load_workload(options.workload);
  if (options.model.empty()) options.model = first_model(options.server);

  ServerLoad load(options, workload);
  const workload::Statistics statistics = load.run();
  if (statistics.num_failed() > 0)
    log::warn("{} of {} failed; the first: {}", statistics.num_failed(),
              counted(std::ssize(workload.trace.requests), "request"),
              safe_text(load.first_failure()));
  if (options.workload.json) {
    fmt::print("{}\n", json_text(json::Object{{"workload", to_json(options.workload, workload)},
                                              {"url", options.url},
                                              {"model", options.model},
                                              {"result", statistics.to_json()}}));
  } else {
    fmt::print("{} at {}\n{}\n\n{}", safe_text(options.model), options.url,
               describe(options.workload, workload), statistics.to_text());
  }
  return statistics.num_finished() > 0 ? 0 : 1;
}

}  // namespace

void add_bench_serve(Command bench) {
  const Command command = bench.add(
      "serve", "Load a running server, ours or any with OpenAI's API: latencies and throughput");
  auto options = std::make_shared<LoadOptions>();
  command.option("--url URL", options->url, "Address of the server (default: {})");
  command.option("--model-name NAME", options->model,
                 "Model to ask for (default: the first that /v1/models names)");
  command.option("--api-key KEY", options->server.api_key, "Key that the server wants")
      .or_variable("HASTEN_API_KEY");
  command.flag("--chat", options->chat, "Ask /v1/chat/completions rather than /v1/completions");
  command.option("--token-ids N", options->token_ids, whole_number(1, INT32_MAX),
                 "Prompts of random token ids below N, of exactly the trace's lengths, for servers "
                 "that take ids (default: of short words, about a token each)");
  command.flag("--end-tokens", options->end_tokens,
               "Let answers end by themselves: for servers that refuse ignore_eos");
  command.option("--stall-seconds S", options->stall_seconds, whole_number(1, 86400),
                 "A silent answer is given up after so long (default: {})");
  command.option("--request-seconds S", options->request_seconds, whole_number(1, 86400),
                 "Any answer after so long (default: {})");
  add_workload_flags(command, options->workload);
  command.footer(
      "Each request has its own connection, which its time to first token includes. What fails is\n"
      "counted by kind. Tenants of a trace are told apart here only: to the server all requests\n"
      "are of the one key. The limits of the server's machine are not known here: 'hasten bench\n"
      "replay' on that machine prints them.\n"
      "  hasten bench serve --users 8 --requests 64 --prompt 512 --gen 64\n"
      "  hasten bench serve --trace azure.csv --requests 200 --rate 0.5 --target-ttft-ms 2000");
  command.run([options] { return bench_serve(*options); });
}

}  // namespace hasten::cli
