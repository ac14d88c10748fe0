// SPDX-License-Identifier: Apache-2.0
// Paged attention: decodes of several sequences, and prefill chunks, by context length.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "hasten_test/errors.h"
#include "limits.h"
#include "ops/reference/reference_backend.h"
#include "random.h"

namespace hasten::bench {
namespace {

constexpr int64_t kBlockSize = 16;
constexpr int64_t kWriteTokens = 256;

/// `num_sequences` sequences of `context` tokens whose last `queries` tokens are in the step.
struct Load {
  Model model;
  int64_t num_sequences = 1;
  int64_t queries = 1;
  int64_t context = 0;
  DType kv_type = DType::bf16;
  int64_t shared = 0;  // leading tokens that all sequences have in common

  /// Keys and values that one call reads.
  int64_t cache_bytes() const {
    const int64_t num_tokens = shared + num_sequences * (context - shared);
    return 2 * row_bytes(kv_type, num_tokens * model.num_kv_heads * model.head_dim);
  }
  int64_t num_tokens() const { return num_sequences * queries; }
  int64_t blocks_per_sequence() const { return (context + kBlockSize - 1) / kBlockSize; }
};

/// The step's arrays and cache on one backend; the same load gives the same numbers everywhere.
class AttentionStep {
 public:
  /// Calls of `run` take the layers in turn; all of them hold the same keys.
  AttentionStep(ops::Backend& backend, const Load& load, int64_t num_layers)
      : backend_(backend), load_(load), num_layers_(num_layers) {
    const int64_t num_blocks = load.num_sequences * load.blocks_per_sequence();
    conformance::Random random(3);
    block_tables_ = random.permutation(num_blocks);
    for (int64_t s = 1; s < load.num_sequences; ++s)
      std::copy_n(block_tables_.begin(), load.shared / kBlockSize,
                  block_tables_.begin() + s * load.blocks_per_sequence());
    cache_ = backend.make_kv_cache({.num_layers = num_layers,
                                    .num_blocks = num_blocks,
                                    .block_size = kBlockSize,
                                    .num_kv_heads = load.model.num_kv_heads,
                                    .head_dim = load.model.head_dim,
                                    .types = {.keys = load.kv_type, .values = load.kv_type}});
    fill_cache(random);

    query_start_ = {0};
    for (int64_t s = 0; s < load.num_sequences; ++s) {
      query_start_.push_back(static_cast<int32_t>((s + 1) * load.queries));
      context_len_.push_back(static_cast<int32_t>(load.context));
    }
    slots_.assign(static_cast<size_t>(load.num_tokens()), 0);  // attention only counts them
    const Shape shape{load.num_tokens(), load.model.num_heads, load.model.head_dim};
    q_ = to_device(backend, random.normals(shape.num_elements()), shape);
    out_ = backend.allocate(DType::f32, shape);
  }

  void run() {
    const ops::PagedBatch batch{.query_start = query_start_,
                                .context_len = context_len_,
                                .block_tables = block_tables_,
                                .block_table_stride = load_.blocks_per_sequence(),
                                .slots = slots_};
    backend_.attention({.q = q_.view,
                        .cache = *cache_,
                        .layer = layer_,
                        .batch = batch,
                        .scale = 1.0F / std::sqrt(static_cast<float>(load_.model.head_dim)),
                        .out = out_.view});
    backend_.synchronize();
    layer_ = (layer_ + 1) % num_layers_;
  }

  std::vector<float> result() { return to_host(backend_, out_.view); }

 private:
  void fill_cache(conformance::Random& random) {
    const auto num_slots = static_cast<int64_t>(block_tables_.size()) * kBlockSize;
    for (int64_t first = 0; first < num_slots; first += kWriteTokens) {
      std::vector<int32_t> slots;
      for (int64_t slot = first; slot < std::min(first + kWriteTokens, num_slots); ++slot) {
        slots.push_back(static_cast<int32_t>(slot));
      }
      const Shape shape{static_cast<int64_t>(slots.size()), load_.model.num_kv_heads,
                        load_.model.head_dim};
      const auto k = to_device(backend_, random.normals(shape.num_elements()), shape);
      const auto v = to_device(backend_, random.normals(shape.num_elements()), shape);
      const ops::PagedBatch batch{
          .query_start = {}, .context_len = {}, .block_tables = {}, .slots = slots};
      for (int64_t layer = 0; layer < num_layers_; ++layer) {
        backend_.kv_write(
            {.cache = *cache_, .layer = layer, .k = k.view, .v = v.view, .batch = batch});
      }
    }
  }

  ops::Backend& backend_;
  Load load_;
  int64_t num_layers_;
  int64_t layer_ = 0;  // of the next call
  std::unique_ptr<ops::KvCache> cache_;
  std::vector<int32_t> query_start_;
  std::vector<int32_t> context_len_;
  std::vector<int32_t> block_tables_;
  std::vector<int32_t> slots_;
  ops::DeviceTensor q_;
  ops::DeviceTensor out_;
};

/// What products of such keys and values in pairs reach: of integers half as many as of bytes.
double rate_of_pairs(const cpu::Ceilings& ceilings, DType kv_type) {
  return kv_type == DType::bf16   ? ceilings.bf16_flops_per_s
         : kv_type == DType::q8_0 ? ceilings.int8_ops_per_s / 2
                                  : 0.0;
}

void attention(benchmark::State& state, const Machine& machine, DType kv_type) {
  const Load load{.model = machine.model,
                  .num_sequences = state.range(0),
                  .queries = state.range(1),
                  .context = state.range(2),
                  .kv_type = kv_type,
                  .shared = state.range(3)};
  AttentionStep step(machine.backend, load,
                     std::max<int64_t>(1, kStreamBytes / load.cache_bytes()));
  const auto reference = ops::make_reference_backend();
  AttentionStep truth(*reference, load, 1);
  step.run();
  truth.run();
  // Queries and weights may be rounded to what the cache holds.
  const double tolerance = kv_type == DType::bf16 ? 2e-2 : 1e-3;
  if (!(testing::norm_error(step.result(), truth.result()) < tolerance)) {
    state.SkipWithError("differs from the reference");
    return;
  }
  // A query at position p sees p + 1 keys; a key costs a dot product and a weighted sum.
  const double keys_per_query =
      static_cast<double>(load.context) - 0.5 * static_cast<double>(load.queries - 1);
  const Work work{.bytes = static_cast<double>(load.cache_bytes()),
                  .operations = static_cast<double>(load.num_tokens()) * keys_per_query *
                                static_cast<double>(load.model.num_heads * load.model.head_dim * 4),
                  .peak = [kv_type](const cpu::Ceilings& ceilings) {
                    return std::max(ceilings.f32_flops_per_s, rate_of_pairs(ceilings, kv_type));
                  }};
  time_calls(state, machine, work, [&] { step.run(); });
}

}  // namespace

void register_attention(const Machine& machine) {
  for (const DType kv_type : {DType::bf16, DType::f8_e4m3, DType::q8_0, DType::q4_0}) {
    auto* const all = benchmark::RegisterBenchmark(
        ("attention/" + std::string(info(kv_type).name)).c_str(),
        [&machine, kv_type](benchmark::State& state) { attention(state, machine, kv_type); });
    all->ArgNames({"sequences", "queries", "context", "shared"})
        ->Args({1, 1, 256, 0})
        ->Args({32, 1, 160, 0})
        ->Args({1, 1, 1024, 0})
        ->Args({1, 1, 8192, 0})
        ->Args({16, 1, 1024, 0})
        ->Args({8, 1, 8192, 0})
        ->Args({8, 1, 8192, 7680})
        ->Args({1, 8, 8192, 0})
        ->Args({1, 256, 256, 0})
        ->Args({1, 512, 512, 0})
        ->Args({1, 256, 2048, 0})
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
    // The reference, which each is checked with, takes seconds for this.
    if (kv_type == DType::bf16) all->Args({1, 256, 8192, 0});
  }
}

}  // namespace hasten::bench
