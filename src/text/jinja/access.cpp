// SPDX-License-Identifier: Apache-2.0
// Items, attributes, slices and iteration.
#include <charconv>

#include "text/jinja/library.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace hasten::text::jinja {
namespace {

std::string_view owner_name(const Value& object) {
  if (object.kind == Kind::dict) return "dict object";
  if (object.kind == Kind::list) return "list object";
  if (object.is_string()) return "str object";
  return type_name(object);
}

/// The index of an element, counted from the end when negative; nullopt outside.
std::optional<size_t> element_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

std::optional<Value> find_item(Runtime& rt, const Value& object, const Value& key) {
  if (object.kind == Kind::dict) {
    const Value* found = rt.find(*object.dict, key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integral()) return std::nullopt;
  if (object.is_sequence()) {
    const auto index = element_index(key.as_integer(), static_cast<int64_t>(object.list->size));
    return index ? std::optional(object.list->items[*index]) : std::nullopt;
  }
  if (object.is_string()) {
    const std::string_view bytes = object.text->bytes;
    const auto index = element_index(key.as_integer(), *length(rt, object));
    if (!index) return std::nullopt;
    const size_t begin = char_offset(bytes, static_cast<int64_t>(*index));
    return rt.slice(*object.text, begin, begin + char_length(bytes, begin));
  }
  return std::nullopt;
}

std::optional<Value> find_attribute(Runtime& rt, const Value& object, std::string_view name) {
  if (object.kind == Kind::loop) return loop_attribute(rt, *object.loop, name);
  if (object.kind == Kind::name_space) {
    const Value* found = rt.find(*object.dict, name);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  if (object.kind == Kind::tuple && object.list->is_group) {
    if (name == "grouper") return object.list->items[0];
    if (name == "list") return object.list->items[1];
  }
  if (object.kind == Kind::function && object.function->macro != nullptr && name == "name")
    return rt.borrowed_text(object.function->name);
  const Native method = find_method(object.kind, name);
  if (method == nullptr) return std::nullopt;
  return Value::of(rt.arena().make(Function{.name = name, .native = method, .self = object}));
}

std::optional<int64_t> slice_part(Runtime& rt, const Value& part) {
  if (part.is_none()) return std::nullopt;
  if (part.is_undefined()) rt.undefined_error(part);
  if (!part.is_integral()) rt.error("slice indices must be integers, not '{}'", type_name(part));
  return part.as_integer();
}

/// The elements of a slice as Python picks them: `first`, then every `step`, `count` in all.
struct SliceBounds {
  int64_t first, count, step;
};

SliceBounds slice_bounds(Runtime& rt, int64_t size, const Value& start, const Value& stop,
                         const Value& step_value) {
  const int64_t step = slice_part(rt, step_value).value_or(1);
  if (step == 0) rt.error("slice step cannot be zero");
  const auto clamp = [&](const Value& part, int64_t otherwise) {
    const auto given = slice_part(rt, part);
    if (!given) return otherwise;
    const int64_t index = *given < 0 ? std::max(*given, -size - 1) + size : *given;
    return step > 0 ? std::clamp<int64_t>(index, 0, size)
                    : std::clamp<int64_t>(index, -1, size - 1);
  };
  const int64_t first = clamp(start, step > 0 ? 0 : size - 1);
  const int64_t last = clamp(stop, step > 0 ? size : -1);
  const uint64_t distance = static_cast<uint64_t>(step > 0 ? last - first : first - last);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const bool empty = step > 0 ? first >= last : first <= last;
  return {first, empty ? 0 : static_cast<int64_t>((distance - 1) / stride + 1), step};
}

Value slice_text(Runtime& rt, const Text& text, const SliceBounds& bounds) {
  if (bounds.step == 1) {
    const size_t begin = char_offset(text.bytes, bounds.first);
    const size_t size = char_offset(text.bytes.substr(begin), bounds.count);
    return rt.slice(text, begin, begin + size);
  }
  TextBuilder out(rt);
  if (bounds.count == 0) return out.finish();
  // Characters are passed one by one, forwards or backwards: no table of where they begin.
  size_t begin = char_offset(text.bytes, bounds.first);
  for (int64_t i = 0; i < bounds.count; ++i) {
    out.append(text, begin, begin + char_length(text.bytes, begin));
    if (i + 1 == bounds.count) break;
    for (int64_t step = bounds.step; step > 0; --step) begin += char_length(text.bytes, begin);
    for (int64_t step = bounds.step; step < 0; ++step) begin = previous_char(text.bytes, begin);
  }
  return out.finish();
}

}  // namespace

std::span<const Value> iterate(Runtime& rt, const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return {};
    case Kind::list:
    case Kind::tuple:
      return value.list->view();
    case Kind::generator: {
      const auto items = value.list->view();
      *value.list = List{};
      return items;
    }
    case Kind::dict: {
      rt.step(value.dict->size * sizeof(Value));
      const auto keys = rt.arena().array<Value>(value.dict->size);
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = value.dict->entries[i].key;
      return keys;
    }
    case Kind::string: {
      const std::string_view bytes = value.text->bytes;
      const auto characters = rt.arena().array<Value>(static_cast<size_t>(*length(rt, value)));
      size_t at = 0;
      Text plain = *value.text;
      plain.markup = false;
      for (Value& character : characters) {
        const size_t end = at + char_length(bytes, at);
        character = rt.slice(plain, at, end);
        at = end;
      }
      return characters;
    }
    default:
      rt.error("'{}' object is not iterable", type_name(value));
  }
}

Value get_attribute(Runtime& rt, const Value& object, std::string_view name) {
  rt.step();
  if (object.is_undefined()) rt.undefined_error(object);
  if (const auto found = find_attribute(rt, object, name)) return *found;
  if (object.kind == Kind::dict) {
    if (const Value* found = rt.find(*object.dict, name)) return *found;
  }
  return rt.missing(name, owner_name(object));
}

Value get_item(Runtime& rt, const Value& object, const Value& key) {
  rt.step();
  if (object.is_undefined()) rt.undefined_error(object);
  const bool hashable = key.kind != Kind::list && key.kind != Kind::dict;
  if (hashable) {
    if (const auto found = find_item(rt, object, key)) return *found;
  }
  if (key.is_string()) {
    if (const auto found = find_attribute(rt, object, key.text->bytes)) return *found;
    return rt.missing(key.text->bytes, owner_name(object));
  }
  return rt.missing(to_text(rt, key).text->bytes, owner_name(object));
}

Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  rt.step();
  if (object.is_undefined()) rt.undefined_error(object);
  if (!object.is_string() && !object.is_sequence())
    rt.error("'{}' object cannot be sliced", type_name(object));
  const SliceBounds bounds = slice_bounds(rt, *length(rt, object), start, stop, step);
  if (object.is_string()) return slice_text(rt, *object.text, bounds);
  rt.step(static_cast<size_t>(bounds.count) * sizeof(Value));
  const auto items = rt.arena().array<Value>(static_cast<size_t>(bounds.count));
  for (int64_t i = 0; i < bounds.count; ++i)
    items[static_cast<size_t>(i)] = object.list->items[bounds.first + i * bounds.step];
  List list{.items = items.data(), .size = items.size(), .capacity = items.size()};
  return Value::of(rt.arena().make(list), object.kind == Kind::tuple ? Kind::tuple : Kind::list);
}

Value get_path(Runtime& rt, const Value& object, const Value& path, const Value* otherwise) {
  const auto item = [&](const Value& from, const Value& key) {
    const Value value = get_item(rt, from, key);
    const bool replaces = value.is_undefined() && otherwise != nullptr && !otherwise->is_none();
    return replaces ? *otherwise : value;
  };
  if (!path.is_string()) return item(object, path);
  Value at = object;
  std::string_view rest = path.text->bytes;
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        !part.empty() && part[0] != '-' && code == std::errc() && end == part.data() + part.size();
    at = item(at, is_index ? Value::of(index) : rt.borrowed_text(part));
    if (dot == rest.size()) return at;
    rest.remove_prefix(dot + 1);
  }
}

Value escape(Runtime& rt, const Text& text) {
  if (text.markup) return Value::of(&text);
  TextBuilder out(rt);
  for_each_piece(text, [&](std::string_view piece, bool literal) {
    while (!piece.empty()) {
      const size_t plain = std::min(piece.find_first_of("&<>'\""), piece.size());
      out.append(piece.substr(0, plain), literal);
      piece.remove_prefix(plain);
      if (piece.empty()) break;
      const char c = piece[0];
      out.append(c == '&'    ? "&amp;"
                 : c == '<'  ? "&lt;"
                 : c == '>'  ? "&gt;"
                 : c == '\'' ? "&#39;"
                             : "&#34;",
                 literal);
      piece.remove_prefix(1);
    }
  });
  return rt.as_markup(*out.finish().text);
}

}  // namespace hasten::text::jinja
