// SPDX-License-Identifier: Apache-2.0
// The filters that lay values out for people: wrapped text, wrapped values, sizes, attributes.
#include <algorithm>
#include <vector>

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

// Regular expressions' \w and, without digits, letters.
bool is_word(uint32_t c) {
  const Category category = char_properties(c).category;
  return c == '_' || is_letter(category) || is_number(category);
}
bool is_word_letter(uint32_t c) {
  return is_word(c) && char_properties(c).category != Category::nd;
}
bool is_blank(uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word_or_punctuation(uint32_t c) {
  return is_word(c) || (c < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(c)) !=
                                        std::string_view::npos);
}

/// One line of text as code points, cut into the chunks that wrapping moves as a whole.
class WrappedLine {
 public:
  struct Chunk {
    size_t begin, end;  // characters
  };

  WrappedLine(Runtime& rt, const Text& text)
      : text_(text), lease_(rt, (text.bytes.size() + 1) * (sizeof(uint32_t) + sizeof(size_t))) {
    points_.reserve(text.bytes.size());
    offsets_.reserve(text.bytes.size() + 1);
    for (size_t at = 0; at < text.bytes.size(); at += char_length(text.bytes, at)) {
      points_.push_back(decode_utf8(text.bytes.substr(at)).code_point);
      offsets_.push_back(at);
    }
    offsets_.push_back(text.bytes.size());
  }

  size_t size() const { return points_.size(); }
  bool is_space_only(Chunk chunk) const {
    return std::all_of(points_.begin() + static_cast<ptrdiff_t>(chunk.begin),
                       points_.begin() + static_cast<ptrdiff_t>(chunk.end), is_space);
  }
  void append_to(TextBuilder& out, Chunk chunk) const {
    out.append(text_, offsets_[chunk.begin], offsets_[chunk.end]);
  }

  /// The chunk that begins at `begin`: white space, or a word, which ends behind a hyphen between
  /// letters too, and before and behind a dash of several hyphens.
  Chunk chunk_at(size_t begin, bool break_on_hyphens) const {
    size_t end = begin + 1;
    if (is_blank(points_[begin])) {
      while (end < size() && is_blank(points_[end])) ++end;
      return {begin, end};
    }
    if (break_on_hyphens && begin > 0 && is_word_or_punctuation(points_[begin - 1])) {
      if (const size_t dash = dash_at(begin)) return {begin, dash};
    }
    for (; end < size() && !is_blank(points_[end]); ++end) {
      if (!break_on_hyphens || points_[end] != '-') continue;
      if (is_hyphen(end)) return {begin, end + 1};
      if (is_word_or_punctuation(points_[end - 1]) && dash_at(end) != 0) return {begin, end};
    }
    return {begin, end};
  }

  /// Where a chunk too long for `space` characters is cut: there, or behind a hyphen before.
  size_t cut(Chunk chunk, size_t space, bool break_on_hyphens) const {
    const size_t end = std::min(chunk.end, chunk.begin + space);
    if (!break_on_hyphens) return end;
    for (size_t at = end; at > chunk.begin + 1; --at) {
      if (points_[at - 1] != '-') continue;
      const auto first = points_.begin() + static_cast<ptrdiff_t>(chunk.begin);
      const bool only_hyphens = std::all_of(first, points_.begin() + static_cast<ptrdiff_t>(at - 1),
                                            [](uint32_t c) { return c == '-'; });
      return only_hyphens ? end : at;
    }
    return end;
  }

 private:
  bool letter(size_t at) const { return at < size() && is_word_letter(points_[at]); }

  /// The end of a dash that begins at `at` and stands before a word; 0 if there is none.
  size_t dash_at(size_t at) const {
    size_t end = at;
    while (end < size() && points_[end] == '-') ++end;
    return end >= at + 2 && end < size() && is_word(points_[end]) ? end : 0;
  }

  /// Whether the hyphen at `at` joins two parts of a word.
  bool is_hyphen(size_t at) const {
    const bool before = at >= 2 && ((letter(at - 2) && letter(at - 1)) ||
                                    (at >= 3 && letter(at - 3) && points_[at - 2] == '-' &&
                                     is_word_or_punctuation(points_[at - 1])));
    const size_t second = at + 2 < size() && points_[at + 2] == '-' ? at + 3 : at + 2;
    return before && letter(at + 1) && letter(second);
  }

  const Text& text_;
  Runtime::Lease lease_;
  std::vector<uint32_t> points_;
  std::vector<size_t> offsets_;  // of the characters in bytes, and the end
};

struct WrapStyle {
  size_t width;
  bool break_long_words;
  bool break_on_hyphens;
};

/// Calls `line(chunk)` for each line that the text is wrapped to, without white space around it.
template <class Line>
void wrap(Runtime& rt, const WrappedLine& text, const WrapStyle& style, Line line) {
  using Chunk = WrappedLine::Chunk;
  bool any = false;
  size_t at = 0;
  Chunk next{0, 0};  // the chunk at hand, perhaps what is left of it
  const auto fetch = [&] {
    if (next.begin == next.end && at < text.size()) {
      next = text.chunk_at(at, style.break_on_hyphens);
      at = next.end;
    }
    return next.begin < next.end;
  };
  while (fetch()) {
    rt.step();
    if (any && text.is_space_only(next)) next.begin = next.end;
    Chunk current{next.begin, next.begin};
    Chunk last = current;  // of the current line's chunks
    if (fetch()) current = last = {next.begin, next.begin};
    while (fetch() && next.end - current.begin <= style.width) {
      last = next;
      current.end = next.end;
      next.begin = next.end;
    }
    if (fetch() && next.end - next.begin > style.width) {
      const size_t space = style.width - (current.end - current.begin);
      if (style.break_long_words) {
        last = {next.begin, text.cut(next, space, style.break_on_hyphens)};
        current.end = next.begin = last.end;
      } else if (current.begin == current.end) {
        last = next;
        current.end = next.begin = next.end;
      }
    }
    if (text.is_space_only(last)) current.end = std::max(current.begin, last.begin);
    if (current.begin == current.end) continue;
    line(current);
    any = true;
  }
}

Value word_wrap(Runtime& rt, Self self, Given arguments) {
  const auto [width, break_long, wrap_string, break_hyphens] =
      bind(rt, arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const int64_t columns = integer_or(rt, width, 79);
  const WrapStyle style{.width = static_cast<size_t>(std::max<int64_t>(columns, 0)),
                        .break_long_words = boolean_or(break_long, true),
                        .break_on_hyphens = boolean_or(break_hyphens, true)};
  if (self.is_undefined()) rt.undefined_error(self);
  if (!self.is_string()) rt.error("'{}' object has no lines to wrap", type_name(self));
  const Value between = given(wrap_string) ? to_text(rt, *wrap_string) : rt.borrowed_text("\n");
  const Value lines = find_method(Kind::string, "splitlines")(rt, self, {});
  TextBuilder out(rt);
  for (size_t i = 0; i < lines.list->size; ++i) {
    if (i > 0) out.append(*between.text);
    const Text& text = *lines.list->items[i].text;
    rt.step(text.bytes.size());
    if (columns <= 0) rt.error("invalid width {} (must be > 0)", columns);
    const WrappedLine line(rt, text);
    bool first = true;
    wrap(rt, line, style, [&](WrappedLine::Chunk chunk) {
      if (!std::exchange(first, false)) out.append(*between.text);
      line.append_to(out, chunk);
    });
  }
  return out.finish();
}

/// Python's pprint: values on one line where they fit, else one element per line.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(TextBuilder& out) : out_(out), rt_(out.runtime()) {}

  /// `indent`: columns before the value; `allowance`: what must fit behind it.
  void print(const Value& value, int64_t indent, int64_t allowance, int level) {
    const Runtime::Depth depth(rt_);
    TextBuilder whole(rt_);
    print_repr(whole, value);
    const bool fits = count_chars(whole.bytes()) <= kWidth - indent - allowance;
    if (!fits && value.is_string() && !value.text->markup)
      return print_string(*value.text, indent, allowance, level + 1);
    if (!fits && value.kind == Kind::dict) {
      return print_dict(value, indent, allowance);
    }
    if (!fits && is_plain_sequence(value)) return print_items(value, indent, allowance);
    out_.append(*whole.finish().text);
  }

  /// The value with the entries of its dicts in order.
  Value sorted(const Value& value) {
    const Runtime::Depth depth(rt_);
    rt_.step();
    if (value.kind == Kind::dict) {
      const std::span<Dict::Entry> entries = rt_.arena().array<Dict::Entry>(value.dict->size);
      std::copy_n(value.dict->entries, entries.size(), entries.begin());
      const Runtime::Lease lease(rt_, entries.size_bytes());  // std::stable_sort's buffer
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        const bool ordered = (a.key.is_number() && b.key.is_number()) ||
                             (a.key.kind == b.key.kind && !a.key.is_none());
        // What Python cannot order, pprint orders by the names of the types.
        return ordered ? order(rt_, a.key, b.key) < 0 : type_name(a.key) < type_name(b.key);
      });
      for (Dict::Entry& entry : entries) entry.value = sorted(entry.value);
      return Value::of(rt_.arena().make(
          Dict{.entries = entries.data(), .size = entries.size(), .capacity = entries.size()}));
    }
    if (!is_plain_sequence(value)) return value;
    const Value result = rt_.list(value.list->view(), value.kind);
    for (size_t i = 0; i < result.list->size; ++i)
      result.list->items[i] = sorted(result.list->items[i]);
    return result;
  }

 private:
  static constexpr int64_t kWidth = 80;

  static bool is_plain_sequence(const Value& value) {
    return (value.kind == Kind::list || value.kind == Kind::tuple) && !value.list->is_group;
  }

  void new_line(int64_t indent) {
    out_.append("\n");
    for (int64_t i = 0; i < indent; ++i) out_.append(" ");
  }

  void print_dict(const Value& value, int64_t indent, int64_t allowance) {
    out_.append("{");
    const Dict& dict = *value.dict;
    for (size_t i = 0; i < dict.size; ++i) {
      const bool last = i + 1 == dict.size;
      TextBuilder key(rt_);
      print_repr(key, dict.entries[i].key);
      const int64_t columns = count_chars(key.bytes()) + 2;
      out_.append(*key.finish().text);
      out_.append(": ");
      print(dict.entries[i].value, indent + 1 + columns, last ? allowance + 1 : 1, 1);
      if (last) break;
      out_.append(",");
      new_line(indent + 1);
    }
    out_.append("}");
  }

  void print_items(const Value& value, int64_t indent, int64_t allowance) {
    const bool tuple = value.kind == Kind::tuple;
    const std::string_view close = !tuple ? "]" : value.list->size == 1 ? ",)" : ")";
    out_.append(tuple ? "(" : "[");
    for (size_t i = 0; i < value.list->size; ++i) {
      const bool last = i + 1 == value.list->size;
      print(value.list->items[i], indent + 1,
            last ? allowance + static_cast<int64_t>(close.size()) : 1, 1);
      if (last) break;
      out_.append(",");
      new_line(indent + 1);
    }
    out_.append(close);
  }

  int64_t columns_of(const Text& text) {
    TextBuilder quoted(rt_);
    print_repr(quoted, Value::of(&text));
    return count_chars(quoted.bytes());
  }

  /// Quoted lines, and lines too long cut behind white space; in parentheses if nothing else is
  /// around them.
  void print_string(const Text& text, int64_t indent, int64_t allowance, int level) {
    if (level == 1) ++indent, ++allowance;
    const int64_t width = kWidth - indent;
    const Value keep[] = {Value::of(true)};
    const Value lines = find_method(Kind::string, "splitlines")(rt_, Value::of(&text),
                                                                {.positional = keep, .named = {}});
    const Value chunks = rt_.list({});
    for (size_t i = 0; i < lines.list->size; ++i) {
      const Text& line = *lines.list->items[i].text;
      const bool last = i + 1 == lines.list->size;
      if (columns_of(line) <= width - (last ? allowance : 0)) {
        rt_.append(*chunks.list, lines.list->items[i]);
      } else {
        cut_line(line, width, last ? allowance : 0, *chunks.list);
      }
    }
    const bool several = chunks.list->size > 1;
    if (several && level == 1) out_.append("(");
    for (size_t i = 0; i < chunks.list->size; ++i) {
      if (i > 0) new_line(indent);
      print_repr(out_, chunks.list->items[i]);
    }
    if (several && level == 1) out_.append(")");
  }

  void cut_line(const Text& line, int64_t width, int64_t allowance, List& chunks) {
    const auto skip = [&](size_t at, bool space) {
      while (at < line.bytes.size() &&
             is_space(decode_utf8(line.bytes.substr(at)).code_point) == space)
        at += char_length(line.bytes, at);
      return at;
    };
    size_t begin = 0;
    for (size_t at = 0; at < line.bytes.size();) {
      const size_t end = skip(skip(at, false), true);  // a word and the white space behind it
      if (end == line.bytes.size()) width -= allowance;
      const Value candidate = rt_.slice(line, begin, end);
      if (columns_of(*candidate.text) > width) {
        if (at > begin) rt_.append(chunks, rt_.slice(line, begin, at));
        begin = at;
      }
      at = end;
    }
    rt_.append(chunks, rt_.slice(line, begin, line.bytes.size()));
  }

  TextBuilder& out_;
  Runtime& rt_;
};

Value pretty_print(Runtime& rt, Self self, Given) {
  TextBuilder out(rt);
  PrettyPrinter printer(out);
  printer.print(printer.sorted(self), 0, 0, 0);
  return out.finish();
}

Value file_size(Runtime& rt, Self self, Given arguments) {
  const auto [binary] = bind(rt, arguments, {"binary"});
  if (!self.is_number() && !self.is_string())
    rt.error("float() argument must be a string or a real number, not '{}'", type_name(self));
  const bool powers_of_two = boolean_or(binary, false);
  const double base = powers_of_two ? 1024 : 1000;
  const Value parsed = find_filter("float")(rt, self, {.positional = {&self, 1}, .named = {}});
  if (parsed.is_string()) rt.error("could not convert string to float");
  const double bytes = parsed.real;
  if (bytes == 1) return rt.borrowed_text("1 Byte");
  if (bytes < base) return rt.text(fmt::format("{} Bytes", static_cast<int64_t>(bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t prefix = 0;
  while (prefix + 1 < kPrefixes.size() && !(bytes < unit * base)) {
    unit *= base;
    ++prefix;
  }
  const char letter = powers_of_two && prefix == 0 ? 'K' : kPrefixes[prefix];
  return rt.text(
      fmt::format("{:.1f} {}{}", base * bytes / (unit * base), letter, powers_of_two ? "iB" : "B"));
}

Value xml_attributes(Runtime& rt, Self self, Given arguments) {
  const auto [auto_space] = bind(rt, arguments, {"autospace"});
  if (self.is_undefined()) rt.undefined_error(self);
  if (self.kind != Kind::dict) rt.error("'{}' object has no attribute 'items'", type_name(self));
  TextBuilder out(rt);
  bool spaced = boolean_or(auto_space, true);
  for (const Dict::Entry& entry : self.dict->view()) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    if (!entry.key.is_string()) rt.error("the name of an attribute must be a string");
    if (entry.key.text->bytes.find_first_of(" \t\n\v\f\r/>=") != std::string_view::npos)
      rt.error("invalid character in the name of an attribute: '{}'", entry.key.text->bytes);
    if (std::exchange(spaced, true)) out.append(" ");
    out.append(*escape(rt, *entry.key.text).text);
    out.append("=\"");
    out.append(*escape(rt, text_of(rt, entry.value)).text);
    out.append("\"");
  }
  return out.finish();
}

/// A prompt must be the same each time it is made.
Value random(Runtime& rt, Self, Given) {
  rt.error("the filter 'random' is refused: a prompt must not depend on chance");
}

constexpr NamedNative kLayoutFiltersByName[] = {
    {"filesizeformat", file_size}, {"pprint", pretty_print},    {"random", random},
    {"wordwrap", word_wrap},       {"xmlattr", xml_attributes},
};

}  // namespace

const std::span<const NamedNative> kLayoutFilters = kLayoutFiltersByName;

}  // namespace hasten::text::jinja
