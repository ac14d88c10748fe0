// SPDX-License-Identifier: Apache-2.0
// The methods of strings.
#include <algorithm>
#include <optional>
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
constexpr size_t kNowhere = std::string_view::npos;

/// An argument that must be a string.
const Text& string_argument(Runtime& rt, const Value& value) {
  if (value.is_undefined()) rt.undefined_error(value);
  if (!value.is_string()) rt.error("a string is required, not '{}'", type_name(value));
  return *value.text;
}

template <Case kTo>
Value text_to_case(Runtime& rt, Self self, Given given) {
  if (!given.positional.empty() || !given.named.empty()) rt.error("no arguments are taken");
  return change_case(rt, *self.text, kTo);
}

template <bool kLeft, bool kRight>
Value strip(Runtime& rt, Self self, Given arguments) {
  const auto [characters] = bind(rt, arguments, {"chars"});
  rt.step(self.text->bytes.size());
  std::string_view set;
  if (given(characters)) set = string_argument(rt, *characters).bytes;
  rt.step(set.size());
  const Runtime::Lease lease(rt, set.size() * sizeof(uint32_t));  // of a set of characters
  const TextRange kept =
      stripped(self.text->bytes, given(characters) ? &set : nullptr, kLeft, kRight);
  return rt.slice(*self.text, static_cast<size_t>(kept.begin), static_cast<size_t>(kept.end));
}

/// Collects the parts of a split in the order that they are found.
struct Parts {
  Runtime& rt;
  const Text& text;
  Value list = rt.list({});

  void add(size_t begin, size_t end) { rt.append(*list.list, rt.slice(text, begin, end)); }
};

void split_at_space(Parts& parts, int64_t max_splits) {
  const std::string_view bytes = parts.text.bytes;
  const auto skip = [&](size_t at, bool space) {
    while (at < bytes.size() && is_space(decode_utf8(bytes.substr(at)).code_point) == space)
      at += char_length(bytes, at);
    return at;
  };
  for (size_t at = skip(0, true); at < bytes.size(); at = skip(at, true)) {
    if (max_splits-- == 0) {
      parts.add(at, bytes.size());
      return;
    }
    const size_t end = skip(at, false);
    parts.add(at, end);
    at = end;
  }
}

void split_at_space_from_right(Parts& parts, int64_t max_splits) {
  std::string_view rest = parts.text.bytes;
  while (true) {
    rest = rest.substr(0, static_cast<size_t>(stripped(rest, nullptr, false, true).end));
    if (rest.empty()) return;
    size_t begin = 0;
    if (max_splits-- == 0) {
      parts.add(0, rest.size());
      return;
    }
    for (size_t at = 0; at < rest.size(); at += char_length(rest, at)) {
      if (is_space(decode_utf8(rest.substr(at)).code_point)) begin = at + char_length(rest, at);
    }
    parts.rt.step(rest.size());
    parts.add(begin, rest.size());
    rest = rest.substr(0, begin);
  }
}

void split_at(Parts& parts, std::string_view separator, int64_t max_splits) {
  const std::string_view bytes = parts.text.bytes;
  size_t begin = 0;
  for (; max_splits != 0; --max_splits) {
    const size_t at = find_text(bytes, separator, begin);
    if (at == kNowhere) break;
    parts.add(begin, at);
    begin = at + separator.size();
  }
  parts.add(begin, bytes.size());
}

void split_at_from_right(Parts& parts, std::string_view separator, int64_t max_splits) {
  std::string_view rest = parts.text.bytes;
  for (; max_splits != 0; --max_splits) {
    const size_t at = find_last_text(parts.rt, rest, separator);
    if (at == kNowhere) break;
    parts.add(at + separator.size(), rest.size());
    rest = rest.substr(0, at);
  }
  parts.add(0, rest.size());
}

template <bool kFromRight>
Value split(Runtime& rt, Self self, Given arguments) {
  const auto [separator, max_splits] = bind(rt, arguments, {"sep", "maxsplit"});
  rt.step(self.text->bytes.size() * 2);
  const int64_t limit = integer_or(rt, max_splits, -1);
  Parts parts{rt, *self.text};
  if (!given(separator)) {
    (kFromRight ? split_at_space_from_right : split_at_space)(parts, limit);
  } else {
    const std::string_view at = string_argument(rt, *separator).bytes;
    if (at.empty()) rt.error("empty separator");
    (kFromRight ? split_at_from_right : split_at)(parts, at, limit);
  }
  if (kFromRight)
    std::reverse(parts.list.list->items, parts.list.list->items + parts.list.list->size);
  return parts.list;
}

Value split_lines(Runtime& rt, Self self, Given arguments) {
  const auto [keep_ends] = bind(rt, arguments, {"keepends"});
  const bool keep = boolean_or(keep_ends, false);
  const std::string_view bytes = self.text->bytes;
  rt.step(bytes.size());
  Parts parts{rt, *self.text};
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const uint32_t c = decode_utf8(bytes.substr(at)).code_point;
    size_t next = at + char_length(bytes, at);
    const bool ends_line = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                           c == 0x2028 || c == 0x2029;
    if (ends_line) {
      if (c == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      parts.add(begin, keep ? next : at);
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) parts.add(begin, bytes.size());
  return parts.list;
}

template <bool kFromRight>
Value partition(Runtime& rt, Self self, Given arguments) {
  const auto [separator] = bind(rt, arguments, {"sep"}, 1);
  const std::string_view bytes = self.text->bytes, sep = string_argument(rt, *separator).bytes;
  if (sep.empty()) rt.error("empty separator");
  rt.step(bytes.size());
  const size_t at = kFromRight ? find_last_text(rt, bytes, sep) : find_text(bytes, sep);
  Parts parts{rt, *self.text};
  if (at != kNowhere) {
    parts.add(0, at);
    parts.add(at, at + sep.size());
    parts.add(at + sep.size(), bytes.size());
  } else {
    const size_t whole = bytes.size();  // stands first, or last when searched from the right
    parts.add(0, kFromRight ? 0 : whole);
    parts.add(0, 0);
    parts.add(kFromRight ? 0 : whole, whole);
  }
  return rt.list(parts.list.list->view(), Kind::tuple);
}

Value replace_text(Runtime& rt, Self self, Given arguments) {
  const auto [from, to, count] = bind(rt, arguments, {"old", "new", "count"}, 2);
  return replace_text(rt, *self.text, string_argument(rt, *from), string_argument(rt, *to),
                      integer_or(rt, count, -1));
}

/// Bytes [begin, end) of the characters that optional start and end arguments choose; nullopt where
/// the start lies behind the end, where Python finds not even the empty string.
std::optional<TextRange> window(Runtime& rt, const Text& text, const Value* start,
                                const Value* end) {
  const int64_t size = count_chars(text.bytes);
  rt.step(text.bytes.size());
  const auto index = [&](const Value* argument, int64_t otherwise) {
    const int64_t given_index = given(argument) ? integer_or(rt, argument, 0) : otherwise;
    return given_index < 0 ? std::max<int64_t>(0, given_index + size) : given_index;
  };
  const int64_t first = index(start, 0);
  const int64_t last = std::min(index(end, size), size);
  if (first > last) return std::nullopt;
  return TextRange{static_cast<int64_t>(char_offset(text.bytes, first)),
                   static_cast<int64_t>(char_offset(text.bytes, last))};
}

std::string_view part_of(std::string_view bytes, TextRange range) {
  return bytes.substr(static_cast<size_t>(range.begin),
                      static_cast<size_t>(range.end - range.begin));
}

template <bool kAtEnd>
Value has_affix(Runtime& rt, Self self, Given arguments) {
  const auto [affix, start, end] = bind(rt, arguments, {"affix", "start", "end"}, 1);
  const std::optional<TextRange> range = window(rt, *self.text, start, end);
  const std::string_view part = part_of(self.text->bytes, range.value_or(TextRange{}));
  const auto matches = [&](const Value& value) {
    const std::string_view text = string_argument(rt, value).bytes;
    if (!range) return false;
    return kAtEnd ? part.ends_with(text) : part.starts_with(text);
  };
  if (affix->kind != Kind::tuple) return Value::of(matches(*affix));
  const auto options = affix->list->view();
  return Value::of(std::any_of(options.begin(), options.end(), matches));
}

template <bool kFromRight, bool kRequired>
Value find(Runtime& rt, Self self, Given arguments) {
  const auto [what, start, end] = bind(rt, arguments, {"sub", "start", "end"}, 1);
  const std::string_view needle = string_argument(rt, *what).bytes;
  const std::optional<TextRange> range = window(rt, *self.text, start, end);
  const std::string_view part = part_of(self.text->bytes, range.value_or(TextRange{}));
  const size_t at = !range       ? kNowhere
                    : kFromRight ? find_last_text(rt, part, needle)
                                 : find_text(part, needle);
  if (at == kNowhere) {
    if (kRequired) rt.error("substring not found");
    return Value::of(int64_t{-1});
  }
  return Value::of(count_chars(self.text->bytes.substr(0, static_cast<size_t>(range->begin) + at)));
}

Value count_text(Runtime& rt, Self self, Given arguments) {
  const auto [what, start, end] = bind(rt, arguments, {"sub", "start", "end"}, 1);
  const std::string_view needle = string_argument(rt, *what).bytes;
  const std::optional<TextRange> range = window(rt, *self.text, start, end);
  if (!range) return Value::of(int64_t{0});
  const std::string_view part = part_of(self.text->bytes, *range);
  if (needle.empty()) return Value::of(count_chars(part) + 1);
  int64_t found = 0;
  for (size_t at = find_text(part, needle); at != kNowhere;
       at = find_text(part, needle, at + needle.size()))
    ++found;
  return Value::of(found);
}

Value join_text(Runtime& rt, Self self, Given arguments) {
  const auto [items] = bind(rt, arguments, {"iterable"}, 1);
  TextBuilder out(rt);
  bool first = true;
  for (const Value& item : iterate(rt, *items)) {
    if (!std::exchange(first, false)) out.append(*self.text);
    out.append(string_argument(rt, item));
  }
  return out.finish();
}

Value format_text(Runtime& rt, Self self, Given arguments) {
  return format_braces(rt, *self.text, arguments);
}

/// ljust, rjust, center.
template <int kLeftShare>  // of the padding, in halves
Value pad(Runtime& rt, Self self, Given arguments) {
  const auto [width, fill] = bind(rt, arguments, {"width", "fillchar"}, 1);
  return pad_text(rt, *self.text, integer_or(rt, width, 0), kLeftShare, string_or(rt, fill, " "));
}

Value zfill(Runtime& rt, Self self, Given arguments) {
  const auto [width] = bind(rt, arguments, {"width"}, 1);
  const Text& text = *self.text;
  const bool is_signed = text.bytes.starts_with('-') || text.bytes.starts_with('+');
  const size_t sign = is_signed ? 1 : 0;
  TextBuilder out(rt);
  out.append(text, 0, sign);
  const Value digits = rt.slice(text, sign, text.bytes.size());
  const int64_t rest = std::max<int64_t>(0, integer_or(rt, width, 0)) - static_cast<int64_t>(sign);
  out.append(*pad_text(rt, *digits.text, rest, 2, "0").text);
  const Value filled = out.finish();
  return text.markup ? rt.as_markup(*filled.text) : filled;
}

template <bool kAtEnd>
Value remove_affix(Runtime& rt, Self self, Given arguments) {
  const auto [affix] = bind(rt, arguments, {"affix"}, 1);
  const std::string_view bytes = self.text->bytes, cut = string_argument(rt, *affix).bytes;
  if (kAtEnd && bytes.ends_with(cut)) return rt.slice(*self.text, 0, bytes.size() - cut.size());
  if (!kAtEnd && bytes.starts_with(cut)) return rt.slice(*self.text, cut.size(), bytes.size());
  return self;
}

/// Whether the string is not empty and `holds` for each of its characters.
template <class Predicate>
Value all_characters(Runtime& rt, const Text& text, Predicate holds) {
  rt.step(text.bytes.size());
  bool result = !text.bytes.empty();
  for (size_t at = 0; at < text.bytes.size() && result; at += char_length(text.bytes, at))
    result = holds(decode_utf8(text.bytes.substr(at)).code_point);
  return Value::of(result);
}

Category category(uint32_t c) { return char_properties(c).category; }

Value is_digit(Runtime& rt, Self self, Given) {
  return all_characters(rt, *self.text, [](uint32_t c) { return category(c) == Category::nd; });
}
Value is_numeric(Runtime& rt, Self self, Given) {
  return all_characters(rt, *self.text, [](uint32_t c) { return is_number(category(c)); });
}
Value is_alpha(Runtime& rt, Self self, Given) {
  return all_characters(rt, *self.text, [](uint32_t c) { return is_letter(category(c)); });
}
Value is_alnum(Runtime& rt, Self self, Given) {
  return all_characters(
      rt, *self.text, [](uint32_t c) { return is_letter(category(c)) || is_number(category(c)); });
}
Value is_space_text(Runtime& rt, Self self, Given) {
  return all_characters(rt, *self.text, [](uint32_t c) { return is_space(c); });
}

Value is_ascii(Runtime& rt, Self self, Given) {
  rt.step(self.text->bytes.size());
  return Value::of(std::all_of(self.text->bytes.begin(), self.text->bytes.end(),
                               [](char c) { return static_cast<uint8_t>(c) < 0x80; }));
}

Value is_printable_text(Runtime& rt, Self self, Given) {
  if (self.text->bytes.empty()) return Value::of(true);
  return all_characters(rt, *self.text, is_printable);
}

Value is_identifier(Runtime& rt, Self self, Given) {
  bool first = true;
  return all_characters(rt, *self.text, [&](uint32_t c) {
    const Category kind = category(c);
    const bool begins = c == '_' || is_letter(kind) || kind == Category::nl;
    const bool goes_on = kind == Category::nd || kind == Category::mn || kind == Category::mc ||
                         kind == Category::pc;
    return begins || (!std::exchange(first, false) && goes_on) ? (first = false, true) : false;
  });
}

/// Every word begins with a capital, and no other letter is one.
Value is_title(Runtime& rt, Self self, Given) {
  const std::string_view bytes = self.text->bytes;
  rt.step(bytes.size());
  bool found = false, inside = false;
  for (size_t at = 0; at < bytes.size(); at += char_length(bytes, at)) {
    const Category kind = category(decode_utf8(bytes.substr(at)).code_point);
    const bool capital = kind == Category::lu || kind == Category::lt;
    if (capital ? inside : kind == Category::ll && !inside) return Value::of(false);
    inside = capital || kind == Category::ll;
    found = found || inside;
  }
  return Value::of(found);
}

Value expand_tabs(Runtime& rt, Self self, Given arguments) {
  const auto [size] = bind(rt, arguments, {"tabsize"});
  const int64_t width = integer_or(rt, size, 8);
  const Text& text = *self.text;
  TextBuilder out(rt);
  int64_t column = 0;
  size_t begin = 0;
  for (size_t at = 0; at < text.bytes.size(); at += char_length(text.bytes, at)) {
    const char c = text.bytes[at];
    if (c != '\t') {
      column = c == '\n' || c == '\r' ? 0 : column + 1;
      continue;
    }
    out.append(text, begin, at);
    begin = at + 1;
    const int64_t spaces = width > 0 ? width - column % width : 0;
    rt.check_text_size(static_cast<size_t>(spaces));
    for (int64_t i = 0; i < spaces; ++i) out.append(" ");
    column += spaces;
  }
  out.append(text, begin, text.bytes.size());
  return out.finish();
}

template <bool kUpper>
Value is_case(Runtime& rt, Self self, Given) {
  return Value::of(has_case(rt, *self.text, kUpper));
}

constexpr NamedNative kTextMethodsByName[] = {
    {"capitalize", text_to_case<Case::capitalize>},
    {"casefold", text_to_case<Case::fold>},
    {"center", pad<1>},
    {"count", count_text},
    {"endswith", has_affix<true>},
    {"expandtabs", expand_tabs},
    {"find", find<false, false>},
    {"format", format_text},
    {"index", find<false, true>},
    {"isalnum", is_alnum},
    {"isalpha", is_alpha},
    {"isascii", is_ascii},
    {"isdecimal", is_digit},
    {"isdigit", is_digit},
    {"isidentifier", is_identifier},
    {"islower", is_case<false>},
    {"isnumeric", is_numeric},
    {"isprintable", is_printable_text},
    {"isspace", is_space_text},
    {"istitle", is_title},
    {"isupper", is_case<true>},
    {"join", join_text},
    {"ljust", pad<0>},
    {"lower", text_to_case<Case::lower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_text},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", pad<2>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", split_lines},
    {"startswith", has_affix<false>},
    {"strip", strip<true, true>},
    {"swapcase", text_to_case<Case::swap>},
    {"title", text_to_case<Case::title>},
    {"upper", text_to_case<Case::upper>},
    {"zfill", zfill},
};

}  // namespace

const std::span<const NamedNative> kTextMethods = kTextMethodsByName;

}  // namespace hasten::text::jinja
