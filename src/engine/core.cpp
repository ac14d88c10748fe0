// SPDX-License-Identifier: Apache-2.0
// The step of the engine: plan, execute, commit; and how jobs end.
#include "engine/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"
#include "engine/core_options.h"
#include "engine/kv_cache/sizing.h"

namespace hasten::engine {
namespace {

// Blocks for so many times the sequences that may run, when memory allows: the rest is for what
// ended and may be asked again.
constexpr int64_t kCacheFactor = 4;
// Memory for blocks on their way from a disk, and as much for those on their way to it: a share of
// the cache, enough for a prefix of some thousand tokens, and for some blocks of the largest
// models.
constexpr int64_t kStagingShare = 4;
constexpr int64_t kMaxStagingBytes = int64_t{256} << 20;
constexpr int64_t kMinStaged = 64;
// A step that waits for nothing but the disk looks up so often to see who has gone away.
constexpr int64_t kReadWaitUs = 2'000;
// Blocks that are given up at a time when the cache is written to disk.
constexpr int64_t kKeptAtOnce = 16;
// Logits of a scored prompt are worked off in pieces of at most so many rows and bytes: 64 rows are
// 39 MB for a vocabulary of 150 000, and enough to keep a forward pass efficient.
constexpr int64_t kMaxPromptLogits = 64;
constexpr int64_t kMaxPromptLogitBytes = int64_t{256} << 20;

/// Whose prefixes a request may find in the cache: those of its tenant, or of its group, that named
/// the same salt. The length keeps a tenant whose name ends like a salt apart from one that has it.
Hash128 cache_domain(const Request& request, const Hash128& key) {
  const bool grouped = !request.cache_group.empty();
  const std::string& name = grouped ? request.cache_group : request.tenant;
  return siphash(
      fmt::format("{}{}:{}{}", grouped ? "group " : "", name.size(), name, request.cache_salt),
      key);
}

/// Tokens that an answer has at least.
int64_t least_generated(const Request& request, int64_t max_generated) {
  const bool always_to_the_limit =
      request.ignore_eos && request.stop.empty() && request.stop_tokens.empty();
  return always_to_the_limit ? max_generated
                             : std::clamp<int64_t>(request.min_tokens, 1, max_generated);
}

/// What the contents of blocks depend on beside their tokens, as text.
std::string contents_key(const models::Model& model, const ops::Backend& backend,
                         const CoreOptions& options, int64_t context) {
  std::string key =
      fmt::format("hasten {}\n{}\n{}\nblocks of {}, keys {}, values {}, context {}\n", kVersion,
                  options.kv_disk.model, backend.kv_layout(), options.block_size,
                  info(options.kv_types.keys).name, info(options.kv_types.values).name, context);
  for (const models::CacheGroup& group : model.cache_groups())
    key += fmt::format("{} layers, {} heads of {}, window {}\n", group.num_layers,
                       group.num_kv_heads, group.head_dim, group.window);
  return key;
}

/// Memory for blocks on their way from a disk, beside a cache of `cache_bytes` whose blocks, one of
/// each group, take `all_bytes`; and as much for those on their way to it.
int64_t one_way_bytes(int64_t cache_bytes, int64_t all_bytes) {
  return std::max(std::min(cache_bytes / kStagingShare, kMaxStagingBytes), kMinStaged * all_bytes);
}

int64_t sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

/// Bytes of a block of each cache group.
std::vector<int64_t> block_bytes(const models::Model& model, const ops::Backend& backend,
                                 const CoreOptions& options) {
  std::vector<int64_t> bytes;
  for (const models::CacheGroup& group : model.cache_groups())
    bytes.push_back(
        backend.kv_cache_bytes(cache_spec(group, 1, options.block_size, options.kv_types)));
  return bytes;
}

/// The folder of blocks, if one is asked for and the device can use it.
std::unique_ptr<DiskTier> open_disk(const models::Model& model, const ops::Backend& backend,
                                    const CoreOptions& options, const CacheSizing& sizing) {
  const KvDisk& disk = options.kv_disk;
  if (disk.folder.empty()) return nullptr;
  if (backend.kv_layout().empty()) {
    log::warn("--kv-disk is left unused: {} cannot move blocks of keys and values", backend.name());
    return nullptr;
  }
  DiskTierOptions tier = {.folder = disk.folder,
                          .max_bytes = disk.max_bytes,
                          .block_tokens = options.block_size,
                          .block_bytes = block_bytes(model, backend, options),
                          .model = contents_key(model, backend, options, sizing.context),
                          .always_load = disk.always_load};
  tier.staging_bytes = one_way_bytes(sizing.bytes, sum(tier.block_bytes));
  return std::make_unique<DiskTier>(tier);
}

int64_t logit_row_bytes(const models::Model& model) {
  return model.info().vocab_size * static_cast<int64_t>(sizeof(float));
}

int64_t max_prompt_logit_rows(const models::Model& model) {
  return std::clamp<int64_t>(kMaxPromptLogitBytes / logit_row_bytes(model), 1, kMaxPromptLogits);
}

}  // namespace

int64_t step_bytes(const models::Model& model, const CoreOptions& options) {
  const int64_t logit_rows = options.max_batch + max_prompt_logit_rows(model);
  return model.activation_bytes(options.step_tokens, options.max_batch) +
         logit_rows * logit_row_bytes(model);
}

int64_t staging_bytes(const models::Model& model, const ops::Backend& backend,
                      const CoreOptions& options, int64_t cache_bytes) {
  if (options.kv_disk.folder.empty() || backend.kv_layout().empty()) return 0;
  check_options(options);
  return 2 * one_way_bytes(cache_bytes, sum(block_bytes(model, backend, options)));
}

Core::Core(std::unique_ptr<models::Model> model, ops::Backend& backend,
           std::shared_ptr<const text::Tokenizer> tokenizer, const CoreOptions& options)
    : tokenizer_(std::move(tokenizer)), on_step_(options.on_step) {
  check_options(options);
  const Policy& policy = find_policy(options.policy);
  predictor_ = find_predictor(options.length_predictor).make();
  vocab_size_ = std::min<int64_t>(model->info().vocab_size, tokenizer_->vocab_size());
  for (int32_t id = 0; id < static_cast<int32_t>(vocab_size_); ++id)
    if (tokenizer_->is_end_of_generation(id)) eos_tokens_.push_back(id);

  std::vector<GroupSize> sizes;
  for (const models::CacheGroup& group : model->cache_groups()) {
    const auto spec = cache_spec(group, 1, options.block_size, options.kv_types);
    sizes.push_back({.block_bytes = backend.kv_cache_bytes(spec), .window = group.window});
    capacity_.kv_bytes_per_token += sizes.back().block_bytes / options.block_size;
  }
  const CacheSizing sizing =
      size_cache({.groups = sizes,
                  .bytes = options.kv_cache_bytes,
                  .block_size = options.block_size,
                  .context = options.context,
                  .max_context = options.context > 0 ? options.context : model->info().max_context,
                  .max_sequences = options.max_batch * (options.prefix_cache ? kCacheFactor : 1),
                  .step_tokens = options.step_tokens});
  std::vector<GroupBlocks> groups;
  for (size_t g = 0; g < sizes.size(); ++g) {
    groups.push_back({.num_blocks = sizing.num_blocks[g],
                      .window = sizes[g].window,
                      .block_bytes = sizes[g].block_bytes});
    capacity_.num_kv_blocks += sizing.num_blocks[g];
  }
  if (!options.chunked_prefill && options.step_tokens < sizing.context)
    fail_param("step_tokens",
               "--step-tokens is {}; with --no-chunked-prefill it must be at least --ctx, which is "
               "{}, as prompts run whole",
               options.step_tokens, sizing.context);
  capacity_.context = sizing.context;
  capacity_.kv_cache_bytes = sizing.bytes;
  capacity_.step_tokens = options.step_tokens;
  capacity_.max_batch = options.max_batch;

  disk_ = open_disk(*model, backend, options, sizing);
  cache_key_ = disk_ ? disk_->secret() : random_key();
  const int64_t max_prompt_logits = max_prompt_logit_rows(*model);
  scheduler_ = std::make_unique<Scheduler>(
      SchedulerOptions{.block_size = options.block_size,
                       .step_tokens = options.step_tokens,
                       .max_batch = options.max_batch,
                       .max_prompt_logits = max_prompt_logits,
                       .target_step_us = options.target_tbt_us,
                       .prefix_cache = options.prefix_cache,
                       .policy = &policy,
                       .aging_us = options.aging_us,
                       .batching = find_batching(options.batching),
                       .preferred_batch = options.preferred_batch,
                       .batch_wait_us = options.batch_wait_us,
                       .chunked_prefill = options.chunked_prefill,
                       .reserve_tokens = options.reserve_context ? sizing.context : 0,
                       .held_share = options.held_share,
                       .tenant_cache_share = options.tenant_cache_share,
                       .tier = disk_.get()},
      groups);
  sampler_ = std::make_unique<Sampler>(vocab_size_);
  runner_ =
      std::make_unique<Runner>(std::move(model), backend,
                               RunnerLimits{.num_blocks = sizing.num_blocks,
                                            .block_size = options.block_size,
                                            .kv_types = options.kv_types,
                                            .context = sizing.context,
                                            .step_tokens = options.step_tokens,
                                            .max_sequences = options.max_batch,
                                            .max_logits = options.max_batch + max_prompt_logits,
                                            .on_pretouch = options.on_pretouch});
}

void Core::add(Request request, std::shared_ptr<Ticket> ticket, int64_t submit_us,
               Admission::Place place) {
  auto owned =
      std::make_unique<Job>(next_id_++, std::move(request), std::move(ticket), std::move(place));
  Job& job = *owned;
  const Request& asked = job.request;
  job.submit_us = submit_us;
  job.usage.prompt_tokens = std::ssize(asked.prompt);
  job.end_tokens = asked.stop_tokens;
  if (!asked.ignore_eos)
    job.end_tokens.insert(job.end_tokens.end(), eos_tokens_.begin(), eos_tokens_.end());
  const Hash128 domain = cache_domain(asked, cache_key_);
  const int64_t room = capacity_.context - std::ssize(asked.prompt);
  for (int32_t choice = 0; choice < asked.n; ++choice) {
    auto& answer = *job.answers.emplace_back(
        std::make_unique<Answer>(sequences_, *tokenizer_, asked.show_special, job.stop));
    answer.chunk.choice = choice;
    Sequence& sequence = answer.sequence;
    sequence.request_id = job.id;
    sequence.choice = choice;
    sequence.has_siblings = asked.n > 1;
    sequence.priority = asked.priority;
    sequence.tenant = asked.tenant;
    sequence.program = asked.program_id;
    sequence.program_calls_left = asked.program_calls_left;
    sequence.cache_domain = domain;
    sequence.arrival_us = submit_us;
    sequence.prompt = asked.prompt;
    sequence.max_generated = asked.max_tokens > 0 ? std::min(asked.max_tokens, room) : room;
    sequence.min_generated = least_generated(asked, sequence.max_generated);
    sequence.predicted_generated = predictor_->predict(sequence);
    if (asked.deadline_us > 0) sequence.deadline_us = submit_us + asked.deadline_us;
    sequence.scores_prompt = choice == 0 && asked.prompt_logprobs >= 0;
  }
  ++num_waiting_;
  jobs_.emplace(job.id, std::move(owned));
  if (scheduler_->is_hopeless_behind_queue(job.answers.front()->sequence, submit_us)) {
    refused_.push_back(job.id);
    return;
  }
  for (const auto& answer : job.answers) scheduler_->add(answer->sequence);
}

bool Core::step() {
  end_cancelled();
  const int64_t now = monotonic_us();
  end_hopeless(now);
  const StepPlan& plan = scheduler_->plan(now);
  move_blocks(plan);
  if (plan.empty()) {
    if (scheduler_->next_step_us() > now) return false;
    disk_->await_read(kReadWaitUs);
    return true;
  }
  execute(plan);
  // A step whose blocks could not be moved ran nothing, and tells nothing of what steps take.
  commit(plan, move_error_.empty() ? std::max<int64_t>(1, monotonic_us() - now) : 0);
  if (on_step_) {
    StepRecord step = describe(plan);
    step.duration_us = monotonic_us() - now;
    on_step_(step);
  }
  return true;
}

void Core::end_cancelled() {
  for (const auto& [id, job] : jobs_)
    if (job->ticket->cancelled()) end(*job, Finish::cancelled, {});
  sweep();
}

/// Ends jobs that nobody would want any more when they could end.
void Core::end_hopeless(int64_t now) {
  for (const Sequence* const sequence : scheduler_->hopeless(now))
    if (jobs_.at(sequence->request_id)->start_us < 0)  // or else a sibling has begun
      refused_.push_back(sequence->request_id);
  if (refused_.empty()) return;
  for (const int64_t id : refused_)
    if (const auto found = jobs_.find(id); found != jobs_.end())
      end_for_deadline(*found->second, now);
  refused_.clear();
  sweep();
}

void Core::end_for_deadline(Job& job, int64_t now) {
  const int64_t others = num_waiting_ - (job.start_us < 0 ? 1 : 0);
  end(job, Finish::deadline,
      fmt::format("The answer would come after its deadline of {} ms: {} ms of it have passed, and "
                  "{} {}; ask again later or with more time.",
                  job.request.deadline_us / 1000, (now - job.submit_us) / 1000,
                  counted(others, "other request"), others == 1 ? "waits" : "wait"));
}

/// Brings blocks to where the plan wants them. What goes wrong becomes move_error_.
void Core::move_blocks(const StepPlan& plan) {
  move_error_.clear();
  try {
    if (!plan.saves.empty() || !plan.loads.empty()) runner_->move_blocks(plan);
  } catch (const std::exception& error) {
    move_error_ = error.what();
  }
  scheduler_->end_moves(move_error_.empty());
}

/// Runs the plan and draws tokens into result_. Changes nothing of a job but when it started.
void Core::execute(const StepPlan& plan) {
  for (const PlannedSequence& planned : plan.sequences) {
    Job& job = *jobs_.at(planned.sequence->request_id);
    if (job.start_us >= 0) continue;
    job.start_us = monotonic_us();
    job.place = {};
    totals_.prompt_tokens += job.usage.prompt_tokens;
    --num_waiting_;
  }

  const auto num_sequences = plan.sequences.size();
  result_.sequences.assign(num_sequences, {});
  const auto row = static_cast<size_t>(model().info().vocab_size);
  if (!move_error_.empty()) {
    for (SequenceResult& result : result_.sequences) result.error = move_error_;
    return;
  }
  try {
    std::span<float> logits = runner_->run(plan);
    auto scans = runner_->scan(logits, vocab_size_);
    for (size_t i = 0; i < num_sequences; ++i) {
      const auto num_logits = static_cast<size_t>(plan.sequences[i].num_logits);
      read_logits(plan.sequences[i], logits.first(num_logits * row), scans.first(num_logits),
                  result_.sequences[i]);
      logits = logits.subspan(num_logits * row);
      scans = scans.subspan(num_logits);
    }
  } catch (const std::exception& error) {
    log::warn("a step of {} sequences failed, each is run alone: {}", num_sequences, error.what());
    for (size_t i = 0; i < num_sequences; ++i) {
      SequenceResult& result = result_.sequences[i];
      try {
        result = {};
        const std::span<float> logits = runner_->run_alone(plan, i);
        read_logits(plan.sequences[i], logits, runner_->scan(logits, vocab_size_), result);
      } catch (const std::exception& guilty) {
        result.error = guilty.what();
      }
    }
  }
}

/// Turns the rows of one sequence into log probabilities of its prompt and its next token. What is
/// wrong with them becomes result.error.
void Core::read_logits(const PlannedSequence& planned, std::span<float> logits,
                       std::span<const ops::RowScan> scans, SequenceResult& result) {
  const Sequence& sequence = *planned.sequence;
  const Job& job = *jobs_.at(sequence.request_id);
  const auto stride = static_cast<size_t>(model().info().vocab_size);
  const auto row = [&](int64_t index) {  // rows may be padded beyond the vocabulary
    return logits.subspan(static_cast<size_t>(index) * stride, static_cast<size_t>(vocab_size_));
  };
  try {
    const int64_t num_scored = planned.num_logits - (planned.samples ? 1 : 0);
    const int64_t first = planned.end() - planned.num_logits;
    for (int64_t i = 0; i < num_scored; ++i)
      result.prompt_logprobs.push_back(sampler_->score(row(i), scans[static_cast<size_t>(i)],
                                                       sequence.token(first + i + 1),
                                                       job.request.prompt_logprobs));
    if (!planned.samples) return;
    const bool may_end = std::ssize(sequence.generated) >= job.request.min_tokens;
    Sample sample = sampler_->sample(
        {.logits = row(num_scored),
         .scan = scans[static_cast<size_t>(num_scored)],
         .sampling = job.request.sampling,
         .seed = job.request.sampling.seed.value(),
         .choice = sequence.choice,
         .prompt = sequence.prompt,
         .generated = sequence.generated,
         .banned = may_end ? std::span<const int32_t>() : std::span(job.end_tokens),
         .num_top_logprobs = job.request.logprobs});
    result.token = sample.token;
    result.logprob = std::move(sample.logprob);
  } catch (const Error& error) {
    result.error = error.what();
  }
}

/// Makes the results of a step that took `step_us` part of the jobs, then lets the sinks see them.
void Core::commit(const StepPlan& plan, int64_t step_us) {
  const int64_t now = monotonic_us();
  scheduler_->advance(step_us);
  ++totals_.steps;
  totals_.preemptions += plan.num_preemptions;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const Sequence& sequence = *plan.sequences[i].sequence;
    Job& job = *jobs_.at(sequence.request_id);
    append(job, *job.answers[static_cast<size_t>(sequence.choice)], result_.sequences[i], now);
  }
  for (const PlannedSequence& planned : plan.sequences) {
    Job& job = *jobs_.at(planned.sequence->request_id);
    if (!job.error.empty())
      end(job, Finish::error, job.error);
    else
      publish(job, *job.answers[static_cast<size_t>(planned.sequence->choice)], now);
  }
  sweep();
}

/// Adds what a step brought to an answer and its chunk.
void Core::append(Job& job, Answer& answer, SequenceResult& result, int64_t now) {
  if (!result.error.empty()) {
    if (job.error.empty()) job.error = std::move(result.error);
    return;
  }
  Chunk& chunk = answer.chunk;
  std::ranges::move(result.prompt_logprobs, std::back_inserter(chunk.prompt_logprobs));
  if (result.token < 0) return;

  Sequence& sequence = answer.sequence;
  sequence.generated.push_back(result.token);
  chunk.tokens.push_back(result.token);
  if (job.request.logprobs >= 0) chunk.logprobs.push_back(std::move(result.logprob));
  if (job.first_token_us < 0) job.first_token_us = now;
  ++job.usage.completion_tokens;
  ++totals_.generated_tokens;

  const auto num_generated = std::ssize(sequence.generated);
  if (std::ranges::find(job.end_tokens, result.token) != job.end_tokens.end()) {
    chunk.finish = Finish::stop;
  } else {
    if (answer.text.append(result.token, num_generated >= job.request.min_tokens, chunk)) {
      chunk.finish = Finish::stop;
      return;  // what comes after it is no part of the answer
    }
    if (num_generated == sequence.max_generated) chunk.finish = Finish::length;
  }
  if (chunk.finish != Finish::none) answer.text.finish(chunk);
}

/// Delivers what a step added to an answer, if anything.
void Core::publish(Job& job, Answer& answer, int64_t now) {
  Chunk& chunk = answer.chunk;
  if (job.ended || chunk.tokens.empty()) return;
  if (chunk.finish != Finish::none) {
    answer.finished = true;
    scheduler_->finish(answer.sequence);
    predictor_->learn(answer.sequence);
    chunk.last = ++job.num_finished == std::ssize(job.answers);
  }
  chunk.usage = usage(job, now);
  deliver(job, chunk);
  chunk = Chunk();
  chunk.choice = answer.sequence.choice;
}

Usage Core::usage(const Job& job, int64_t now) const {
  Usage usage = job.usage;
  usage.cached_tokens = std::max<int64_t>(0, job.answers.front()->sequence.num_cached);
  const int64_t start = job.start_us < 0 ? now : job.start_us;
  const int64_t first_token = job.first_token_us < 0 ? now : job.first_token_us;
  usage.queue_us = start - job.submit_us;
  usage.prefill_us = first_token - start;
  usage.decode_us = now - first_token;
  return usage;
}

/// Ends a job that has not ended yet, whatever its answers are at.
void Core::end(Job& job, Finish finish, std::string_view error) {
  if (job.ended) return;
  Chunk chunk;
  chunk.choice = (*std::ranges::find(job.answers, false, &Answer::finished))->sequence.choice;
  chunk.finish = finish;
  chunk.error = error;
  chunk.last = true;
  chunk.usage = usage(job, monotonic_us());
  deliver(job, chunk);
}

/// Hands a chunk to the submitter. After the last one, or when the sink throws, the job is over.
void Core::deliver(Job& job, const Chunk& chunk) {
  bool delivered = false;
  try {
    job.ticket->deliver(chunk);
    delivered = true;
  } catch (const std::exception& error) {
    log::warn("the sink of request {} threw, the request ends: {}", job.id, error.what());
  } catch (...) {
    log::warn("the sink of request {} threw, the request ends", job.id);
  }
  if (!delivered) {
    job.ticket->close();
    retire(job, Finish::error);
  } else if (chunk.last) {
    retire(job, chunk.finish);
  }
}

/// Frees what a job holds of the engine.
void Core::retire(Job& job, Finish finish) {
  job.ended = true;
  for (const auto& answer : job.answers) scheduler_->remove(answer->sequence);
  if (job.start_us < 0) --num_waiting_;
  job.place = {};
  switch (finish) {
    case Finish::stop:
      ++totals_.finished_stop;
      break;
    case Finish::length:
      ++totals_.finished_length;
      break;
    case Finish::cancelled:
      ++totals_.finished_cancelled;
      break;
    case Finish::deadline:
      ++totals_.finished_deadline;
      break;
    default:
      ++totals_.finished_error;
  }
}

/// Forgets the jobs that are over.
void Core::sweep() {
  std::erase_if(jobs_, [](const auto& entry) { return entry.second->ended; });
}

void Core::end_all(Finish finish, std::string_view error) {
  for (const auto& [id, job] : jobs_) end(*job, finish, error);
  sweep();
}

void Core::abandon() { jobs_.clear(); }

void Core::keep_cache(int64_t timeout_us) {
  if (!disk_) return;
  if (!disk_->is_there()) {
    log::warn("{} was deleted, or a file in it: nothing is written there at the end",
              disk_->folder().string());
    return;
  }
  const int64_t end_us = monotonic_us() + timeout_us;
  const auto written = [&] { return disk_->stats().written_bytes; };
  const int64_t before = written();
  bool more = true;
  // The newest first, and no more than there is room for, or they would be written over again.
  disk_->expect_newest_first();
  int64_t room = disk_->num_slots();
  while (room > 0 && monotonic_us() < end_us &&
         (more = scheduler_->evict_newest(std::min(kKeptAtOnce, room)))) {
    room -= std::min(kKeptAtOnce, room);
    move_blocks(scheduler_->plan(monotonic_us()));
    disk_->await_writes(std::max<int64_t>(0, end_us - monotonic_us()));
  }
  log::info("wrote {} of keys and values to disk at the end{}; {} are kept there",
            size_text(written() - before),
            more && room > 0
                ? fmt::format(", all that {} s were enough for", timeout_us / 1'000'000)
                : "",
            size_text(disk_->stats().kept_bytes));
}

Stats Core::stats() const {
  Stats stats = totals_;
  stats.running = scheduler_->num_running();
  stats.waiting = num_waiting_;
  stats.kv_blocks_total = scheduler_->num_blocks();
  const PrefixStats prefix = scheduler_->prefix_stats();
  stats.prefix_cache_queries = prefix.num_queried;
  stats.prefix_cache_hits = prefix.num_hits;
  stats.preempted_tokens = prefix.num_preempted;
  stats.resumed_tokens = prefix.num_resumed;
  if (disk_) {
    const TierStats disk = disk_->stats();
    stats.kv_disk_queries = prefix.num_loaded + prefix.num_computed;
    stats.kv_disk_hits = prefix.num_loaded;
    stats.kv_disk_blocks = disk.num_blocks;
    stats.kv_disk_read_bytes = disk.read_bytes;
    stats.kv_disk_written_bytes = disk.written_bytes;
    stats.kv_disk_corrupt_blocks = disk.num_corrupt;
    stats.kv_disk_dropped_blocks = disk.num_dropped;
  }
  stats.kv_blocks_used = stats.kv_blocks_total - scheduler_->num_free_blocks();
  return stats;
}

}  // namespace hasten::engine
