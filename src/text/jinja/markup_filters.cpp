// SPDX-License-Identifier: Apache-2.0
// The filters that read or write HTML: striptags and urlize.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "text/jinja/html_entities.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/regex/regex.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

// What the parsing rules of HTML 5 make of &#128; to &#159;: windows-1252.
constexpr uint32_t kWindows1252[32] = {
    0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
    0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

// The character of a number behind "&#", as the rules have it; empty for those that go.
std::string numbered_character(uint64_t number) {
  std::string out;
  const bool goes = (number >= 1 && number <= 8) || number == 0xB ||
                    (number >= 0xE && number < 0x20) || number == 0x7F ||
                    (number >= 0xFDD0 && number <= 0xFDEF) ||
                    (number <= 0x10FFFF && (number & 0xFFFE) == 0xFFFE);
  if (number >= 0x80 && number < 0xA0) {
    append_utf8(out, kWindows1252[number - 0x80]);
  } else if (number == 0 || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)) {
    append_utf8(out, kReplacementChar);
  } else if (!goes) {
    append_utf8(out, static_cast<uint32_t>(number));
  }
  return out;
}

struct Reference {
  size_t length = 0;  // bytes of the text, the & included; 0: there is none
  std::string to = {};
};

std::string_view leading(std::string_view text, std::string_view characters) {
  return text.substr(0, std::min(text.find_first_not_of(characters), text.size()));
}

// &#65; or &#x41;, at the front of `text`.
Reference numbered_reference(std::string_view text) {
  const bool hex = text.size() > 2 && (text[2] == 'x' || text[2] == 'X');
  const std::string_view digits = hex ? leading(text.substr(3), "0123456789abcdefABCDEF")
                                      : leading(text.substr(2), "0123456789");
  if (digits.empty()) return {};
  uint64_t number = UINT64_MAX;  // one that is too large stays so
  std::from_chars(digits.data(), digits.data() + digits.size(), number, hex ? 16 : 10);
  size_t length = (hex ? 3 : 2) + digits.size();
  if (length < text.size() && text[length] == ';') ++length;
  return {length, numbered_character(number)};
}

// &amp; at the front of `text`, or the longest name that stands there without its semicolon.
Reference named_reference(std::string_view text) {
  constexpr size_t kLongest = 33;  // &CounterClockwiseContourIntegral;
  std::string_view name = text.substr(1, kLongest);
  name = name.substr(0, std::min(name.find_first_of("\t\n\f <&#"), name.size()));
  const size_t end = name.find(';');
  if (end != std::string_view::npos) name = name.substr(0, end + 1);
  for (; name.size() >= 2; name.remove_suffix(1)) {
    const auto found = std::lower_bound(
        kHtmlEntities.begin(), kHtmlEntities.end(), name,
        [](const HtmlEntity& entity, std::string_view wanted) { return entity.name < wanted; });
    if (found != kHtmlEntities.end() && found->name == name) {
      return {1 + name.size(), std::string(found->to)};
    }
  }
  return {};
}

// What HTML writes as references, as the characters themselves.
Value unescape(Runtime& rt, const Text& text) {
  rt.step(text.bytes.size());
  TextBuilder out(rt);
  size_t done = 0;
  for (size_t at = 0; (at = text.bytes.find('&', at)) < text.bytes.size();) {
    const std::string_view rest = text.bytes.substr(at);
    const Reference reference =
        rest.starts_with("&#") ? numbered_reference(rest) : named_reference(rest);
    if (reference.length == 0) {
      ++at;
      continue;
    }
    out.append(text, done, at);
    // What a user had a hand in stays marked as such.
    const Value source = rt.slice(text, at, at + reference.length);
    out.append(reference.to, !source.text->literal.empty());
    at += reference.length;
    done = at;
  }
  out.append(text, done, text.bytes.size());
  return out.finish();
}

// The text without what stands between `open` and `close`, both included. What is left behind one
// cut may be the beginning of the next.
Text without(Runtime& rt, Text text, std::string_view open, std::string_view close) {
  for (size_t from = 0;;) {
    const size_t begin = text.bytes.find(open, from);
    if (begin == std::string_view::npos) return text;
    const size_t end = text.bytes.find(close, begin);
    if (end == std::string_view::npos) return text;
    rt.step(text.bytes.size());
    TextBuilder out(rt);
    out.append(text, 0, begin);
    out.append(text, end + close.size(), text.bytes.size());
    text = *out.finish().text;
    from = begin - std::min(begin, open.size());
  }
}

Value strip_tags(Runtime& rt, Self self, Given) {
  Text text = text_of(rt, self);
  text.markup = false;  // what is left is plain text
  text = without(rt, without(rt, text, "<!--", "-->"), "<", ">");
  const Value words = find_method(Kind::string, "split")(rt, Value::of(&text), {});
  TextBuilder joined(rt);
  for (size_t i = 0; i < words.list->size; ++i) {
    if (i > 0) joined.append(" ");
    joined.append(*words.list->items[i].text);
  }
  return unescape(rt, *joined.finish().text);
}

bool matches(const regex::Regex& expression, std::string_view text) {
  std::vector<regex::Match> found;
  expression.find_all(text, found);
  return !found.empty();
}

// What urlize takes for a URL: a scheme or www and any host, a host below one of eight domains, or
// an address of numbers; then a port and a path.
bool is_url(std::string_view text) {
  static const regex::Regex expression = [] {
    const std::string letter = R"([a-zA-Z\x{130}\x{131}\x{17f}\x{212a}])";
    const std::string word = R"([\p{L}\p{N}_%\-])";
    const std::string hex = R"([\p{Nd}a-fA-F])";
    const std::string any_host = R"((?i:https?://|www\.)(?:)" + word + R"(+\.)*(?:)" + letter +
                                 R"({2,63}|(?i:xn--)[\p{L}\p{N}_%]{2,59}))";
    const std::string known_domain =
        "(?:" + word + R"({2,63}\.)+(?i:com|net|int|edu|gov|org|info|mil))";
    const std::string numbers = R"((?i:https?://)(?:\p{Nd}{1,3}(?:\.\p{Nd}{1,3}){3}|\[(?:)" + hex +
                                "{0,4}:){2}(?:" + hex + R"({0,4}:?){1,6}\]))";
    return regex::Regex(R"(\A(?:)" + any_host + "|" + known_domain + "|" + numbers +
                        R"()(?::\p{Nd}{1,5})?(?:[/?#][\s\S]*)?\z)");
  }();
  return matches(expression, text);
}

bool is_address(std::string_view text) {
  static const regex::Regex expression(
      R"(\A[\s\S]+@[\p{L}\p{N}_][\p{L}\p{N}_.\-]*\.[\p{L}\p{N}_]+\z)");
  return matches(expression, text);
}

bool is_scheme(std::string_view text) {
  static const regex::Regex expression(R"(\A[\p{L}\p{N}_.+\-]{2,}:/{0,2}\z)");
  return matches(expression, text);
}

int64_t count_of(std::string_view text, std::string_view what) {
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size()) {
    ++count;
  }
  return count;
}

// A word of a text without the punctuation around it: [begin, end) of its bytes.
struct Core {
  size_t begin = 0;
  size_t end = 0;
};

Core core_of(std::string_view word) {
  static constexpr std::string_view kOpening[] = {"(", "<", "&lt;"};
  static constexpr std::string_view kClosing[] = {")", ">", ".", ",", "\n", "&gt;"};
  Core core{0, word.size()};
  const auto skip = [&](const auto& list, const auto& step) {
    while (std::any_of(std::begin(list), std::end(list), step)) continue;
  };
  skip(kOpening, [&](std::string_view open) {
    if (!word.substr(core.begin).starts_with(open)) return false;
    core.begin += open.size();
    return true;
  });
  skip(kClosing, [&](std::string_view close) {
    if (!word.substr(core.begin, core.end - core.begin).ends_with(close)) return false;
    core.end -= close.size();
    return true;
  });
  // Brackets that the core opens belong to it, and what stands before those that close them.
  static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (const auto& [open, close] : kPairs) {
    const std::string_view middle = word.substr(core.begin, core.end - core.begin);
    const int64_t opened = count_of(middle, open);
    if (opened <= count_of(middle, close)) continue;
    const int64_t moves = std::min(opened, count_of(word.substr(core.end), close));
    for (int64_t i = 0; i < moves; ++i) core.end = word.find(close, core.end) + close.size();
  }
  return core;
}

class Urlizer {
 public:
  Urlizer(Runtime& rt, Given arguments) : out_(rt), rt_(rt) {
    const auto [limit, nofollow, target, rel, schemes] =
        bind(rt, arguments, {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
    if (given(limit)) limit_ = integer_or(rt, limit, 0);
    // The policy of Jinja's environments is noopener.
    std::map<std::string_view, Text> words{{"noopener", {.bytes = "noopener"}}};
    if (boolean_or(nofollow, false)) words.insert({"nofollow", {.bytes = "nofollow"}});
    if (given(rel)) {
      const Value given_words = find_method(Kind::string, "split")(rt, to_text(rt, *rel), {});
      for (const Value& word : given_words.list->view()) {
        words.insert({word.text->bytes, *word.text});
      }
    }
    TextBuilder all(rt);
    for (const auto& [bytes, word] : words) {
      if (!all.bytes().empty()) all.append(" ");
      all.append(word);
    }
    TextBuilder attributes(rt);
    add_attribute(attributes, "rel", *all.finish().text);
    if (given(target) && target->is_string()) add_attribute(attributes, "target", *target->text);
    attributes_ = *attributes.finish().text;
    if (!given(schemes)) return;
    for (const Value& scheme : iterate(rt, *schemes)) {
      if (!scheme.is_string()) rt.error("urlize: a {} is no URI scheme", type_name(scheme));
      schemes_.emplace_back(scheme.text->bytes);
      if (!is_scheme(schemes_.back())) {
        rt.error("'{}' is not a valid URI scheme prefix", schemes_.back());
      }
    }
  }

  Value apply(const Text& text) {
    rt_.step(2 * text.bytes.size());
    for (size_t at = 0; at < text.bytes.size();) {
      const size_t end = end_of_word(text.bytes, at);
      if (end > at) word(text, at, end);
      const size_t next = std::min(end, text.bytes.size());
      at = next < text.bytes.size() ? next + char_length(text.bytes, next) : next;
      out_.append(text, next, at);  // white space
    }
    return out_.finish();
  }

 private:
  // What a user had a hand in stays marked as such.
  static void add_attribute(TextBuilder& out, std::string_view name, const Text& value) {
    if (value.bytes.empty()) return;
    out.append(" ");
    out.append(name);
    out.append("=\"");
    out.append(*escape(out.runtime(), value).text);
    out.append("\"");
  }

  static size_t end_of_word(std::string_view bytes, size_t at) {
    while (at < bytes.size() && !is_space(decode_utf8(bytes.substr(at)).code_point)) {
      at += char_length(bytes, at);
    }
    return at;
  }

  void word(const Text& text, size_t begin, size_t end) {
    const Core core = core_of(text.bytes.substr(begin, end - begin));
    const size_t first = begin + core.begin, last = begin + core.end;
    const std::string_view middle = text.bytes.substr(first, last - first);
    out_.append(text, begin, first);
    const bool mail = middle.find('@') < middle.size() && !middle.starts_with("www.") &&
                      !middle.starts_with("@") && middle.find(':') >= middle.size();
    if (is_url(middle)) {
      const bool whole = middle.starts_with("https://") || middle.starts_with("http://");
      link(text, whole ? "" : "https://", first, last, attributes_);
      trimmed(text, first, last);
      out_.append("</a>");
    } else if (middle.starts_with("mailto:") && is_address(middle.substr(7))) {
      link(text, "", first, last, {});
      out_.append(text, first + 7, last);
      out_.append("</a>");
    } else if (mail && is_address(middle)) {
      link(text, "mailto:", first, last, {});
      out_.append(text, first, last);
      out_.append("</a>");
    } else {
      const bool extra =
          std::any_of(schemes_.begin(), schemes_.end(), [&](const std::string& scheme) {
            return middle != scheme && middle.starts_with(scheme);
          });
      if (extra) link(text, "", first, last, attributes_);
      out_.append(text, first, last);
      if (extra) out_.append("</a>");
    }
    out_.append(text, last, end);
  }

  void link(const Text& text, std::string_view scheme, size_t begin, size_t end,
            const Text& attributes) {
    out_.append("<a href=\"");
    out_.append(scheme);
    out_.append(text, begin, end);
    out_.append("\"");
    out_.append(attributes);
    out_.append(">");
  }

  // At most as many characters as were asked for.
  void trimmed(const Text& text, size_t begin, size_t end) {
    const std::string_view shown = text.bytes.substr(begin, end - begin);
    const int64_t size = count_chars(shown);
    if (!limit_ || size <= *limit_) return out_.append(text, begin, end);
    const int64_t kept = *limit_ < 0 ? std::max<int64_t>(0, size + *limit_) : *limit_;
    out_.append(text, begin, begin + char_offset(shown, kept));
    out_.append("...");
  }

  TextBuilder out_;
  Runtime& rt_;
  std::optional<int64_t> limit_;
  Text attributes_;
  std::vector<std::string> schemes_;
};

Value urlize(Runtime& rt, Self self, Given arguments) {
  Urlizer urlizer(rt, arguments);
  Text escaped = *escape(rt, text_of(rt, self)).text;
  escaped.markup = false;
  return urlizer.apply(escaped);
}

constexpr NamedNative kMarkupFiltersByName[] = {
    {"striptags", strip_tags},
    {"urlize", urlize},
};

}  // namespace

const std::span<const NamedNative> kMarkupFilters = kMarkupFiltersByName;

}  // namespace hasten::text::jinja
