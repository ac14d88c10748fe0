// SPDX-License-Identifier: Apache-2.0
// The scanner: a mode for text and one for the inside of tags.
#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// \r\n and \r become \n, and one newline at the end goes.
std::string_view normalized(std::string_view source, Arena& arena) {
  if (source.find('\r') != std::string_view::npos) {
    const std::span<char> copy = arena.array<char>(source.size());
    size_t size = 0;
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
      copy[size++] = source[i] == '\r' ? '\n' : source[i];
    }
    source = {copy.data(), size};
  }
  if (source.ends_with('\n')) source.remove_suffix(1);
  return source;
}

class Scanner {
 public:
  Scanner(std::string_view source, Arena& arena)
      : source_(normalized(source, arena)), arena_(arena) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_and_tag();
    add(TokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool sees(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  void add(TokenKind kind, std::string_view text) {
    tokens_.push_back({.kind = kind, .line = line_, .text = text});
  }
  void advance(size_t to) {
    line_ += static_cast<int32_t>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                             source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  void skip_space() {
    const std::string_view rest = source_.substr(at_);
    const TextRange kept = stripped(rest, nullptr, true, false);
    advance(at_ + static_cast<size_t>(kept.begin));
  }

  /// Text up to the next tag, which is entered.
  void text_and_tag() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        add(TokenKind::data, source_.substr(at_));
        at_ = source_.size();
        return;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    add_text(tag, source_[tag + 1] != '{');
    advance(tag + 2);
    if (peek() == '-' || peek() == '+') ++at_;
    const char type = source_[tag + 1];
    if (type == '#') return comment();
    if (type == '{') return inside(TokenKind::variable_begin, TokenKind::variable_end, "}}");
    if (!raw_block()) inside(TokenKind::block_begin, TokenKind::block_end, "%}");
  }

  /// The text before the tag at `tag`, without the white space that the tag takes away.
  void add_text(size_t tag, bool is_block) {
    std::string_view text = source_.substr(at_, tag - at_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') {
      text = text.substr(0, static_cast<size_t>(stripped(text, nullptr, false, true).end));
    } else if (sign != '+' && is_block) {
      const size_t newline = text.rfind('\n');
      const bool line_starts = at_ == 0 || source_[at_ - 1] == '\n';
      if (newline != std::string_view::npos || line_starts) {
        const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        const TextRange kept = stripped(text.substr(line), nullptr, true, false);
        if (kept.begin == kept.end) text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenKind::data, text);
  }

  /// After the end of a block or comment tag: one newline goes, or all white space after `-`.
  void after_tag(char sign) {
    if (sign == '-') return skip_space();
    if (sign != '+' && peek() == '\n') advance(at_ + 1);
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) syntax_error(line_, "missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2);
    after_tag(sign);
  }

  /// Reads "endraw" or "raw", white space around it and the tag's end; the sign before the end.
  /// False, and nothing read, if something else stands there.
  bool tag_of(std::string_view word, char& sign) {
    const size_t begin = at_;
    const int32_t line = line_;
    skip_space();
    if (sees(word) && !is_name_part(peek(word.size()))) {
      at_ += word.size();
      skip_space();
      sign = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (sign != '\0') ++at_;
      if (sees("%}")) {
        at_ += 2;
        return true;
      }
    }
    at_ = begin;
    line_ = line;
    return false;
  }

  /// {% raw %} … {% endraw %}, after its opening brace; false if the tag is another one.
  bool raw_block() {
    char sign = '\0';
    const size_t before = at_;
    const int32_t line = line_;
    if (!tag_of("raw", sign)) return false;
    if (sign == '+') {  // which Jinja does not know here
      at_ = before;
      line_ = line;
      return false;
    }
    if (sign == '-') skip_space();
    const size_t begin = at_;
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
      advance(tag + 2);
      if (peek() == '-' || peek() == '+') ++at_;
      if (!tag_of("endraw", sign)) continue;
      const size_t end = at_;
      at_ = begin;
      add_text(tag, true);
      at_ = end;
      after_tag(sign);
      return true;
    }
    syntax_error(line_, "missing end of raw directive");
  }

  /// The tokens between the braces of a tag.
  void inside(TokenKind begin, TokenKind end, std::string_view closing) {
    add(begin, {});
    std::string brackets;  // that are open; the tag does not end inside them
    while (true) {
      skip_space();
      if (at_ >= source_.size()) syntax_error(line_, "unexpected end of template inside a tag");
      if (brackets.empty()) {
        const bool block = end == TokenKind::block_end;
        const char sign = peek() == '-' || (block && peek() == '+') ? peek() : '\0';
        if (source_.substr(at_ + (sign != '\0')).starts_with(closing)) {
          at_ += closing.size() + (sign != '\0');
          add(end, {});
          if (block) return after_tag(sign);
          return sign == '-' ? skip_space() : void();
        }
      }
      token(brackets);
    }
  }

  void token(std::string& brackets) {
    const char c = peek();
    if (is_digit(c)) return number();
    if (is_name_start(c)) {
      size_t end = at_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      add(TokenKind::name, source_.substr(at_, end - at_));
      at_ = end;
      return;
    }
    if (c == '"' || c == '\'') return string(c);
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (sees(two)) return symbol(2);
    }
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos || c == '\0')
      syntax_error(line_, fmt::format("unexpected character at byte {}", at_));
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        syntax_error(line_, fmt::format("unexpected '{}'", c));
      brackets.pop_back();
    }
    symbol(1);
  }

  void symbol(size_t size) {
    add(TokenKind::symbol, source_.substr(at_, size));
    at_ += size;
  }

  /// Digits of a base with single underscores between them, appended to `digits`.
  void read_digits(std::string& digits, int base) {
    while (true) {
      const int value = hex_value(peek());
      if (value >= 0 && value < base) {
        digits += peek();
      } else if (peek() != '_' || hex_value(peek(1)) < 0 || hex_value(peek(1)) >= base) {
        return;
      }
      ++at_;
    }
  }

  void number() {
    std::string digits;
    const char letter = static_cast<char>(peek(1) | 0x20);
    const int base = peek() != '0'   ? 10
                     : letter == 'x' ? 16
                     : letter == 'o' ? 8
                     : letter == 'b' ? 2
                                     : 10;
    if (base != 10 && hex_value(peek(2)) >= 0 && hex_value(peek(2)) < base) {
      at_ += 2;
      read_digits(digits, base);
      return integer(digits, base);
    }
    read_digits(digits, 10);
    const bool after_dot = !tokens_.empty() && tokens_.back().is_symbol(".");
    bool real = false;
    if (!after_dot && peek() == '.' && is_digit(peek(1))) {
      digits += '.';
      ++at_;
      read_digits(digits, 10);
      real = true;
    }
    const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!after_dot && (peek() | 0x20) == 'e' && is_digit(peek(1 + sign))) {
      digits += source_.substr(at_, 1 + sign);
      at_ += 1 + sign;
      read_digits(digits, 10);
      real = true;
    }
    if (!real) return integer(digits, 10);
    Token token{.kind = TokenKind::real, .line = line_};
    if (std::from_chars(digits.data(), digits.data() + digits.size(), token.real).ec != std::errc())
      syntax_error(line_, "a number is out of range");
    tokens_.push_back(token);
  }

  void integer(const std::string& digits, int base) {
    Token token{.kind = TokenKind::integer, .line = line_};
    if (std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base).ec !=
        std::errc())
      syntax_error(line_, "an integer exceeds 64 bits");
    tokens_.push_back(token);
  }

  void string(char quote) {
    const int32_t line = line_;
    const size_t begin = at_ + 1;
    size_t end = begin;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) syntax_error(line, "a string is not closed");
    const std::string_view raw = source_.substr(begin, end - begin);
    const bool plain = raw.find('\\') == std::string_view::npos;
    add(TokenKind::string, plain ? raw : unescaped(raw));
    advance(end + 1);
  }

  std::string_view unescaped(std::string_view raw) {
    std::string out;
    for (size_t i = 0; i < raw.size();) {
      if (raw[i] != '\\' || i + 1 >= raw.size()) {
        out += raw[i++];
        continue;
      }
      i += 1 + escape_sequence(out, raw.substr(i + 1));
    }
    return arena_.copy(std::string_view(out));
  }

  /// Appends what "\rest…" stands for; the bytes of `rest` that it takes. Unknown sequences stand
  /// for themselves, as in Python.
  size_t escape_sequence(std::string& out, std::string_view rest) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const size_t letter = kLetters.find(rest[0]);
    if (letter != std::string_view::npos) {
      out += kMeanings[letter];
      return 1;
    }
    if (rest[0] == '\n') return 1;
    const size_t hex_digits = rest[0] == 'x' ? 2 : rest[0] == 'u' ? 4 : rest[0] == 'U' ? 8 : 0;
    uint32_t code_point = 0;
    if (hex_digits > 0) {
      for (size_t i = 1; i <= hex_digits; ++i) {
        const int value = i < rest.size() ? hex_value(rest[i]) : -1;
        if (value < 0) syntax_error(line_, "truncated \\x, \\u or \\U escape in a string");
        code_point = code_point * 16 + static_cast<uint32_t>(value);
      }
      const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
      if (code_point > 0x10FFFF) syntax_error(line_, "illegal Unicode character in a string");
      append_utf8(out, surrogate ? kReplacementChar : code_point);
      return 1 + hex_digits;
    }
    size_t octal = 0;
    while (octal < 3 && octal < rest.size() && rest[octal] >= '0' && rest[octal] <= '7')
      code_point = code_point * 8 + static_cast<uint32_t>(rest[octal++] - '0');
    if (octal > 0) {
      append_utf8(out, code_point);
      return octal;
    }
    out += '\\';
    return 0;
  }

  std::string_view source_;
  Arena& arena_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int32_t line_ = 1;
};

}  // namespace

void syntax_error(int32_t line, std::string_view message) {
  fail(ErrorCode::invalid_data, "the chat template does not parse: line {}: {}", line, message);
}

std::vector<Token> tokenize(std::string_view source, Arena& arena) {
  return Scanner(source, arena).run();
}

}  // namespace hasten::text::jinja
