// SPDX-License-Identifier: Apache-2.0
// The limits of an engine's options, one by one.
#include "engine/core_options.h"

#include <bit>
#include <cstdint>

#include "base/error.h"
#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

constexpr int32_t kMaxBlockSize = 1024;
constexpr int64_t kMaxBatchWaitUs = 60'000'000;  // half of what makes an engine look stalled

}  // namespace

void check_options(const CoreOptions& options) {
  if (options.block_size < 1 || options.block_size > kMaxBlockSize ||
      !std::has_single_bit(static_cast<uint32_t>(options.block_size)))
    fail_param("block_size", "--block-size is {}; it must be a power of two from 1 to {}",
               options.block_size, kMaxBlockSize);
  if (options.step_tokens < 1)
    fail_param("step_tokens", "--step-tokens is {}; it must be at least 1", options.step_tokens);
  if (options.max_batch < 1 || options.max_batch > options.step_tokens)
    fail_param("max_batch", "--max-batch is {}; it must be from 1 to --step-tokens, which is {}",
               options.max_batch, options.step_tokens);
  if (options.max_queue < 0)
    fail_param("max_queue", "--max-queue is {}; it must not be negative", options.max_queue);
  if (options.max_queue_tokens < 0)
    fail_param("max_queue_tokens", "--max-queue-tokens is {}; it must not be negative",
               options.max_queue_tokens);
  if (!(options.tenant_share > 0 && options.tenant_share <= 1))
    fail_param("tenant_share", "--tenant-share is {}; it must be above 0 and at most 1",
               options.tenant_share);
  if (options.target_tbt_us < 0)
    fail_param("target_tbt_us", "--target-tbt-ms is {} us; it must not be negative",
               options.target_tbt_us);
  if (options.preferred_batch < 0 || options.preferred_batch > options.max_batch)
    fail_param("preferred_batch",
               "--preferred-batch is {}; it must be from 0 to --max-batch, which is {}",
               options.preferred_batch, options.max_batch);
  if (options.batch_wait_us < 0 || options.batch_wait_us > kMaxBatchWaitUs)
    fail_param("batch_wait_us", "--batch-wait-ms is {} us; it must be from 0 to {}",
               options.batch_wait_us, kMaxBatchWaitUs);
  if (!(options.held_share >= 0 && options.held_share <= 1))
    fail_param("held_share", "--held-share is {}; it must be from 0 to 1", options.held_share);
  if (!(options.tenant_cache_share >= kMinTenantCacheShare && options.tenant_cache_share <= 1))
    fail_param("tenant_cache_share", "--tenant-cache-share is {}; it must be from {} to 1",
               options.tenant_cache_share, kMinTenantCacheShare);
  if (options.aging_us < 1)
    fail_param("aging_us", "--aging is {} us; it must be at least 1", options.aging_us);
  if (!options.kv_disk.folder.empty() && !options.prefix_cache)
    fail_param(
        "kv_disk",
        "--kv-disk keeps blocks of the prefix cache, which --no-prefix-cache turns off: leave "
        "out one of them");
  if (options.context < 0)
    fail_param("context", "--ctx is {}; it must not be negative", options.context);
}

}  // namespace hasten::engine
