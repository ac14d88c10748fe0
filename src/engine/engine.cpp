// SPDX-License-Identifier: Apache-2.0
// The engine's thread and the one queue through which everybody else talks to it.
#include "engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/core.h"
#include "engine/scheduler/batcher.h"
#include "engine/scheduler/policy.h"
#include "engine/scheduler/predictor.h"
#include "engine/validate.h"

namespace hasten::engine {
namespace {

// How long the end of an engine may take to write its cache to disk: less than what those who end
// processes wait before they kill them, with time left for running answers.
constexpr int64_t kKeepCacheUs = 10'000'000;

/// A seed for a request that brings none.
uint64_t fresh_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

constexpr int64_t kMinQueue = 256;

AdmissionLimits admission_limits(const CoreOptions& options) {
  const int64_t chosen = std::max<int64_t>(4 * int64_t{options.max_batch}, kMinQueue);
  return {.requests = options.max_queue > 0 ? options.max_queue : chosen,
          .tokens = options.max_queue_tokens,
          .tenant_share = options.tenant_share};
}

/// What a request will have computed at most, but for answers without a limit.
int64_t admitted_tokens(const Request& request, int64_t context) {
  const int64_t num_prompt = std::ssize(request.prompt);
  return num_prompt + request.n * std::min(request.max_tokens, context - num_prompt);
}

/// The names and summaries of a table.
template <class Table>
std::vector<NamedChoice> choices(const Table& table) {
  std::vector<NamedChoice> choices;
  for (const auto* entry : table)
    choices.push_back({std::string(entry->name), std::string(entry->summary)});
  return choices;
}

}  // namespace

std::vector<NamedChoice> scheduling_policies() { return choices(policies()); }

std::vector<NamedChoice> length_predictors() { return choices(predictors()); }

std::vector<NamedChoice> batching_choices() { return choices(batching_modes()); }

Engine::Engine(std::unique_ptr<models::Model> model, ops::Backend& backend,
               std::shared_ptr<const text::Tokenizer> tokenizer, const CoreOptions& options)
    : tokenizer_(std::move(tokenizer)),
      admission_(admission_limits(options)),
      core_(std::make_unique<Core>(std::move(model), backend, tokenizer_, options)),
      model_(&core_->model()),
      capacity_(core_->capacity()),
      vocab_size_(core_->vocab_size()),
      stall_limit_us_(options.stall_limit_us),
      stats_(core_->stats()) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "hasten-engine");
    run();
  });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = cancel_all_ = stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

std::shared_ptr<Ticket> Engine::submit(Request request, Sink sink) {
  auto ticket = std::make_shared<Ticket>(std::move(sink));
  try {
    validate(request, vocab_size_, capacity_.context);
    if (!request.sampling.seed) request.sampling.seed = fresh_seed();
    const std::lock_guard lock(mutex_);
    if (!failure_.empty())
      fail(ErrorCode::unavailable, "the engine has failed and must be restarted: {}", failure_);
    if (draining_) fail(ErrorCode::unavailable, "the engine is shutting down");
    Admission::Place place =
        admission_.enter(request.tenant, admitted_tokens(request, capacity_.context));
    const int64_t now = monotonic_us();
    if (num_open_++ == 0) progress_us_ = now;
    inbox_.push_back({std::move(request), ticket, std::move(place), now});
  } catch (const Error&) {
    const std::lock_guard lock(mutex_);
    ++num_rejected_;
    throw;
  }
  work_.notify_one();
  return ticket;
}

bool Engine::drain(int64_t timeout_us) {
  // A deadline that the clock can count to; a year is for ever.
  constexpr int64_t kYearUs = int64_t{365} * 24 * 3600 * 1'000'000;
  const auto timeout = std::chrono::microseconds(std::clamp<int64_t>(timeout_us, 0, kYearUs));
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto all_ended = [&] { return num_open_ == 0; };
  if (ended_.wait_for(lock, timeout, all_ended)) return true;
  cancel_all_ = true;
  work_.notify_one();
  ended_.wait(lock, all_ended);
  return false;
}

Stats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.waiting = admission_.num_waiting();
  const Refusals refusals = admission_.refusals();
  stats.rejected = num_rejected_;
  stats.rejected_requests = refusals.requests;
  stats.rejected_tokens = refusals.tokens;
  stats.rejected_tenant = refusals.tenant;
  return stats;
}

Health Engine::health() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return {.ready = false, .reason = "the engine has failed: " + failure_};
  if (num_open_ == 0) return {};
  Health health;
  health.stalled_us = std::max<int64_t>(0, monotonic_us() - progress_us_);
  health.ready = health.stalled_us <= stall_limit_us_;
  if (!health.ready)
    health.reason = fmt::format("{} requests are open and no step has ended for {} s", num_open_,
                                health.stalled_us / 1'000'000);
  return health;
}

/// The thread: waits for work, steps, and survives what goes wrong in a step.
void Engine::run() {
  try {
    while (await_work()) {
      try {
        core_->step();
      } catch (const std::exception& error) {
        // Not the fault of one request, or the core would know: a bug, or no memory.
        log::error("a step failed, every open request ends: {}", error.what());
        core_->end_all(Finish::error, error.what());
      }
    }
    core_->keep_cache(kKeepCacheUs);
  } catch (const std::exception& error) {
    log::error("the engine has failed: {}", error.what());
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
    core_->abandon();
    for (const Submission& submission : inbox_)
      if (submission.ticket) submission.ticket->close();  // not yet handed to the core
    inbox_.clear();
    num_open_ = 0;
    ended_.notify_all();
  }
}

/// Publishes the last step, sleeps while there is nothing to do, and takes over what came in.
/// False when the thread shall return; then no request is open.
bool Engine::await_work() {
  std::unique_lock lock(mutex_);
  publish();
  work_.wait(lock, [&] { return core_->num_jobs() > 0 || !inbox_.empty() || stopping_; });
  await_batch(lock);
  for (Submission& submission : inbox_)
    core_->add(std::move(submission.request), std::move(submission.ticket), submission.submit_us,
               std::move(submission.place));
  inbox_.clear();
  stats_ = core_->stats();
  if (!cancel_all_) return true;

  lock.unlock();  // sinks may submit
  core_->end_all(Finish::cancelled, {});
  lock.lock();
  publish();
  return !stopping_;
}

/// Sleeps while a batch waits for more requests, until one comes. One that is cancelled meanwhile
/// ends with the wait.
void Engine::await_batch(std::unique_lock<std::mutex>& lock) {
  if (core_->num_jobs() == 0) return;
  const int64_t wait_us = core_->next_step_us() - monotonic_us();
  if (wait_us <= 0) return;
  work_.wait_for(lock, std::chrono::microseconds(wait_us),
                 [&] { return !inbox_.empty() || cancel_all_; });
}

/// Makes the core's state visible. Under mutex_, with everything in the inbox still open.
void Engine::publish() {
  stats_ = core_->stats();
  progress_us_ = monotonic_us();
  num_open_ = core_->num_jobs() + std::ssize(inbox_);
  if (num_open_ == 0) ended_.notify_all();
}

}  // namespace hasten::engine
