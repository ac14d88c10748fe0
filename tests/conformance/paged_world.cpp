// SPDX-License-Identifier: Apache-2.0
// Scattered blocks, poisoned slots, and steps over them.
#include "paged_world.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "candidates.h"
#include "device_data.h"

namespace hasten::conformance {
namespace {

constexpr int64_t kNumLayers = 2;
constexpr int64_t kLayer = 1;  // not the first, so that layer offsets matter

}  // namespace

SequenceData random_sequence(const AttentionSettings& settings, int64_t length, Random& random) {
  // Scores get a standard deviation of about two: neither flat nor a single key's.
  return {.length = length,
          .q = random.normals(length * settings.query_size(), 2.0F),
          .k = random.normals(length * settings.key_size()),
          .v = random.normals(length * settings.key_size())};
}

PagedWorld::PagedWorld(ops::Backend& backend, const AttentionSettings& settings,
                       const std::vector<SequenceData>& sequences, Random random)
    : backend_(backend), settings_(settings), sequences_(sequences) {
  int64_t num_blocks = 3;  // blocks of nobody, full of NaN
  for (const SequenceData& sequence : sequences) {
    num_blocks += ceil_div(sequence.length, settings.block_size);
  }
  const auto order = random.permutation(num_blocks);
  auto next = order.begin();
  for (const SequenceData& sequence : sequences) {
    const auto end = next + ceil_div(sequence.length, settings.block_size);
    blocks_.emplace_back(next, end);
    next = end;
  }
  cache_ = backend.make_kv_cache({.num_layers = kNumLayers,
                                  .num_blocks = num_blocks,
                                  .block_size = settings.block_size,
                                  .num_kv_heads = settings.num_kv_heads,
                                  .head_dim = settings.head_dim,
                                  .types = settings.kv_types});
  poison_cache();
}

void PagedWorld::poison_cache() {
  const int64_t num_slots = cache_->spec().num_blocks * settings_.block_size;
  for (int64_t layer = 0; layer < kNumLayers; ++layer) {
    for (int64_t first = 0; first < num_slots; first += kStepLimits.max_tokens) {
      const int64_t count = std::min(kStepLimits.max_tokens, num_slots - first);
      std::vector<int32_t> slots;
      for (int64_t i = 0; i < count; ++i) slots.push_back(static_cast<int32_t>(first + i));
      const Shape shape{count, settings_.num_kv_heads, settings_.head_dim};
      const std::vector<float> nan(static_cast<size_t>(shape.num_elements()),
                                   std::numeric_limits<float>::quiet_NaN());
      const auto rows = to_device(backend_, nan, shape);
      const ops::PagedBatch batch{
          .query_start = {}, .context_len = {}, .block_tables = {}, .slots = slots};
      backend_.kv_write(
          {.cache = *cache_, .layer = layer, .k = rows.view, .v = rows.view, .batch = batch});
    }
  }
}

PagedWorld::StepArrays PagedWorld::plan(const std::vector<Part>& parts) const {
  StepArrays arrays;
  for (const Part& part : parts) {
    const auto length = static_cast<int64_t>(blocks_[part.sequence].size());
    arrays.block_table_stride = std::max(arrays.block_table_stride, length);
  }
  for (const Part& part : parts) {
    const auto& blocks = blocks_[part.sequence];
    arrays.query_start.push_back(
        static_cast<int32_t>(arrays.query_start.back() + part.end - part.begin));
    arrays.context_len.push_back(static_cast<int32_t>(part.end));
    for (int64_t position = part.begin; position < part.end; ++position) {
      const int64_t block = blocks[position / settings_.block_size];
      arrays.slots.push_back(
          static_cast<int32_t>(block * settings_.block_size + position % settings_.block_size));
    }
    const int64_t first_key =
        settings_.window > 0 ? std::max<int64_t>(0, part.begin - settings_.window + 1) : 0;
    for (int64_t i = 0; i < arrays.block_table_stride; ++i) {
      const bool needed =
          i >= first_key / settings_.block_size && i <= (part.end - 1) / settings_.block_size;
      arrays.block_tables.push_back(needed ? blocks[i] : -1);
    }
  }
  return arrays;
}

void PagedWorld::share(int64_t from, int64_t to, int64_t num_blocks) {
  std::copy_n(blocks_[from].begin(), num_blocks, blocks_[to].begin());
}

void PagedWorld::write(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    for (int64_t begin = part.begin; begin < part.end; begin += kStepLimits.max_tokens) {
      write_part({.sequence = part.sequence,
                  .begin = begin,
                  .end = std::min(part.end, begin + kStepLimits.max_tokens)});
    }
  }
}

void PagedWorld::write_part(const Part& part) {
  const SequenceData& sequence = sequences_[part.sequence];
  const StepArrays arrays = plan({part});
  const ops::PagedBatch batch = arrays.batch();
  const Shape shape{part.end - part.begin, settings_.num_kv_heads, settings_.head_dim};
  const int64_t size = settings_.key_size();
  const std::vector<float> k(sequence.k.begin() + part.begin * size,
                             sequence.k.begin() + part.end * size);
  const std::vector<float> v(sequence.v.begin() + part.begin * size,
                             sequence.v.begin() + part.end * size);
  const auto keys = to_device(backend_, k, shape);
  const auto values = to_device(backend_, v, shape);
  backend_.kv_write(
      {.cache = *cache_, .layer = kLayer, .k = keys.view, .v = values.view, .batch = batch});
}

std::vector<float> PagedWorld::attend(const std::vector<Part>& parts) {
  const StepArrays arrays = plan(parts);
  const ops::PagedBatch batch = arrays.batch();
  const int64_t size = settings_.query_size();
  std::vector<float> queries;
  for (const Part& part : parts) {
    const auto& q = sequences_[part.sequence].q;
    queries.insert(queries.end(), q.begin() + part.begin * size, q.begin() + part.end * size);
  }
  const Shape shape{batch.num_tokens(), settings_.num_heads(), settings_.head_dim};
  const auto q = to_device(backend_, queries, shape);
  GuardedOutput out(backend_, shape);
  backend_.attention({.q = q.view,
                      .cache = *cache_,
                      .layer = kLayer,
                      .batch = batch,
                      .scale = 1.0F / std::sqrt(static_cast<float>(settings_.head_dim)),
                      .soft_cap = settings_.soft_cap,
                      .window = settings_.window,
                      .out = out.view()});
  return out.take();
}

std::vector<float> PagedWorld::step(const std::vector<Part>& parts) {
  write(parts);
  return attend(parts);
}

}  // namespace hasten::conformance
