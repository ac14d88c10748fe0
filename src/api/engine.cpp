// SPDX-License-Identifier: Apache-2.0
// Implements hasten::Engine: opens the model, chooses sizes by arithmetic, and hands over to the
// engine layer.
#include "hasten/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "api/backends.h"
#include "api/content_key.h"
#include "api/model_files.h"
#include "api/option_conflicts.h"
#include "api/tokenizer_impl.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "engine/kv_cache/sizing.h"
#include "models/model.h"
#include "quant/codec.h"
#include "tensor/kv_types.h"
#include "weights/map_ahead.h"

namespace hasten {
namespace {

// A step of 512 tokens is deep in the compute-bound part of the roofline on every CPU measured, and
// short enough (well under a second for 1B weights) that decodes beside it do not stall for long.
constexpr int64_t kStepTokens = 512;
constexpr int32_t kMaxBatch = 32;
constexpr int64_t kKvDiskBytes = int64_t{8} << 30;

ops::KvTypes kv_types(std::string_view names, const models::ModelInfo& info) {
  const DType automatic = info.weight_types.starts_with("f32") ? DType::f32 : DType::bf16;
  const auto [keys, values] = kv_types_from_name(names, automatic);
  return {.keys = keys, .values = values};
}

/// Checks the options that are numbers, so that arithmetic on them cannot go wrong, and those that
/// have no effect beside others.
void check(const EngineOptions& options) {
  constexpr int64_t kMaxContext = int64_t{1} << 24;
  if (options.context < 0 || options.context > kMaxContext) {
    fail_param("context", "context {} is outside [0, {}]", options.context, kMaxContext);
  }
  if (options.threads < 0 || options.threads > 1024) {
    fail_param("threads", "threads {} is outside [0, 1024]", options.threads);
  }
  if (options.kv_cache_bytes < 0) {
    fail_param("kv_cache_bytes", "kv_cache_bytes {} is negative", options.kv_cache_bytes);
  }
  if (options.kv_disk_bytes < 0) {
    fail_param("kv_disk_bytes", "kv_disk_bytes {} is negative", options.kv_disk_bytes);
  }
  if (options.kv_disk_bytes > 0 && options.kv_disk.empty()) {
    fail_param("kv_disk_bytes",
               "--kv-disk-bytes bounds a folder of --kv-disk: add --kv-disk DIR, or leave it out");
  }
  api::check_conflicts(options);
  if (options.max_batch < 0 || options.max_batch > 4096) {
    fail_param("max_batch", "max_batch {} is outside [0, 4096]", options.max_batch);
  }
  constexpr int64_t kMaxStepTokens = int64_t{1} << 20;
  if (options.step_tokens < 0 || options.step_tokens > kMaxStepTokens) {
    fail_param("step_tokens", "step_tokens {} is outside [0, {}]", options.step_tokens,
               kMaxStepTokens);
  }
}

/// Bytes for keys and values: those asked for, or a share of what steps, and blocks on their way to
/// a disk and back, leave of the memory. Error{resource_exhausted} when memory does not hold all.
int64_t kv_cache_bytes(const models::Model& model, const ops::Backend& backend,
                       const engine::CoreOptions& core) {
  const SystemMemory memory = measure_memory();
  const int64_t step = engine::step_bytes(model, core);
  const auto staging = [&](int64_t cache_bytes) {
    return engine::staging_bytes(model, backend, core, cache_bytes);
  };
  const int64_t staged = staging(core.kv_cache_bytes);
  const int64_t left = memory.available_bytes - step - staged;
  if (core.kv_cache_bytes > left && memory.total_bytes > 0) {
    fail(ErrorCode::resource_exhausted,
         "{} of memory are available; steps of {} and {} take {}{}, and {} are asked for keys and "
         "values; lower --step-tokens, --max-batch or --kv-cache",
         size_text(memory.available_bytes), counted(core.step_tokens, "token"),
         counted(core.max_batch, "sequence"), size_text(step),
         staged > 0 ? fmt::format(", blocks for --kv-disk {}", size_text(staged)) : "",
         size_text(core.kv_cache_bytes));
  }
  if (core.kv_cache_bytes > 0) return core.kv_cache_bytes;
  const int64_t most = engine::default_cache_bytes(left, model.info().mapped_bytes);
  return engine::default_cache_bytes(left + staged - staging(most), model.info().mapped_bytes);
}

std::string types_text(const ops::KvTypes& types) {
  const std::string_view keys = hasten::info(types.keys).name;
  const std::string_view values = hasten::info(types.values).name;
  return keys == values ? std::string(keys) : fmt::format("{}/{}", keys, values);
}

/// Those that weights may be made of: some may be tables that are read row by row.
std::vector<Tensor> matrices_of(const weights::Checkpoint& checkpoint) {
  std::vector<Tensor> matrices;
  for (const weights::NamedTensor& entry : checkpoint.tensors()) {
    const Tensor& tensor = entry.tensor;
    if (tensor.shape().rank() == 2 && tensor.num_elements() > 0 && quant::has_codec(tensor.dtype()))
      matrices.push_back(tensor);
  }
  return matrices;
}

/// Says where --kv-cache leaves less context than the model has, and where it is not all used.
void tell_of_cache(const EngineOptions& options, const ModelInfo& info) {
  if (options.kv_cache_bytes == 0) return;
  if (options.context == 0 && info.context < info.train_context)
    log::warn("--kv-cache {} holds a context of {}; the model has one of {}",
              size_text(options.kv_cache_bytes), counted(info.context, "token"),
              info.train_context);
  // Less than a tenth may be what is left beside whole blocks.
  if (options.kv_cache_bytes - info.kv_cache_bytes >
      std::max(options.kv_cache_bytes / 10, info.kv_bytes_per_token * options.block_size))
    log::warn(
        "--kv-cache {}: only {} of it are used, as {} of {}{} need no more; raise --max-batch or "
        "--ctx to use all of it",
        size_text(options.kv_cache_bytes), size_text(info.kv_cache_bytes),
        counted(info.max_batch, "sequence"), counted(info.context, "token"),
        options.prefix_cache ? " and what they leave" : "");
}

}  // namespace

std::vector<NamedChoice> scheduling_policies() { return engine::scheduling_policies(); }
std::vector<NamedChoice> batching_choices() { return engine::batching_choices(); }

std::vector<NamedChoice> length_predictors() { return engine::length_predictors(); }

struct Engine::Impl {
  explicit Impl(const EngineOptions& options);
  Tokenizer read_tokenizer(const EngineOptions& options) const;

  std::unique_ptr<const weights::Checkpoint> checkpoint;
  std::unique_ptr<ops::Backend> backend;
  Tokenizer tokenizer;
  std::unique_ptr<engine::Engine> engine;
  ModelInfo info;
};

/// Keeps one thread busy for long: unless that is all there are, another one has the pages of the
/// weights mapped meanwhile, and memory for them brought in.
Tokenizer Engine::Impl::read_tokenizer(const EngineOptions& options) const {
  std::optional<weights::MapAhead> ahead;
  if (options.threads != 1) {
    ahead.emplace(checkpoint->tensors(), [this](const std::stop_token& stop) {
      backend->expect_weights(matrices_of(*checkpoint), stop);
    });
  }
  return Tokenizer(std::make_unique<Tokenizer::Impl>(
      *checkpoint, api::read_tokenizer_spec(*checkpoint), options.chat_template));
}

Engine::Impl::Impl(const EngineOptions& options)
    : checkpoint((check(options), api::open_model(options.model))),
      backend(api::make_backend(options.devices, options.threads, options.repack)),
      tokenizer(read_tokenizer(options)) {
  tokenizer.impl_->warn_of_doubts();
  const int64_t started_us = monotonic_us();
  models::LoadOptions load{.context = options.context, .progress = {}};
  if (options.progress) {
    load.progress = [&](int64_t done, int64_t total) {
      options.progress("loading weights",
                       total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total));
    };
  }
  auto model = models::load_model(*checkpoint, *backend, load);
  info.weights_us = monotonic_us() - started_us;
  if (options.progress) options.progress("loading weights", 1.0);
  const models::ModelInfo& loaded = model->info();
  const auto& text = tokenizer.impl_->tokenizer;
  const int64_t num_beyond = text->vocab_size() - loaded.vocab_size;
  if (num_beyond > 0 && num_beyond <= api::kMaxTokensWithoutEmbedding) {
    log::warn(
        "the tokenizer has {} tokens and the model embeddings of {}: a request that names a later "
        "one is refused",
        text->vocab_size(), loaded.vocab_size);
  } else if (num_beyond > 0) {
    fail(ErrorCode::invalid_data,
         "the tokenizer of {} has {} tokens and the model only {}; they do not belong together",
         checkpoint->path().string(), text->vocab_size(), loaded.vocab_size);
  }

  engine::CoreOptions core;
  core.context = options.context;
  core.kv_cache_bytes = options.kv_cache_bytes;
  core.kv_types = kv_types(options.kv_type, loaded);
  core.block_size = options.block_size;
  core.max_batch = options.max_batch > 0 ? options.max_batch : kMaxBatch;
  const int64_t whole_prompt = options.context > 0 ? options.context : loaded.max_context;
  core.step_tokens = options.step_tokens > 0   ? options.step_tokens
                     : options.chunked_prefill ? std::max<int64_t>(kStepTokens, core.max_batch)
                                               : std::max<int64_t>(whole_prompt, core.max_batch);
  // The default yields; two numbers that were asked for and do not fit together are an error.
  if (options.max_batch <= 0) {
    core.max_batch = static_cast<int32_t>(std::min<int64_t>(core.max_batch, core.step_tokens));
  }
  core.max_queue = options.max_queue;
  core.max_queue_tokens = options.max_queue_tokens;
  core.tenant_share = options.tenant_share;
  core.target_tbt_us = options.target_tbt_us;
  core.prefix_cache = options.prefix_cache;
  if (!options.kv_disk.empty()) {
    core.kv_disk = {.folder = options.kv_disk,
                    .max_bytes = options.kv_disk_bytes > 0 ? options.kv_disk_bytes : kKvDiskBytes,
                    .model = api::content_key(*checkpoint)};
  }
  core.policy = options.policy;
  core.batching = options.batching;
  core.preferred_batch = options.preferred_batch;
  core.batch_wait_us = options.batch_wait_us.value_or(core.batch_wait_us);
  core.chunked_prefill = options.chunked_prefill;
  core.reserve_context = options.reserve_context;
  core.on_step = options.on_step;
  if (options.pretouch) {
    core.on_pretouch = [&options](double fraction) {
      if (options.progress) options.progress("bringing in memory", fraction);
    };
  }
  core.aging_us = options.aging_us;
  core.held_share = options.held_share;
  core.tenant_cache_share = options.tenant_cache_share;
  core.length_predictor = options.length_predictor;
  core.kv_cache_bytes = kv_cache_bytes(*model, *backend, core);
  engine = std::make_unique<engine::Engine>(std::move(model), *backend, text, core);

  const engine::Capacity& capacity = engine->capacity();
  info.name = api::display_name(*checkpoint);
  info.family = loaded.family;
  info.weight_types = loaded.weight_types;
  info.kv_types = types_text(core.kv_types);
  info.device = backend->name();
  info.chat_template = tokenizer.chat_template().source;
  info.template_capabilities = tokenizer.chat_template().capabilities;
  info.template_error = tokenizer.chat_template().error;
  info.template_refusal = tokenizer.chat_template().refusal;
  info.template_doubt = tokenizer.chat_template().doubt;
  // Rows of the model beyond its tokens are padding.
  info.vocab_size = std::min<int64_t>(text->vocab_size(), loaded.vocab_size);
  info.context = capacity.context;
  info.train_context = loaded.max_context;
  info.num_layers = loaded.num_layers;
  info.num_parameters = loaded.num_parameters;
  info.weight_bytes = loaded.weight_bytes;
  info.mapped_bytes = loaded.mapped_bytes;
  info.kv_cache_bytes = capacity.kv_cache_bytes;
  info.kv_bytes_per_token = capacity.kv_bytes_per_token;
  info.num_kv_blocks = capacity.num_kv_blocks;
  info.bytes_per_token = loaded.bytes_per_token;
  info.ops_per_token = loaded.matmul_ops_per_token;
  info.output_ops_per_token = loaded.output_ops_per_token;
  info.last_layer_ops_per_token = loaded.last_layer_ops_per_token;
  info.attention_ops_per_token_key = loaded.attention_ops_per_token_key;
  info.bos_token = text->bos();
  info.eos_token = text->eos();
  info.max_batch = capacity.max_batch;
  info.step_tokens = capacity.step_tokens;
  tell_of_cache(options, info);
  log::info("loaded {} in {:.1f} s: {}{}, context {}, {} for keys and values in {}", info.name,
            static_cast<double>(monotonic_us() - started_us) * 1e-6, info.weight_types,
            info.mapped_bytes == 0
                ? ""
                : fmt::format(", {} of it used from the file", size_text(info.mapped_bytes)),
            info.context, size_text(info.kv_cache_bytes), info.kv_types);
}

struct Generation::State {
  std::shared_ptr<engine::Ticket> ticket;
};

Generation::Generation(std::shared_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&& other) noexcept {
  if (this != &other) {
    if (state_) state_->ticket->drop();
    state_ = std::move(other.state_);
  }
  return *this;
}
Generation::~Generation() {
  if (state_) state_->ticket->drop();
}
void Generation::cancel() {
  if (state_) state_->ticket->cancel();
}
void Generation::wait() {
  if (state_) state_->ticket->wait();
}
bool Generation::done() const { return !state_ || state_->ticket->done(); }

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() = default;

Generation Engine::submit(Request request, Sink sink) {
  auto ticket = impl_->engine->submit(std::move(request), std::move(sink));
  return Generation(std::make_shared<Generation::State>(Generation::State{std::move(ticket)}));
}

std::string Engine::generate(Request request, Usage* usage) {
  std::string text;
  Chunk last;  // keeps Finish::none when the engine fails
  Generation generation = submit(std::move(request), [&](const Chunk& chunk) {
    if (chunk.choice == 0) text += chunk.text;
    if (chunk.last) last = chunk;
  });
  generation.wait();
  if (last.finish == Finish::cancelled) {
    fail(ErrorCode::unavailable, "the answer was cancelled: the engine is shutting down");
  }
  if (last.finish == Finish::deadline) throw Error(ErrorCode::unavailable, last.error);
  if (last.finish == Finish::error) throw Error(ErrorCode::internal, last.error);
  if (!last.last) fail(ErrorCode::internal, "the engine failed before the answer was complete");
  if (usage != nullptr) *usage = last.usage;
  return text;
}

bool Engine::drain(int64_t timeout_us) { return impl_->engine->drain(timeout_us); }
const ModelInfo& Engine::model() const { return impl_->info; }
Stats Engine::stats() const { return impl_->engine->stats(); }
Health Engine::health() const { return impl_->engine->health(); }

std::vector<int32_t> Engine::tokenize(std::string_view text, bool add_special,
                                      bool parse_special) const {
  return impl_->tokenizer.encode(text, add_special, parse_special);
}
std::string Engine::detokenize(const std::vector<int32_t>& tokens, bool show_special) const {
  return impl_->tokenizer.decode(tokens, show_special);
}
std::string Engine::token_bytes(int32_t token) const { return impl_->tokenizer.token_bytes(token); }
RenderedChat Engine::render_chat(const Chat& chat) const {
  return impl_->tokenizer.render_chat(chat);
}
std::unique_ptr<ChatParser> Engine::chat_parser(const RenderedChat& prompt) const {
  return impl_->tokenizer.chat_parser(prompt);
}

}  // namespace hasten
