// SPDX-License-Identifier: Apache-2.0
// The one of several named things that a user asks for.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"

namespace hasten::engine {

/// The thing of that name. Throws Error{invalid_argument} for the option `param` that lists the
/// known ones; `flag` is that option on a command line.
template <class Thing>
const Thing& find_named(std::span<const Thing* const> things, std::string_view name,
                        std::string_view param, std::string_view flag) {
  std::string known;
  for (const Thing* thing : things) {
    if (thing->name == name) return *thing;
    known += (known.empty() ? "" : ", ") + std::string(thing->name);
  }
  fail_param(std::string(param), "{} {} is unknown; known: {}", flag, printable(name), known);
}

}  // namespace hasten::engine
