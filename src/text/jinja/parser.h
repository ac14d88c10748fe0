// SPDX-License-Identifier: Apache-2.0
// Tokens to a tree.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/arena.h"
#include "text/jinja/ast.h"
#include "text/jinja/template.h"

namespace hasten::text::jinja {

struct Tree {
  Block block = {};
  std::span<const UnknownName> unknown = {};  // as Template::unknown_names
};

/// Parses a template into `arena`, which must outlive the tree, as must `source`. `max_depth`
/// bounds the nesting of statements and expressions. Throws Error{invalid_data} naming the line,
/// also for filters and tests that there are not and that every render may reach,
/// Error{resource_exhausted} past a limit.
Tree parse(std::string_view source, Arena& arena, int32_t max_depth);

}  // namespace hasten::text::jinja
