// SPDX-License-Identifier: Apache-2.0
// How many cache blocks there shall be, by arithmetic from bytes, before anything is allocated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hasten::engine {

/// A cache group, as far as memory is concerned.
struct GroupSize {
  int64_t block_bytes = 0;  // of one block, all layers of the group, at least 1
  int64_t window = 0;       // tokens that a query can see, itself included; 0: all
};

struct SizingInput {
  std::span<const GroupSize> groups;
  int64_t bytes = 0;          // for all groups at most
  int64_t block_size = 16;    // tokens in a block
  int64_t context = 0;        // tokens one sequence must be able to reach; 0: as many as fit
  int64_t max_context = 0;    // and at most so many
  int64_t max_sequences = 1;  // that run at a time
  int64_t step_tokens = 1;    // that one sequence runs in a step at most
};

struct CacheSizing {
  int64_t context = 0;              // tokens one sequence may reach
  std::vector<int64_t> num_blocks;  // of each group
  int64_t bytes = 0;                // of all groups
};

/// Bytes for keys and values where nobody names them: a share of what all else leaves of the
/// memory, `left_bytes`, pages of files included; `mapped_bytes` of them are to stay, as each step
/// reads them.
int64_t default_cache_bytes(int64_t left_bytes, int64_t mapped_bytes);

/// The most blocks that one sequence of `num_tokens` holds at a time: those of all its tokens, or
/// of the window of the token before a step and of the step's own.
int64_t peak_blocks(int64_t num_tokens, int64_t window, int64_t step_tokens, int64_t block_size);

/// Divides the bytes so that one sequence of the whole context fits in every group and the groups
/// otherwise get the same number of blocks, as many as fit and max_sequences can use.
/// Throws Error{resource_exhausted} when not even one sequence fits, saying what it would take and
/// which option to change; Error{invalid_argument} for a context above max_context.
CacheSizing size_cache(const SizingInput& input);

}  // namespace hasten::engine
