// SPDX-License-Identifier: Apache-2.0
// Tokens to a tree.
#pragma once

#include <string_view>

#include "text/jinja/arena.h"
#include "text/jinja/ast.h"

namespace hasten::text::jinja {

/// Parses a template into `arena`, which must outlive the tree, as must `source`. `max_depth`
/// bounds the nesting of statements and expressions. Throws Error{invalid_data} naming the line,
/// Error{resource_exhausted} past a limit.
Block parse(std::string_view source, Arena& arena, int32_t max_depth);

}  // namespace hasten::text::jinja
