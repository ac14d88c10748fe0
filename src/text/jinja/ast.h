// SPDX-License-Identifier: Apache-2.0
// The tree of a parsed template: plain structs in one arena, immutable once parsed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace hasten::text::jinja {

struct Expression;
struct Statement;
using Expressions = std::span<const Expression* const>;
using Block = std::span<const Statement* const>;

struct CallArguments {
  struct Keyword {
    std::string_view name = {};
    const Expression* value;
  };
  Expressions positional = {};
  std::span<const Keyword> named = {};
  const Expression* unpacked = nullptr;        // *expression
  const Expression* unpacked_named = nullptr;  // **expression
};

/// One step of a chain such as `a.b[1](x)|f is t`. Chains are lists, so that their length needs no
/// recursion.
struct Suffix {
  enum class Kind : uint8_t { attribute, item, slice, call, filter, test, test_not };
  Kind kind = Kind::attribute;
  int32_t line = 0;
  std::string_view name = {};                                // of the attribute, filter or test
  Native native = nullptr;                                   // the filter or test; null: unknown
  const Expression* parts[3] = {nullptr, nullptr, nullptr};  // item: key; slice: start, stop, step
  CallArguments arguments = {};
};

struct Operand {
  uint8_t op;  // BinaryOperator, or Comparison
  const Expression* value;
};

struct Expression {
  enum class Kind : uint8_t {
    constant,
    name,
    list,
    tuple,
    dict,
    logical_and,  // items
    logical_or,   // items
    logical_not,  // items[0]
    negate,       // items[0]
    plus,         // items[0]
    conditional,  // items: condition, then, else or null
    arithmetic,   // items[0], then operands from the left
    comparison,   // items[0] op operand and operand op operand …
    suffixed,     // items[0], then suffixes
  };
  Kind kind = Kind::constant;
  int32_t line = 0;
  Value constant = {};
  std::string_view name = {};
  Expressions items = {};  // dict: key, value, key, value, …
  std::span<const Operand> operands = {};
  std::span<const Suffix> suffixes = {};
};

/// Where an assignment goes: a name, a name's attribute (of a namespace), or several of them.
struct Target {
  std::string_view name = {};
  std::string_view attribute = {};
  std::span<const Target> tuple = {};
  bool is_tuple = false;
};

struct Parameter {
  std::string_view name = {};
  const Expression* default_value;  // or null
};

/// A macro, or the body of a call block.
struct Macro {
  std::string_view name = {};
  std::span<const Parameter> parameters = {};
  Block body = {};
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Branch {
  const Expression* condition;  // null: else
  Block body = {};
};

struct Statement {
  enum class Kind : uint8_t {
    data,          // text
    output,        // value
    set,           // target = value
    set_block,     // target = body, through filters
    if_,           // branches
    for_,          // target in value if condition: body, else otherwise
    macro,         // macro
    call,          // value is the call, macro the caller's body
    filter_block,  // body through filters
    with,          // targets[i] = values[i] in body, a scope of its own (also generation, block)
    break_,
    continue_,
  };
  Kind kind = Kind::data;
  bool recursive = false;
  int32_t line = 0;
  std::string_view text = {};
  const Expression* value = nullptr;
  const Expression* condition = nullptr;
  Target target = {};
  std::span<const Suffix> filters = {};
  std::span<const Branch> branches = {};
  std::span<const Target> targets = {};
  Expressions values = {};
  Block body = {};
  Block otherwise = {};
  const Macro* macro = nullptr;
};

}  // namespace hasten::text::jinja
