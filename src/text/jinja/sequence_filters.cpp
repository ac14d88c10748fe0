// SPDX-License-Identifier: Apache-2.0
// The filters of sequences and mappings. Those that Python evaluates lazily return a generator.
#include <algorithm>
#include <utility>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

Value generator(const Value& list) { return Value::of(list.list, Kind::generator); }

/// The value at a path, or the default where it is undefined.
Value attribute_of(Runtime& rt, const Value& item, const Value* path, const Value* otherwise) {
  if (!given(path)) return item;
  return get_path(rt, item, *path, otherwise);
}

/// What sorting compares: strings in lower case, unless case matters.
Value sort_key(Runtime& rt, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return change_case(rt, *value.text, Case::lower);
}

struct Keyed {
  Value key;
  Value item;
};

/// Sorts by key; equal keys keep their order, and need none ("sort" of several None).
void sort_keyed(Runtime& rt, std::span<Keyed> items, bool reverse) {
  const Runtime::Lease lease(rt, items.size_bytes());  // std::stable_sort's buffer
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    if (equal(rt, a.key, b.key)) return false;
    return reverse ? order(rt, b.key, a.key) < 0 : order(rt, a.key, b.key) < 0;
  });
}

std::span<Keyed> keyed(Runtime& rt, const Value& sequence, const Value* path,
                       const Value* otherwise, bool case_sensitive) {
  const auto items = iterate(rt, sequence);
  const std::span<Keyed> result = rt.arena().array<Keyed>(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Value key = attribute_of(rt, items[i], path, otherwise);
    result[i] = {sort_key(rt, key, case_sensitive), items[i]};
  }
  return result;
}

Value length_filter(Runtime& rt, Self self, Given) {
  const auto result = length(rt, self);
  if (!result) rt.error("object of type '{}' has no len()", type_name(self));
  return Value::of(*result);
}

Value first(Runtime& rt, Self self, Given) {
  const auto items = iterate(rt, self);
  return items.empty() ? rt.missing("first item", "sequence") : items.front();
}

Value last(Runtime& rt, Self self, Given) {
  const auto items = iterate(rt, self);
  return items.empty() ? rt.missing("last item", "sequence") : items.back();
}

Value list(Runtime& rt, Self self, Given) { return rt.list(iterate(rt, self)); }

Value join(Runtime& rt, Self self, Given arguments) {
  const auto [separator, path] = bind(rt, arguments, {"d", "attribute"});
  const Value between = separator != nullptr ? to_text(rt, *separator) : rt.borrowed_text("");
  TextBuilder out(rt);
  bool is_first = true;
  for (const Value& item : iterate(rt, self)) {
    if (!std::exchange(is_first, false)) out.append(*between.text);
    print(out, attribute_of(rt, item, path, nullptr));
  }
  return out.finish();
}

Value reverse(Runtime& rt, Self self, Given) {
  if (self.is_string())
    return get_slice(rt, self, Value::none(), Value::none(), Value::of(int64_t{-1}));
  const Value result = rt.list(iterate(rt, self));
  std::reverse(result.list->items, result.list->items + result.list->size);
  return generator(result);
}

Value sort(Runtime& rt, Self self, Given arguments) {
  const auto [descending, case_sensitive, path] =
      bind(rt, arguments, {"reverse", "case_sensitive", "attribute"});
  const bool exact = boolean_or(case_sensitive, false);
  // "a,b" sorts by several attributes: their values make a tuple.
  std::span<const Value> paths;
  if (given(path) && path->is_string()) {
    const Value comma = rt.borrowed_text(",");
    const Value parts =
        find_method(Kind::string, "split")(rt, *path, {.positional = {&comma, 1}, .named = {}});
    paths = parts.list->view();
  }
  std::span<Keyed> items;
  if (paths.size() > 1) {
    const auto all = iterate(rt, self);
    items = rt.arena().array<Keyed>(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const Value key = rt.list({}, Kind::tuple);
      for (const Value& part : paths)
        rt.append(*key.list, sort_key(rt, get_path(rt, all[i], part), exact));
      items[i] = {key, all[i]};
    }
  } else {
    items = keyed(rt, self, path, nullptr, exact);
  }
  sort_keyed(rt, items, boolean_or(descending, false));
  const Value result = rt.list({});
  for (const Keyed& entry : items) rt.append(*result.list, entry.item);
  return result;
}

Value unique(Runtime& rt, Self self, Given arguments) {
  const auto [case_sensitive, path] = bind(rt, arguments, {"case_sensitive", "attribute"});
  const Value seen = rt.dict();
  const Value result = rt.list({});
  for (const Keyed& entry : keyed(rt, self, path, nullptr, boolean_or(case_sensitive, false))) {
    if (rt.find(*seen.dict, entry.key) != nullptr) continue;
    rt.set(*seen.dict, entry.key, Value::none());
    rt.append(*result.list, entry.item);
  }
  return generator(result);
}

template <bool kMax>
Value extreme(Runtime& rt, Self self, Given arguments) {
  const auto [case_sensitive, path] = bind(rt, arguments, {"case_sensitive", "attribute"});
  const auto items = keyed(rt, self, path, nullptr, boolean_or(case_sensitive, false));
  if (items.empty()) return rt.missing("no item", "empty sequence");
  const Keyed* best = &items[0];
  for (const Keyed& entry : items) {
    const auto compared = order(rt, entry.key, best->key);
    if (kMax ? compared > 0 : compared < 0) best = &entry;
  }
  return best->item;
}

Value sum(Runtime& rt, Self self, Given arguments) {
  const auto [path, start] = bind(rt, arguments, {"attribute", "start"});
  Value total = start != nullptr ? *start : Value::of(int64_t{0});
  if (total.is_string()) rt.error("sum() can't sum strings");
  for (const Value& item : iterate(rt, self))
    total = binary(rt, BinaryOperator::add, total, attribute_of(rt, item, path, nullptr));
  return total;
}

Value group_by(Runtime& rt, Self self, Given arguments) {
  const auto [path, otherwise, case_sensitive] =
      bind(rt, arguments, {"attribute", "default", "case_sensitive"}, 1);
  auto items = keyed(rt, self, path, otherwise, boolean_or(case_sensitive, false));
  for (const Keyed& entry : items) {
    if (entry.key.is_undefined() && items.size() > 1) rt.undefined_error(entry.key);
  }
  sort_keyed(rt, items, false);
  const Value result = rt.list({});
  for (size_t i = 0; i < items.size();) {
    const Value group[] = {attribute_of(rt, items[i].item, path, otherwise), rt.list({})};
    const Value key = items[i].key;
    for (; i < items.size() && equal(rt, items[i].key, key); ++i)
      rt.append(*group[1].list, items[i].item);
    const Value made = rt.list(group, Kind::tuple);
    made.list->is_group = true;
    rt.append(*result.list, made);
  }
  return result;
}

Value batch(Runtime& rt, Self self, Given arguments) {
  const auto [size_value, fill] = bind(rt, arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = integer_or(rt, size_value, 0);
  const Value result = rt.list({});
  for (const Value& item : iterate(rt, self)) {
    rt.step();
    const bool first = result.list->size == 0;
    if (first && size == 0) rt.append(*result.list, rt.list({}));  // as Jinja's has it
    const bool full = first || (size > 0 && result.list->items[result.list->size - 1].list->size ==
                                                static_cast<size_t>(size));
    if (full) rt.append(*result.list, rt.list({}));
    rt.append(*result.list->items[result.list->size - 1].list, item);
  }
  if (given(fill) && result.list->size > 0 && size > 0) {
    List& last_row = *result.list->items[result.list->size - 1].list;
    while (last_row.size < static_cast<size_t>(size)) {
      rt.step();
      rt.append(last_row, *fill);
    }
  }
  return generator(result);
}

Value slice(Runtime& rt, Self self, Given arguments) {
  const auto [slices_value, fill] = bind(rt, arguments, {"slices", "fill_with"}, 1);
  const int64_t slices = integer_or(rt, slices_value, 0);
  if (slices == 0) rt.error("division by zero");
  const auto items = iterate(rt, self);
  const auto size = static_cast<int64_t>(items.size());
  const int64_t per_slice = size / slices, with_extra = size % slices;
  const Value result = rt.list({});
  size_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    rt.step();
    const auto count = static_cast<size_t>(per_slice + (i < with_extra));
    const Value part = rt.list(items.subspan(begin, count));
    if (given(fill) && i >= with_extra) rt.append(*part.list, *fill);
    rt.append(*result.list, part);
    begin += count;
  }
  return generator(result);
}

Value items_filter(Runtime& rt, Self self, Given) {
  if (self.is_undefined()) return generator(rt.list({}));
  if (self.kind != Kind::dict) rt.error("can only get item pairs from a mapping");
  return generator(find_method(Kind::dict, "items")(rt, self, {}));
}

Value dict_sort(Runtime& rt, Self self, Given arguments) {
  const auto [case_sensitive, by, descending] =
      bind(rt, arguments, {"case_sensitive", "by", "reverse"});
  if (self.is_undefined()) rt.undefined_error(self);
  if (self.kind != Kind::dict) rt.error("'{}' object has no items to sort", type_name(self));
  const std::string_view field = string_or(rt, by, "key");
  if (field != "key" && field != "value") rt.error("you can only sort by either 'key' or 'value'");
  const Value pairs = find_method(Kind::dict, "items")(rt, self, {});
  const std::span<Keyed> entries = rt.arena().array<Keyed>(pairs.list->size);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Value& pair = pairs.list->items[i];
    const Value& key = pair.list->items[field == "key" ? 0 : 1];
    entries[i] = {sort_key(rt, key, boolean_or(case_sensitive, false)), pair};
  }
  sort_keyed(rt, entries, boolean_or(descending, false));
  const Value result = rt.list({});
  for (const Keyed& entry : entries) rt.append(*result.list, entry.item);
  return result;
}

/// map(attribute="a.b", default=…) or map("filter", arguments…).
Value map(Runtime& rt, Self self, Given arguments) {
  const Value result = rt.list({});
  if (!truthy(self)) return generator(result);  // none included
  if (arguments.positional.empty()) {
    const auto [path, otherwise] = bind(rt, arguments, {"attribute", "default"});
    if (path == nullptr) rt.error("map requires a filter argument");
    for (const Value& item : iterate(rt, self))
      rt.append(*result.list, attribute_of(rt, item, path, otherwise));
    return generator(result);
  }
  const std::string_view name = text_of(rt, arguments.positional[0]).bytes;
  const Native filter = find_filter(name);
  if (filter == nullptr) rt.error("no filter named '{}'", name);
  const Arguments rest{.positional = arguments.positional.subspan(1), .named = arguments.named};
  for (const Value& item : iterate(rt, self)) {
    rt.step();
    const Runtime::Depth depth(rt);
    rt.append(*result.list, filter(rt, item, rest));
  }
  return generator(result);
}

/// select("test", …), selectattr("path", "test", …) and their opposites.
template <bool kKeep, bool kByAttribute>
Value select(Runtime& rt, Self self, Given arguments) {
  const Value result = rt.list({});
  if (!truthy(self)) return generator(result);  // none included
  Arguments rest = arguments;
  const Value* path = nullptr;
  if (kByAttribute) {
    if (rest.positional.empty()) rt.error("missing parameter for attribute name");
    path = &rest.positional[0];
    rest.positional = rest.positional.subspan(1);
  }
  Native test = nullptr;
  if (!rest.positional.empty()) {
    const std::string_view name = text_of(rt, rest.positional[0]).bytes;
    test = find_test(name);
    if (test == nullptr) rt.error("no test named '{}'", name);
    rest.positional = rest.positional.subspan(1);
  }
  for (const Value& item : iterate(rt, self)) {
    rt.step();
    const Value value = attribute_of(rt, item, path, nullptr);
    const bool passes = truthy(test != nullptr ? test(rt, value, rest) : value);
    if (passes == kKeep) rt.append(*result.list, item);
  }
  return generator(result);
}

constexpr NamedNative kSequenceFiltersByName[] = {
    {"batch", batch},
    {"count", length_filter},
    {"dictsort", dict_sort},
    {"first", first},
    {"groupby", group_by},
    {"items", items_filter},
    {"join", join},
    {"last", last},
    {"length", length_filter},
    {"list", list},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

const std::span<const NamedNative> kSequenceFilters = kSequenceFiltersByName;

}  // namespace hasten::text::jinja
