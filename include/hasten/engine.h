// SPDX-License-Identifier: Apache-2.0
// The front door of hasten: load a model, submit requests, receive their answers piece by piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/chat.h"
#include "hasten/error.h"
#include "hasten/request.h"
#include "hasten/step_record.h"
#include "hasten/version.h"

namespace hasten {

struct EngineOptions {
  std::filesystem::path model = {};  // .gguf file, its first shard, or a Hugging Face folder;
                                     // empty: the demonstration model inside the library
  std::filesystem::path chat_template = {};  // a file with a Jinja template that takes the place
                                             // of the model's own ones; empty: none does
  std::string devices = "auto";  // "auto", "cpu", or "reference" (the slow, exact truth)
  int32_t threads = 0;           // CPU workers; 0: one per physical core
  // Weights are copied into the layout of the device's kernels; else they are used from the mapped
  // file: it starts at once and takes less memory, steps are slower, tokens the same.
  bool repack = true;
  int64_t context = 0;  // tokens that one sequence may reach; 0: the model's own, as memory allows
  int64_t kv_cache_bytes = 0;  // for keys and values; 0: by arithmetic from free memory
  // All memory of steps and for keys and values is brought in while loading; else as it is first
  // written to, for whose pages steps then wait.
  bool pretouch = false;
  // How keys and values are kept: f32, f16, bf16, fp8 (e4m3), q8_0 or q4_0; auto: bf16 (f32 for
  // f32 models). "q8_0/q4_0": keys and values apart.
  std::string kv_type = "auto";
  int32_t block_size = 16;    // tokens in a cache block; a power of two
  int64_t step_tokens = 0;    // tokens in a step at most; 0: chosen for the device
  int32_t max_batch = 0;      // sequences in a step at most; 0: chosen for the device
  int64_t target_tbt_us = 0;  // between tokens of an answer, held by shorter chunks; 0: none;
                              // refused without chunked_prefill
  bool prefix_cache = true;   // prompts that begin alike are computed once, for each tenant
  std::filesystem::path kv_disk =
      {};                        // a folder for what the prefix cache has no room for; empty: none
  int64_t kv_disk_bytes = 0;     // that it may take; 0: 8 GiB; refused without kv_disk
  int64_t max_queue = 0;         // requests that may wait; 0: 4 * max_batch, at least 256
  int64_t max_queue_tokens = 0;  // of their prompts and max_tokens together; 0: any number
  double tenant_share = 1;       // (0, 1], of what may wait, for one tenant
  // [0, 1], of the cache, held for programs between their calls. Another one than the default is
  // refused without prefix_cache, and where the policy displaces what runs.
  double held_share = 0.25;
  // [0.01, 1], of the cache: what a tenant has left there beyond it goes before what others have.
  // Another one than the default is refused without prefix_cache.
  double tenant_cache_share = 0.5;
  std::string policy = "fcfs";    // order of the queue, one of scheduling_policies()
  int64_t aging_us = 60'000'000;  // waiting that moves a request up by one class of its policy;
                                  // another one is refused where the policy has no use for it
  std::string length_predictor = "limit";  // how long an answer is taken to become by policies that
                                           // ask, one of length_predictors(); another one is
                                           // refused with policies that do not
  std::string batching = "continuous";     // when requests join those that run, one of
                                           // batching_choices()
  int64_t preferred_batch = 0;  // of dynamic batching: so many requests start at once; 0: as
                                // many as may run; refused with other batching
  std::optional<int64_t> batch_wait_us = {};  // likewise: how long the first waits for others;
                                              // empty: 100 ms
  bool chunked_prefill = true;   // long prompts run in pieces beside the decodes; else each whole
                                 // in one step, which must hold the context
  bool reserve_context = false;  // memory of the whole context is kept for each sequence, as
                                 // before there was paging; to compare with
  std::function<void(std::string_view stage, double fraction)> progress =
      {};  // while loading; may be empty
  std::function<void(const StepRecord&)> on_step =
      {};  // after each step, from the engine's thread; must neither block nor throw
};

/// A value that an option may have, and what it means in one line.
struct NamedChoice {
  std::string name;
  std::string summary;
};

/// What EngineOptions::policy may be, the default first. Any thread.
std::vector<NamedChoice> scheduling_policies();
/// What EngineOptions::length_predictor may be, the default first. Any thread.
std::vector<NamedChoice> length_predictors();
/// Likewise EngineOptions::batching.
std::vector<NamedChoice> batching_choices();

struct ModelInfo {
  std::string name;                   // what clients call it
  std::string family;                 // "llama", "qwen2", …
  std::string weight_types;           // "q4_0 (84 %), q6_k (16 %)"
  std::string kv_types;               // "bf16", or keys and values apart: "q8_0/q4_0"
  std::string device;                 // "cpu (avx512, 2 threads)"
  std::string chat_template;          // source; empty: the model has none
  std::string template_capabilities;  // "system role, tools, tool results, …"
  std::string template_error;         // why it does not parse, as Tokenizer has it; empty: it does
  std::string template_refusal;       // why it renders no plain question, likewise; empty: it does
  std::string template_doubt;         // why it may not do what it is for, likewise; empty: nothing
  int64_t vocab_size = 0;             // token ids that a request may name lie below it
  int64_t context = 0;                // tokens that one sequence may reach here
  int64_t train_context = 0;          // that the model was trained for
  int64_t num_layers = 0;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t mapped_bytes = 0;  // of them, those that steps read from the mapped file
  int64_t kv_cache_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t num_kv_blocks = 0;
  int64_t bytes_per_token = 0;  // read from memory to decode one token alone, keys left out
  int64_t ops_per_token = 0;    // multiplications and additions of the weights
  // The parts of them that only a token whose logits are wanted takes: of the output matrix, and of
  // the last layer but for its keys and values.
  int64_t output_ops_per_token = 0;
  int64_t last_layer_ops_per_token = 0;
  int64_t attention_ops_per_token_key = 0;  // further ones per token and visible key
  int64_t weights_us = 0;  // that loading took from the tokenizer on until the weights were ready
  int32_t bos_token = -1;  // -1: none
  int32_t eos_token = -1;
  int32_t max_batch = 0;
  int64_t step_tokens = 0;
};

/// A snapshot of counters; totals never fall.
struct Stats {
  int64_t running = 0;  // sequences
  int64_t waiting = 0;  // requests
  int64_t kv_blocks_used = 0;
  int64_t kv_blocks_total = 0;
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t preempted_tokens = 0;        // computed ones of the sequences that gave their blocks back
  int64_t resumed_tokens = 0;          // what the cache had of them later, by whomever computed
  int64_t prefix_cache_queries = 0;    // prompt tokens looked for in the cache
  int64_t prefix_cache_hits = 0;       // of them, those that were there
  int64_t kv_disk_queries = 0;         // tokens looked for on disk, as memory had not got them
  int64_t kv_disk_hits = 0;            // of them, those that came from there
  int64_t kv_disk_blocks = 0;          // that are there
  int64_t kv_disk_read_bytes = 0;      // of keys and values
  int64_t kv_disk_written_bytes = 0;   // likewise
  int64_t kv_disk_corrupt_blocks = 0;  // no longer what was written: not used
  int64_t kv_disk_dropped_blocks = 0;  // came faster than they could be written
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t finished_cancelled = 0;
  int64_t finished_deadline = 0;
  int64_t finished_error = 0;
  int64_t rejected = 0;           // refused by submit, of which
  int64_t rejected_requests = 0;  //   because too many requests waited,
  int64_t rejected_tokens = 0;    //   too many tokens,
  int64_t rejected_tenant = 0;    //   or too much of one tenant
};

/// Whether the engine does its work: not ready while work waits and no step has ended for
/// `stalled_us`, or when its thread has failed.
struct Health {
  bool ready = true;
  std::string reason;      // when not ready
  int64_t stalled_us = 0;  // since the last step, while work waits; else 0
};

/// A submitted request. Dropping it cancels the request; the sink is not called after its
/// destructor or `cancel` has returned, except for one last chunk with Finish::cancelled that
/// `cancel` lets through.
class Generation {
 public:
  Generation() = default;
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();
  /// Asks for the end. The request's memory is free before the next step begins. Any thread.
  void cancel();
  /// Waits until the last chunk was delivered. Not from a sink.
  void wait();
  /// No further chunk will come. Without a last one: the engine failed, or the sink threw.
  bool done() const;

 private:
  friend class Engine;
  struct State;
  explicit Generation(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// One loaded model and the thread that runs it. All members are safe from any thread.
class Engine {
 public:
  using Sink = std::function<void(const Chunk&)>;

  /// Loads the model; returns when it can answer. Throws Error.
  explicit Engine(const EngineOptions& options = {});
  ~Engine();  // cancels what still runs
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request. `sink` is called from the engine's thread and must not block. Throws
  /// Error{invalid_argument} with the field's name, Error{resource_exhausted} when the queue is
  /// full, Error{unavailable} after `drain`.
  [[nodiscard]] Generation submit(Request request, Sink sink);
  /// Submits and waits: the answer of choice 0, and what was used. Throws as `submit`, and
  /// Error{unavailable} or Error{internal} when the answer does not come to its end.
  std::string generate(Request request, Usage* usage = nullptr);

  /// No request is accepted from now on; returns when the accepted ones have ended or
  /// `timeout_us` have passed (then those that remain are cancelled). True: all ended by
  /// themselves.
  bool drain(int64_t timeout_us);

  const ModelInfo& model() const;
  Stats stats() const;
  Health health() const;

  /// Token ids of `text`. `parse_special`: special tokens written in it count as such.
  std::vector<int32_t> tokenize(std::string_view text, bool add_special = true,
                                bool parse_special = false) const;
  /// The text of ids; an id outside the vocabulary is an Error{invalid_argument}.
  std::string detokenize(const std::vector<int32_t>& tokens, bool show_special = true) const;
  /// The bytes of one token, which may be part of a character.
  std::string token_bytes(int32_t token) const;

  /// The prompt of a conversation by the model's own template (ChatML when it has none).
  RenderedChat render_chat(const Chat& chat) const;
  /// A parser for one answer to a rendered prompt. Calls are told from content when it offers
  /// tools, and arguments that the model does not type are typed by the tools' schemas.
  std::unique_ptr<ChatParser> chat_parser(const RenderedChat& prompt) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hasten
