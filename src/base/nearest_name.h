// SPDX-License-Identifier: Apache-2.0
// The name that somebody meant who mistyped it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hasten {

/// The first of `names` among those that take the fewest edits (insertions, deletions,
/// replacements, swaps of neighbours) to make of `word`; empty when each takes so many that it is
/// another word.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace hasten
