// SPDX-License-Identifier: Apache-2.0
// Engine: one loaded model and the thread that answers requests with it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/admission.h"
#include "engine/ticket.h"
#include "hasten/engine.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace hasten::engine {

class Core;

/// A folder on disk for blocks that the cache has no room for.
struct KvDisk {
  std::filesystem::path folder = {};  // empty: none
  int64_t max_bytes = 0;              // that its files may take
  std::string model = {};             // which weights: blocks of others are not touched
  bool always_load = false;           // even where computing is faster
};

/// How a model is served. Sizes are the caller's to choose; the engine holds them to each other.
struct CoreOptions {
  int64_t context = 0;           // tokens one sequence may reach; 0: as the model and memory allow
  int64_t kv_cache_bytes = 0;    // for keys and values at most; as much is allocated as can be used
  ops::KvTypes kv_types = {};    // bf16 both
  int32_t block_size = 16;       // tokens in a cache block; a power of two, at most 1024
  int64_t step_tokens = 512;     // tokens in a step at most
  int32_t max_batch = 32;        // sequences in a step at most; step_tokens at most
  int64_t target_tbt_us = 0;     // between tokens of an answer, to be held; 0: none
  bool prefix_cache = true;      // answers begin with what others left in the cache
  KvDisk kv_disk = {};           // needs the prefix cache
  int64_t max_queue = 0;         // requests that may wait; 0: 4 * max_batch, at least 256
  int64_t max_queue_tokens = 0;  // of their prompts and max_tokens; 0: any number
  double tenant_share = 1;       // (0, 1], of what may wait, for one tenant
  std::string policy = "fcfs";   // order of the queue
  double held_share = 0.25;      // [0, 1], of the cache, for programs that pause
  double tenant_cache_share = 0.5;         // of the cache, before a tenant's own blocks go first
  int64_t aging_us = 60'000'000;           // of waiting, that moves a request up by one class
  std::string length_predictor = "limit";  // what policies know of lengths
  std::string batching = "continuous";     // when requests join those that run
  int64_t preferred_batch = 0;      // of dynamic batching: so many start at once; 0: max_batch
  int64_t batch_wait_us = 100'000;  // likewise: so long the first waits for others
  bool chunked_prefill = true;      // or else prompts run whole, each in one step
  bool reserve_context = false;     // memory of the whole context is kept for each sequence
  // If there, all memory of steps and for keys and values is brought in beforehand; called
  // meanwhile.
  std::function<void(double fraction)> on_pretouch = {};
  std::function<void(const StepRecord&)> on_step = {};  // after each step; may be empty
  int64_t stall_limit_us = 120'000'000;  // a step that takes longer makes `health` not ready
};

/// What CoreOptions::policy may be, the default first.
std::vector<NamedChoice> scheduling_policies();
/// What CoreOptions::length_predictor may be, the default first.
std::vector<NamedChoice> length_predictors();
/// What CoreOptions::batching may be, the default first.
std::vector<NamedChoice> batching_choices();

/// What came of the options by arithmetic.
struct Capacity {
  int64_t context = 0;             // tokens one sequence may reach
  int64_t kv_cache_bytes = 0;      // allocated
  int64_t kv_bytes_per_token = 0;  // of a sequence shorter than any window
  int64_t num_kv_blocks = 0;       // of all cache groups
  int64_t step_tokens = 0;
  int32_t max_batch = 0;
};

/// All members are safe from any thread; everything mutable belongs to the one thread inside.
class Engine {
 public:
  /// Allocates the cache and the activations and starts the thread. `backend` must outlive the
  /// engine. Throws Error{invalid_argument} for an option out of range or an unknown policy,
  /// Error{resource_exhausted} when not even one sequence of `context` fits, each with the numbers
  /// and the option to change; and what DiskTier throws.
  Engine(std::unique_ptr<models::Model> model, ops::Backend& backend,
         std::shared_ptr<const text::Tokenizer> tokenizer, const CoreOptions& options);
  /// Cancels what still runs; every sink that is still wanted gets its last chunk.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request. Throws Error{invalid_argument} naming the field at fault,
  /// Error{resource_exhausted} when the queue or the tenant's share of it is full,
  /// Error{unavailable} after `drain` and when
  /// the thread has failed.
  [[nodiscard]] std::shared_ptr<Ticket> submit(Request request, Sink sink);

  /// No request is accepted from now on; returns when the accepted ones have ended, or
  /// `timeout_us` have passed (then those that remain are cancelled, and have ended on return).
  /// True: all ended by themselves. Not from a sink.
  bool drain(int64_t timeout_us);

  Stats stats() const;
  Health health() const;
  const Capacity& capacity() const { return capacity_; }
  const models::Model& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  struct Submission {
    Request request;
    std::shared_ptr<Ticket> ticket;
    Admission::Place place;
    int64_t submit_us = 0;
  };

  void run();
  bool await_work();
  void await_batch(std::unique_lock<std::mutex>& lock);
  void publish();

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  Admission admission_;               // of which core_ and inbox_ hold places
  const std::unique_ptr<Core> core_;  // for thread_ alone once that runs
  const models::Model* const model_;  // core_ owns it
  const Capacity capacity_;
  const int64_t vocab_size_;
  const int64_t stall_limit_us_;

  mutable std::mutex mutex_;       // guards what follows, thread_ left out
  std::condition_variable work_;   // for thread_: there is something to do
  std::condition_variable ended_;  // for drain: num_open_ has fallen
  std::vector<Submission> inbox_;
  bool draining_ = false;    // nothing more is accepted
  bool cancel_all_ = false;  // what is open shall end
  bool stopping_ = false;    // then thread_ shall return
  int64_t num_open_ = 0;     // requests accepted and not ended, those in the inbox included
  int64_t progress_us_ = 0;  // when the last step ended, or work came after none
  int64_t num_rejected_ = 0;
  Stats stats_;          // of core_, as of the last step
  std::string failure_;  // why thread_ has returned before its time; empty: it has not

  std::thread thread_;
};

}  // namespace hasten::engine
