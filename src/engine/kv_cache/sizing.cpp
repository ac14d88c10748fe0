// SPDX-License-Identifier: Apache-2.0
// The arithmetic of cache memory: monotone functions and bisection.
#include "engine/kv_cache/sizing.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/error.h"
#include "base/quantity.h"

namespace hasten::engine {
namespace {

constexpr int64_t kTooMuch = std::numeric_limits<int64_t>::max();
// Keys and values take this share of what is free once weights and steps are counted; the rest is
// for the page cache and everything else on the machine.
constexpr double kFreeMemoryShare = 0.6;
// Weights in the file that do not fit are read again and again whatever they are left: then keys
// and values are given this part of the memory.
constexpr int64_t kPartBesideTooMuch = 4;
// Where weights that fit leave nearly nothing, an engine shall start all the same. Of what takes
// most beside its weights, a model without grouped queries of 7B in q4_0 (3.8 GB, 512 KiB a token),
// 0.6 of this part are 140 tokens; and what they push out is less than a fiftieth of the weights.
constexpr int64_t kLeastPart = 32;

/// The largest x in [low, high] with fits(x), given that fits(low) and that fits never turns from
/// false to true.
template <class Fits>
int64_t bisect(int64_t low, int64_t high, Fits fits) {
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Sum over the groups of num_blocks(group) * block_bytes, or kTooMuch.
template <class NumBlocks>
int64_t total_bytes(std::span<const GroupSize> groups, NumBlocks num_blocks) {
  int64_t total = 0;
  for (const GroupSize& group : groups) {
    const auto bytes = checked_mul(num_blocks(group), group.block_bytes);
    const auto sum = bytes ? checked_add(total, *bytes) : std::nullopt;
    if (!sum) return kTooMuch;
    total = *sum;
  }
  return total;
}

}  // namespace

int64_t default_cache_bytes(int64_t left_bytes, int64_t mapped_bytes) {
  const int64_t beside = mapped_bytes >= left_bytes
                             ? left_bytes / kPartBesideTooMuch
                             : std::max(left_bytes - mapped_bytes, left_bytes / kLeastPart);
  const int64_t spare = std::max(beside, int64_t{0});
  return static_cast<int64_t>(static_cast<double>(spare) * kFreeMemoryShare);
}

int64_t peak_blocks(int64_t num_tokens, int64_t window, int64_t step_tokens, int64_t block_size) {
  const int64_t all = ceil_div(num_tokens, block_size);
  if (window == 0) return all;
  // Beside the step's own tokens those stay that the token before them sees. Where they begin
  // inside a block they touch one block more.
  return std::min(all, ceil_div(window + step_tokens, block_size) + 1);
}

CacheSizing size_cache(const SizingInput& input) {
  HASTEN_CHECK(input.block_size > 0 && input.max_context > 0 && input.max_sequences > 0 &&
               input.step_tokens > 0 && input.context >= 0);
  const auto peak = [&](int64_t tokens, const GroupSize& group) {
    return peak_blocks(tokens, group.window, input.step_tokens, input.block_size);
  };
  const auto sequence_bytes = [&](int64_t tokens) {
    return total_bytes(input.groups, [&](const GroupSize& g) { return peak(tokens, g); });
  };
  // A slot, block id * block_size + offset, is an int32_t.
  const int64_t max_blocks = std::numeric_limits<int32_t>::max() / input.block_size;
  const int64_t max_context = std::min(input.max_context, max_blocks * input.block_size);

  const auto fits = [&](int64_t tokens) { return sequence_bytes(tokens) <= input.bytes; };
  const int64_t least = input.context > 0 ? input.context : 1;
  if (least > max_context)
    fail(ErrorCode::invalid_argument,
         "a context of {} tokens is above the limit of {}: lower --ctx", least, max_context);
  const int64_t context = input.context > 0 ? input.context : max_context;
  if (!fits(1))
    fail(ErrorCode::resource_exhausted,
         "the cache has {}, less than one block of keys and values, which is of {} and takes {} (a "
         "--kv-cache without a unit is in bytes); a context of {} takes {}{}; raise --kv-cache",
         size_text(input.bytes), counted(input.block_size, "token"), size_text(sequence_bytes(1)),
         counted(context, "token"), size_text(sequence_bytes(context)),
         input.context > 0 ? "" : ", the model's whole one");
  if (!fits(least))
    fail(ErrorCode::resource_exhausted,
         "keys and values of one sequence of {} take {}, but the cache has {}, enough for "
         "{}: lower --ctx or raise --kv-cache",
         counted(least, "token"), size_text(sequence_bytes(least)), size_text(input.bytes),
         counted(bisect(1, least, fits), "token"));

  CacheSizing sizing;
  sizing.context = input.context > 0 ? input.context : bisect(1, max_context, fits);
  // Every group holds one whole sequence; what is left makes all of them grow alike, because short
  // sequences take as many blocks of each, until max_sequences cannot use more.
  const auto num_blocks = [&](int64_t level, const GroupSize& group) {
    const int64_t one = peak(sizing.context, group);
    const int64_t useful = checked_mul(one, input.max_sequences).value_or(max_blocks);
    return std::clamp(level, one, std::min(useful, max_blocks));
  };
  const auto bytes = [&](int64_t level) {
    return total_bytes(input.groups, [&](const GroupSize& g) { return num_blocks(level, g); });
  };
  const int64_t level =
      bisect(1, max_blocks, [&](int64_t blocks) { return bytes(blocks) <= input.bytes; });
  for (const GroupSize& group : input.groups) sizing.num_blocks.push_back(num_blocks(level, group));
  sizing.bytes = bytes(level);
  return sizing;
}

}  // namespace hasten::engine
