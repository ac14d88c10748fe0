// SPDX-License-Identifier: Apache-2.0
// The values that templates compute with: 16 bytes each, copied freely, their contents in an arena.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/text_range.h"

namespace hasten::text::jinja {

/// Growing room that the newest string made of it ends in: appending to that string again extends
/// it in place, so that a loop that builds a string does linear work.
struct TextBuffer {
  char* bytes = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  TextRange* ranges = nullptr;
  size_t num_ranges = 0;
  size_t range_capacity = 0;
};

/// An immutable string and its provenance.
struct Text {
  std::string_view bytes = {};
  std::span<const TextRange> literal = {};  // sorted, disjoint: what came from outside
  bool markup = false;           // made by `safe` or `escape`: what is added gets escaped
  TextBuffer* buffer = nullptr;  // that it was built in, or null
};

struct List;
struct Dict;
struct Function;
struct LoopState;

/// Why a value is undefined.
struct Missing {
  std::string_view name = {};
  std::string_view owner = {};  // "dict object", or empty for a variable
};

enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  large,  // an integer from outside above INT64_MAX: exact as it stands, computed with as a real
  real,
  string,
  list,
  tuple,
  generator,  // what lazy filters return: true, and empty once it was walked through
  dict,
  name_space,  // namespace(): a dict whose entries templates may assign
  loop,
  function,
};

struct Value {
  Kind kind = Kind::undefined;
  union {
    const Missing* missing = nullptr;  // or null
    bool boolean;
    int64_t integer;
    uint64_t large;
    double real;
    const Text* text;
    List* list;  // list, tuple, generator
    Dict* dict;  // dict, name_space
    LoopState* loop;
    const Function* function;
  };

  static Value none() {
    Value v = {};
    v.kind = Kind::none;
    return v;
  }
  static Value of(bool b) {
    Value v = {};
    v.kind = Kind::boolean;
    v.boolean = b;
    return v;
  }
  static Value of(int64_t i) {
    Value v = {};
    v.kind = Kind::integer;
    v.integer = i;
    return v;
  }
  /// An integer from outside.
  static Value of(uint64_t u) {
    Value v = {};
    v.kind = u > INT64_MAX ? Kind::large : Kind::integer;
    v.large = u;
    return v;
  }
  static Value of(double d) {
    Value v = {};
    v.kind = Kind::real;
    v.real = d;
    return v;
  }
  static Value of(const Text* t) {
    Value v = {};
    v.kind = Kind::string;
    v.text = t;
    return v;
  }
  static Value of(List* l, Kind kind = Kind::list) {
    Value v = {};
    v.kind = kind;
    v.list = l;
    return v;
  }
  static Value of(Dict* d, Kind kind = Kind::dict) {
    Value v = {};
    v.kind = kind;
    v.dict = d;
    return v;
  }
  static Value of(LoopState* l) {
    Value v = {};
    v.kind = Kind::loop;
    v.loop = l;
    return v;
  }
  static Value of(const Function* f) {
    Value v = {};
    v.kind = Kind::function;
    v.function = f;
    return v;
  }

  bool is_undefined() const { return kind == Kind::undefined; }
  bool is_none() const { return kind == Kind::none; }
  bool is_string() const { return kind == Kind::string; }
  bool is_sequence() const {
    return kind == Kind::list || kind == Kind::tuple || kind == Kind::generator;
  }
  /// An integer in Python's sense, where True is 1, that can be computed with as one.
  bool is_integral() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integral() || kind == Kind::real || kind == Kind::large; }
  int64_t as_integer() const { return kind == Kind::boolean ? boolean : integer; }
  double as_real() const {
    if (kind == Kind::large) return static_cast<double>(large);
    return kind == Kind::real ? real : static_cast<double>(as_integer());
  }
};

struct List {
  Value* items = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  bool is_group = false;  // a pair of groupby, which has names and is no tuple for pprint

  std::span<const Value> view() const { return {items, size}; }
};

/// Entries in order of insertion; looked up one by one, since dicts of templates are small.
struct Dict {
  struct Entry {
    Value key = {};
    Value value = {};
  };
  Entry* entries = nullptr;
  size_t size = 0;
  size_t capacity = 0;

  std::span<Entry> view() const { return {entries, size}; }
};

/// An argument given by name, which may come from outside: **mapping. Arguments live as long as the
/// render.
struct NamedValue {
  Text name = {};
  Value value = {};
};

struct Arguments {
  std::span<const Value> positional = {};
  std::span<const NamedValue> named = {};
};

class Runtime;

/// A filter, test, method or global function written in C++. `self` is the value filtered or
/// tested or whose method it is; for a global function, undefined.
using Native = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

struct Macro;
struct Scope;

/// What can be called: a native with its receiver, or a macro with the scope that it was defined
/// in (and, for the body of a call block, the same).
struct Function {
  std::string_view name = {};
  Native native = nullptr;
  Value self = {};
  const Macro* macro = nullptr;
  Scope* scope = nullptr;
};

/// What Python calls the type of a value ("str", "NoneType"), for error messages.
std::string_view type_name(const Value& value);

}  // namespace hasten::text::jinja
