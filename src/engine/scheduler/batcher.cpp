// SPDX-License-Identifier: Apache-2.0
// The table of batching modes, and when a batch starts.
#include "engine/scheduler/batcher.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.h"
#include "engine/scheduler/find_named.h"

namespace hasten::engine {
namespace {

constexpr BatchingMode kContinuous = {
    Batching::continuous, "continuous",
    "requests join and leave in every step; most tokens per second"};
constexpr BatchingMode kStatic = {
    Batching::static_batch, "static",
    "a batch of those that wait, and nobody joins until all of it have ended"};
constexpr BatchingMode kDynamic = {
    Batching::dynamic_batch, "dynamic",
    "likewise, but it waits for --preferred-batch requests or for --batch-wait-ms"};

}  // namespace

std::span<const BatchingMode* const> batching_modes() {
  static constexpr std::array kModes = {&kContinuous, &kStatic, &kDynamic};
  return kModes;
}

Batching find_batching(std::string_view name) {
  return find_named(batching_modes(), name, "batching", "--batching").batching;
}

Batcher::Batcher(const BatcherOptions& options) : options_(options) {
  HASTEN_CHECK(options.batching != Batching::continuous && options.max_size > 0);
  HASTEN_CHECK(options.preferred > 0 && options.preferred <= options.max_size);
}

int64_t Batcher::start_us() const {
  if (held_.empty()) return INT64_MAX;
  if (options_.batching == Batching::static_batch || num_held() >= options_.preferred) return 0;
  const auto first = std::ranges::min(held_, {}, &Sequence::arrival_us);
  return first->arrival_us + options_.wait_us;
}

std::vector<Sequence*> Batcher::next(const Policy& policy, const QueueView& view) {
  if (start_us() > view.now_us) return {};
  const auto place = [&](const Sequence* s) {
    return std::tuple(policy.rank(*s, view), s->request_id, s->choice);
  };
  const auto size = static_cast<std::ptrdiff_t>(std::min(num_held(), options_.max_size));
  std::ranges::partial_sort(held_, held_.begin() + size, {}, place);
  std::vector<Sequence*> batch(held_.begin(), held_.begin() + size);
  held_.erase(held_.begin(), held_.begin() + size);
  return batch;
}

}  // namespace hasten::engine
