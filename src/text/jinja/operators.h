// SPDX-License-Identifier: Apache-2.0
// What Python's operators and protocols do with two values: arithmetic, order, items, iteration.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace hasten::text::jinja {

enum class BinaryOperator : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concat,
};

enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

bool truthy(const Value& value);
bool equal(Runtime& rt, const Value& a, const Value& b);
/// a <=> b for what Python can order; an error names the two types otherwise. Not-a-number is
/// unordered.
std::partial_ordering order(Runtime& rt, const Value& a, const Value& b);
bool compare(Runtime& rt, Comparison comparison, const Value& a, const Value& b);
bool contains(Runtime& rt, const Value& container, const Value& item);

Value binary(Runtime& rt, BinaryOperator op, const Value& a, const Value& b);
Value negate(Runtime& rt, const Value& value);
Value plus(Runtime& rt, const Value& value);

/// len(value), or nullopt for what has none. Strings count code points.
std::optional<int64_t> length(Runtime& rt, const Value& value);
/// The items that a loop visits: elements, keys, or characters. Walks a generator to its end. The
/// view lives as long as the render. `use` says for what, in the error.
std::span<const Value> iterate(Runtime& rt, const Value& value);

/// object.name as Jinja resolves it: a method first, then an entry; undefined if there is neither.
Value get_attribute(Runtime& rt, const Value& object, std::string_view name);
/// object[key]: an entry first, then a method.
Value get_item(Runtime& rt, const Value& object, const Value& key);
/// object[start:stop:step]; absent parts are none.
Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
                const Value& step);
/// "user.address.0" and whole numbers, as `map` and `sort` take them. `otherwise`, where given,
/// stands for each part that is undefined.
Value get_path(Runtime& rt, const Value& object, const Value& path,
               const Value* otherwise = nullptr);

/// The string with <>&'" escaped, as markup; markup is left alone.
Value escape(Runtime& rt, const Text& text);

}  // namespace hasten::text::jinja
