// SPDX-License-Identifier: Apache-2.0
// The names that templates may use: filters, tests, methods and global functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace hasten::text::jinja {

/// Each returns null for a name that does not exist.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);
Native find_method(Kind kind, std::string_view name);
Native find_function(std::string_view name);

struct NamedNative {
  std::string_view name;
  Native native;
};
inline Native find_native(std::span<const NamedNative> table, std::string_view name) {
  for (const NamedNative& entry : table) {
    if (entry.name == name) return entry.native;
  }
  return nullptr;
}

/// The parts of the library, one table per file.
extern const std::span<const NamedNative> kTextFilters, kSequenceFilters, kOtherFilters, kTests;
extern const std::span<const NamedNative> kLayoutFilters, kMarkupFilters;
extern const std::span<const NamedNative> kTextMethods, kListMethods, kDictMethods, kFunctions;

/// Assigns arguments to the parameters `names`, as a Python call does; null for those not given.
/// An error names an argument too many, unknown, given twice, or missing among the first
/// `required`.
void bind_arguments(Runtime& rt, const Arguments& arguments,
                    std::span<const std::string_view> names, std::span<const Value*> values,
                    size_t required);

template <size_t N>
std::array<const Value*, N> bind(Runtime& rt, const Arguments& arguments,
                                 const std::string_view (&names)[N], size_t required = 0) {
  std::array<const Value*, N> values{};
  bind_arguments(rt, arguments, names, values, required);
  return values;
}

/// The argument as a number, a truth, a string; the default if it was not given.
int64_t integer_or(Runtime& rt, const Value* argument, int64_t otherwise);
bool boolean_or(const Value* argument, bool otherwise);
/// Undefined gives "", other values are printed; the view lives as long as the render.
std::string_view string_or(Runtime& rt, const Value* argument, std::string_view otherwise);
/// Whether the argument was given and is not none.
inline bool given(const Value* argument) { return argument != nullptr && !argument->is_none(); }

/// dict.update: from mappings or sequences of pairs, then from named arguments.
void update_dict(Runtime& rt, Dict& dict, const Arguments& arguments);

/// str(value).
const Text& text_of(Runtime& rt, const Value& value);

}  // namespace hasten::text::jinja
