// SPDX-License-Identifier: Apache-2.0
// The variable `loop` of a for statement.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace hasten::text::jinja {

struct Statement;

struct LoopState {
  std::span<const Value> items = {};
  size_t index = 0;                      // of the current item
  int64_t depth = 0;                     // of recursion, from 0
  Value last_changed = {};               // what loop.changed saw last: a tuple, or undefined
  const Statement* statement = nullptr;  // what loop(items) runs again, where `recursive` says so
  Scope* scope = nullptr;                // around the loop
};

/// loop.name, or nullopt for what loops do not have.
std::optional<Value> loop_attribute(Runtime& rt, LoopState& loop, std::string_view name);

}  // namespace hasten::text::jinja
