// SPDX-License-Identifier: Apache-2.0
// Where the merges of a vocabulary come from: a list, or the order of its tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// The listed merges, "left right" each, the first first. A merge that names a piece which the
/// vocabulary does not have can never apply and is left out. Throws Error{invalid_data} for a line
/// that is no pair.
[[nodiscard]] MergeTable merges_of_list(const std::vector<std::string>& merges,
                                        const Vocabulary& vocabulary);

/// Every way to put an ordinary token together from two symbols, with the rank of that token.
/// ranks: [vocab_size]. `symbol_of(bytes)` is the symbol spelled so, or -1.
[[nodiscard]] MergeTable merges_of_ranks(
    std::span<const int32_t> ranks, const Vocabulary& vocabulary,
    const std::function<int32_t(std::string_view bytes)>& symbol_of);

/// Byte-level vocabularies whose ids are the ranks: two neighbours join if their bytes are an
/// ordinary token, the lowest id first (the rule of tiktoken).
[[nodiscard]] MergeTable merges_of_ids(const Vocabulary& vocabulary);

}  // namespace hasten::text
