// SPDX-License-Identifier: Apache-2.0
// The filters of strings.
#include <algorithm>
#include <utility>

#include "text/jinja/format.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

template <Case kTo>
Value to_case(Runtime& rt, Self self, Given given) {
  bind(rt, given, {"s"});
  return change_case(rt, text_of(rt, self), kTo);
}

/// Every word of a title begins after white space or one of -([{<; unlike str.title.
Value title(Runtime& rt, Self self, Given) {
  const Text& text = text_of(rt, self);
  TextBuilder out(rt);
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    if (begin == end) return;
    const size_t second = begin + char_length(text.bytes, begin);
    out.append(*change_case(rt, *rt.slice(text, begin, second).text, Case::upper).text);
    out.append(*change_case(rt, *rt.slice(text, second, end).text, Case::lower).text);
    begin = end;
  };
  for (size_t at = 0; at < text.bytes.size();) {
    const uint32_t c = decode_utf8(text.bytes.substr(at)).code_point;
    const size_t next = at + char_length(text.bytes, at);
    const bool separates = is_space(c) || c == '-' || c == '(' || c == '[' || c == '{' || c == '<';
    if (separates) {
      flush(at);
      flush(next);
    }
    at = next;
  }
  flush(text.bytes.size());
  return out.finish();
}

Value trim(Runtime& rt, Self self, Given arguments) {
  const auto [characters] = bind(rt, arguments, {"chars"});
  const Text& text = text_of(rt, self);
  rt.step(text.bytes.size());
  const std::string_view set = string_or(rt, characters, "");
  rt.step(set.size());
  const Runtime::Lease lease(rt, set.size() * sizeof(uint32_t));  // of a set of characters
  const TextRange kept = stripped(text.bytes, given(characters) ? &set : nullptr, true, true);
  return rt.slice(text, static_cast<size_t>(kept.begin), static_cast<size_t>(kept.end));
}

Value replace(Runtime& rt, Self self, Given arguments) {
  const auto [from, to, count] = bind(rt, arguments, {"old", "new", "count"}, 2);
  Text text = text_of(rt, self);
  text.markup = false;  // as without autoescape
  return replace_text(rt, text, text_of(rt, *from), text_of(rt, *to),
                      given(count) ? integer_or(rt, count, -1) : -1);
}

Value string(Runtime& rt, Self self, Given) { return to_text(rt, self); }
Value safe(Runtime& rt, Self self, Given) { return rt.as_markup(text_of(rt, self)); }
Value escape_filter(Runtime& rt, Self self, Given) { return escape(rt, text_of(rt, self)); }
Value force_escape(Runtime& rt, Self self, Given) {
  Text text = text_of(rt, self);
  text.markup = false;
  return escape(rt, text);
}

Value center(Runtime& rt, Self self, Given arguments) {
  const auto [width] = bind(rt, arguments, {"width"});
  return pad_text(rt, text_of(rt, self), integer_or(rt, width, 80), 1, " ");
}

Value format(Runtime& rt, Self self, Given arguments) {
  if (!arguments.named.empty() && !arguments.positional.empty())
    rt.error("can't handle positional and keyword arguments at the same time");
  if (arguments.named.empty())
    return format_percent(rt, text_of(rt, self), rt.list(arguments.positional, Kind::tuple));
  const Value values = rt.dict();
  for (const NamedValue& named : arguments.named)
    rt.set(*values.dict, Value::of(&named.name), named.value);
  return format_percent(rt, text_of(rt, self), values);
}

Value indent(Runtime& rt, Self self, Given arguments) {
  const auto [width, first, blank] = bind(rt, arguments, {"width", "first", "blank"});
  std::string spaces;
  Runtime::Lease lease(rt);
  const Text* indention = nullptr;
  if (width != nullptr && width->is_string()) {
    indention = width->text;
  } else {
    const int64_t count = std::max<int64_t>(0, integer_or(rt, width, 4));
    rt.check_text_size(static_cast<size_t>(count));
    lease.grow(static_cast<size_t>(count));
    spaces.assign(static_cast<size_t>(count), ' ');
    indention = rt.text(spaces).text;
  }
  const bool indent_blank = boolean_or(blank, false);
  if (self.is_undefined()) rt.undefined_error(self);
  if (!self.is_string()) rt.error("'{}' object has no lines to indent", type_name(self));
  const Value lines = find_method(Kind::string, "splitlines")(
      rt, rt.concat(text_of(rt, self), Text{.bytes = "\n"}), {});
  TextBuilder out(rt);
  for (size_t i = 0; i < lines.list->size; ++i) {
    const Text& line = *lines.list->items[i].text;
    if (i > 0) out.append("\n");
    const bool indents = i == 0 ? boolean_or(first, false) : indent_blank || !line.bytes.empty();
    if (indents) out.append(*indention);
    out.append(line);
  }
  return out.finish();
}

Value truncate(Runtime& rt, Self self, Given arguments) {
  const auto [length_value, kill_words, end_value, leeway_value] =
      bind(rt, arguments, {"length", "killwords", "end", "leeway"});
  const std::optional<int64_t> size = jinja::length(rt, self);
  if (!size) rt.error("object of type '{}' has no len()", type_name(self));
  const Text& text = text_of(rt, self);
  const int64_t length = integer_or(rt, length_value, 255);
  const Value end = end_value != nullptr ? to_text(rt, *end_value) : rt.borrowed_text("...");
  const int64_t leeway = given(leeway_value) ? integer_or(rt, leeway_value, 5) : 5;
  const int64_t end_size = count_chars(end.text->bytes);
  if (length < end_size || leeway < 0) rt.error("truncate: the length is shorter than the end");
  rt.step(text.bytes.size());
  if (*size - leeway <= length) return self;  // also a list of no more items
  if (!self.is_string()) rt.error("truncate: a {} cannot be cut", type_name(self));
  size_t cut = char_offset(text.bytes, length - end_size);
  if (!boolean_or(kill_words, false)) cut = std::min(cut, text.bytes.substr(0, cut).rfind(' '));
  TextBuilder out(rt);
  out.append(text, 0, cut);
  out.append(*end.text);
  return out.finish();
}

Value word_count(Runtime& rt, Self self, Given) {
  const std::string_view bytes = text_of(rt, self).bytes;
  rt.step(bytes.size());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < bytes.size(); at += char_length(bytes, at)) {
    const uint32_t c = decode_utf8(bytes.substr(at)).code_point;
    const Category category = char_properties(c).category;
    const bool is_word = c == '_' || is_letter(category) || is_number(category);
    words += is_word && !inside;
    inside = is_word;
  }
  return Value::of(words);
}

// As it stands in a URL, or in its query, where a slash is written otherwise and a space is "+".
void quote_url(TextBuilder& out, const Text& text, bool in_query) {
  std::string quoted;
  for_each_piece(text, [&](std::string_view piece, bool literal) {
    quoted.clear();
    for (const char c : piece) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '~' ||
                         (c == '/' && !in_query);
      if (plain || (c == ' ' && in_query)) {
        quoted += plain ? c : '+';
      } else {
        quoted += fmt::format("%{:02X}", static_cast<uint8_t>(c));
      }
      flush_long(out, quoted, literal);
    }
    out.append(quoted, literal);
  });
}

/// A dict or a list of pairs becomes a query.
Value url_encode(Runtime& rt, Self self, Given) {
  TextBuilder out(rt);
  bool first = true;
  const auto append_pair = [&](const Value& key, const Value& value) {
    if (!std::exchange(first, false)) out.append("&");
    quote_url(out, text_of(rt, key), true);
    out.append("=");
    quote_url(out, text_of(rt, value), true);
  };
  if (self.kind == Kind::dict) {
    for (const Dict::Entry& entry : self.dict->view()) append_pair(entry.key, entry.value);
  } else if (self.is_sequence()) {
    for (const Value& item : iterate(rt, self)) {
      const std::span<const Value> pair = iterate(rt, item);
      if (pair.size() != 2) rt.error("urlencode: {} values to unpack, expected 2", pair.size());
      append_pair(pair[0], pair[1]);
    }
  } else {
    quote_url(out, text_of(rt, self), false);
  }
  return out.finish();
}

constexpr NamedNative kTextFiltersByName[] = {
    {"capitalize", to_case<Case::capitalize>},
    {"center", center},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", to_case<Case::lower>},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", to_case<Case::upper>},
    {"urlencode", url_encode},
    {"wordcount", word_count},
};

}  // namespace

const std::span<const NamedNative> kTextFilters = kTextFiltersByName;

}  // namespace hasten::text::jinja
