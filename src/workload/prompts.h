// SPDX-License-Identifier: Apache-2.0
// Prompts for a trace's lengths: random tokens, equal where the trace says that prompts are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "workload/trace.h"

namespace hasten::workload {

/// Token ids in [0, vocab_size) of request `index`; prompt_tokens must not be 0. Block b of id h is
/// the same wherever it stands, and what no block covers is the request's own. The same seed gives
/// the same ids.
std::vector<int32_t> make_prompt(const Trace& trace, size_t index, int64_t vocab_size,
                                 uint64_t seed);

/// The same as short English words, about one token each, for servers that take no ids.
std::string make_prompt_text(const Trace& trace, size_t index, uint64_t seed);

/// `count` ids in [0, vocab_size) that share no prefix with those of another seed.
std::vector<int32_t> random_tokens(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace hasten::workload
