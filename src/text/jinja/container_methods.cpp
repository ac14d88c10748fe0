// SPDX-License-Identifier: Apache-2.0
// The methods of lists and dicts. Those that change their object do so for this render only: each
// render makes its values anew.
#include <algorithm>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

List& mutable_list(Runtime& rt, Self self, std::string_view method) {
  if (self.kind != Kind::list) rt.error("'tuple' object has no attribute '{}'", method);
  return *self.list;
}

Value append(Runtime& rt, Self self, Given arguments) {
  const auto [item] = bind(rt, arguments, {"object"}, 1);
  rt.append(mutable_list(rt, self, "append"), *item);
  return Value::none();
}

Value extend(Runtime& rt, Self self, Given arguments) {
  const auto [items] = bind(rt, arguments, {"iterable"}, 1);
  List& list = mutable_list(rt, self, "extend");
  for (const Value& item : iterate(rt, *items)) {
    rt.step();
    rt.append(list, item);
  }
  return Value::none();
}

Value insert(Runtime& rt, Self self, Given arguments) {
  const auto [index, item] = bind(rt, arguments, {"index", "object"}, 2);
  List& list = mutable_list(rt, self, "insert");
  const auto size = static_cast<int64_t>(list.size);
  int64_t at = integer_or(rt, index, 0);
  if (at < 0) at += size;
  at = std::clamp<int64_t>(at, 0, size);
  rt.step(list.size * sizeof(Value));
  rt.append(list, *item);
  std::rotate(list.items + at, list.items + size, list.items + size + 1);
  return Value::none();
}

Value pop(Runtime& rt, Self self, Given arguments) {
  const auto [index] = bind(rt, arguments, {"index"});
  List& list = mutable_list(rt, self, "pop");
  const auto size = static_cast<int64_t>(list.size);
  int64_t at = integer_or(rt, index, -1);
  if (at < 0) at += size;
  if (at < 0 || at >= size) rt.error("pop index out of range");
  rt.step(list.size * sizeof(Value));
  const Value item = list.items[at];
  std::copy(list.items + at + 1, list.items + size, list.items + at);
  --list.size;
  return item;
}

Value clear(Runtime& rt, Self self, Given) {
  mutable_list(rt, self, "clear").size = 0;
  return Value::none();
}

Value reverse_list(Runtime& rt, Self self, Given) {
  List& list = mutable_list(rt, self, "reverse");
  rt.step(list.size * sizeof(Value));
  std::reverse(list.items, list.items + list.size);
  return Value::none();
}

Value copy_list(Runtime& rt, Self self, Given) { return rt.list(self.list->view(), self.kind); }

Value count(Runtime& rt, Self self, Given arguments) {
  const auto [item] = bind(rt, arguments, {"value"}, 1);
  int64_t found = 0;
  for (const Value& element : self.list->view()) found += equal(rt, element, *item);
  return Value::of(found);
}

Value index(Runtime& rt, Self self, Given arguments) {
  const auto [item] = bind(rt, arguments, {"value"}, 1);
  for (size_t i = 0; i < self.list->size; ++i) {
    if (equal(rt, self.list->items[i], *item)) return Value::of(static_cast<int64_t>(i));
  }
  rt.error("the value is not in the list");
}

Value get(Runtime& rt, Self self, Given arguments) {
  const auto [key, otherwise] = bind(rt, arguments, {"key", "default"}, 1);
  const Value* found = rt.find(*self.dict, *key);
  if (found != nullptr) return *found;
  return otherwise != nullptr ? *otherwise : Value::none();
}

Value items(Runtime& rt, Self self, Given) {
  const Value result = rt.list({});
  for (const Dict::Entry& entry : self.dict->view()) {
    rt.step();
    const Value pair[] = {entry.key, entry.value};
    rt.append(*result.list, rt.list(pair, Kind::tuple));
  }
  return result;
}

Value keys(Runtime& rt, Self self, Given) { return rt.list(iterate(rt, self)); }

Value values(Runtime& rt, Self self, Given) {
  const Value result = rt.list({});
  rt.step(self.dict->size * sizeof(Value));
  for (const Dict::Entry& entry : self.dict->view()) rt.append(*result.list, entry.value);
  return result;
}

Value update(Runtime& rt, Self self, Given arguments) {
  update_dict(rt, *self.dict, arguments);
  return Value::none();
}

Value set_default(Runtime& rt, Self self, Given arguments) {
  const auto [key, otherwise] = bind(rt, arguments, {"key", "default"}, 1);
  if (const Value* found = rt.find(*self.dict, *key)) return *found;
  const Value value = otherwise != nullptr ? *otherwise : Value::none();
  rt.set(*self.dict, *key, value);
  return value;
}

Value pop_entry(Runtime& rt, Self self, Given arguments) {
  const auto [key, otherwise] = bind(rt, arguments, {"key", "default"}, 1);
  Dict& dict = *self.dict;
  const Value* found = rt.find(dict, *key);
  if (found == nullptr) {
    if (otherwise == nullptr) rt.error("KeyError: the key to pop is not in the dict");
    return *otherwise;
  }
  const Value value = *found;
  Dict::Entry* entry = std::find_if(dict.entries, dict.entries + dict.size,
                                    [&](const auto& e) { return &e.value == found; });
  std::copy(entry + 1, dict.entries + dict.size, entry);
  --dict.size;
  return value;
}

Value clear_dict(Runtime&, Self self, Given) {
  self.dict->size = 0;
  return Value::none();
}

Value copy_dict(Runtime& rt, Self self, Given) {
  const Value result = rt.dict();
  const Value source[] = {self};
  update_dict(rt, *result.dict, {.positional = source, .named = {}});
  return result;
}

constexpr NamedNative kListTable[] = {
    {"append", append}, {"clear", clear},   {"copy", copy_list},
    {"count", count},   {"extend", extend}, {"index", index},
    {"insert", insert}, {"pop", pop},       {"reverse", reverse_list},
};

constexpr NamedNative kDictTable[] = {
    {"clear", clear_dict},
    {"copy", copy_dict},
    {"get", get},
    {"items", items},
    {"keys", keys},
    {"pop", pop_entry},
    {"setdefault", set_default},
    {"update", update},
    {"values", values},
};

}  // namespace

void update_dict(Runtime& rt, Dict& dict, const Arguments& arguments) {
  for (const Value& source : arguments.positional) {
    if (source.kind == Kind::dict) {
      for (const Dict::Entry& entry : source.dict->view()) rt.set(dict, entry.key, entry.value);
      continue;
    }
    for (const Value& item : iterate(rt, source)) {
      const auto pair = iterate(rt, item);
      if (pair.size() != 2) rt.error("a dict is made of pairs");
      rt.set(dict, pair[0], pair[1]);
    }
  }
  for (const NamedValue& named : arguments.named) rt.set(dict, Value::of(&named.name), named.value);
}

const std::span<const NamedNative> kListMethods = kListTable;
const std::span<const NamedNative> kDictMethods = kDictTable;

}  // namespace hasten::text::jinja
