// SPDX-License-Identifier: Apache-2.0
// A recursive descent over Python's literals.
#include "text/python_literal.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/json.h"
#include "text/blanks.h"
#include "text/digits.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

constexpr int kMaxLiteralDepth = 64;
constexpr size_t kMaxNumber = 64;  // longer than any that a double needs

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_quote(char c) { return c == '"' || c == '\''; }

/// Reads from the front of a text. After a failure what was read is worth nothing.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}

  std::optional<std::string> read() {
    std::optional<std::string> value = read_value(0);
    skip_blanks();
    return rest_.empty() ? value : std::nullopt;
  }

 private:
  char peek(size_t at = 0) const { return at < rest_.size() ? rest_[at] : '\0'; }
  void skip_blanks() { rest_.remove_prefix(num_blanks(rest_)); }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string> read_value(int depth) {
    skip_blanks();
    const char c = peek();
    if (c == '[' || c == '(' || c == '{') {
      if (depth >= kMaxLiteralDepth) return std::nullopt;
      rest_.remove_prefix(1);
      return c == '{' ? read_dict(depth + 1) : read_list(c == '[' ? ']' : ')', depth + 1);
    }
    if (is_digit(c) || c == '-' || c == '+' || c == '.') return read_number();
    if (begins_string()) {
      const std::optional<std::string> text = read_strings();
      if (!text) return std::nullopt;
      return json::serialize(json::Value(*text));
    }
    size_t end = 0;
    while (is_word(peek(end))) ++end;
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (word == "True") return "true";
    if (word == "False") return "false";
    if (word == "None") return "null";
    if (depth > 0 && (word == "true" || word == "false" || word == "null"))
      return std::string(word);
    return std::nullopt;
  }

  /// What follows the opening bracket. A single value in parentheses is itself.
  std::optional<std::string> read_list(char close, int depth) {
    std::string out = "[";
    int num_values = 0;
    bool has_comma = false;
    for (skip_blanks(); peek() != close; skip_blanks()) {
      if (num_values > 0 && !std::exchange(has_comma, false)) return std::nullopt;
      const std::optional<std::string> value = read_value(depth);
      if (!value) return std::nullopt;
      if (num_values++ > 0) out += ", ";
      out += *value;
      skip_blanks();
      has_comma = take(",");
    }
    rest_.remove_prefix(1);
    if (close == ')' && num_values == 1 && !has_comma) return out.substr(1);
    return out + "]";
  }

  std::optional<std::string> read_dict(int depth) {
    std::string out = "{";
    bool may_go_on = true;
    for (skip_blanks(); peek() != '}'; skip_blanks()) {
      if (!std::exchange(may_go_on, false)) return std::nullopt;
      std::optional<std::string> key = read_value(depth);
      if (!key || key->starts_with('[') || key->starts_with('{')) return std::nullopt;
      if (!key->starts_with('"')) key = '"' + *key + '"';
      skip_blanks();
      if (!take(":")) return std::nullopt;
      const std::optional<std::string> value = read_value(depth);
      if (!value) return std::nullopt;
      if (out.size() > 1) out += ", ";
      out += *key + ": " + *value;
      skip_blanks();
      may_go_on = take(",");
    }
    rest_.remove_prefix(1);
    return out + "}";
  }

  /// Digits off the front, with single underscores between them; false if there are none.
  bool take_digits(std::string& out) {
    const size_t before = out.size();
    while (is_digit(peek()) || (peek() == '_' && out.size() > before && is_digit(peek(1)))) {
      if (peek() != '_') out += peek();
      rest_.remove_prefix(1);
    }
    return out.size() > before;
  }

  std::optional<std::string> read_number() {
    std::string out;
    if (peek() == '-') out += '-';
    if (peek() == '-' || peek() == '+') rest_.remove_prefix(1);
    skip_blanks();
    if (peek() == '0' && is_word(peek(1)) && !is_digit(peek(1)) && peek(1) != 'e' &&
        peek(1) != 'E' && peek(1) != '_') {
      return read_based_number(out);
    }
    std::string whole;
    const bool has_whole = take_digits(whole);
    std::string fraction, exponent;
    const bool has_point = take(".");
    if (has_point && !take_digits(fraction)) {
      if (!has_whole) return std::nullopt;
      fraction = "0";
    }
    if (!has_whole && !has_point) return std::nullopt;
    if (peek() == 'e' || peek() == 'E') {
      rest_.remove_prefix(1);
      exponent = "e";
      if (peek() == '-' || peek() == '+') {
        exponent += peek();
        rest_.remove_prefix(1);
      }
      if (!take_digits(exponent)) return std::nullopt;
    }
    if (is_word(peek())) return std::nullopt;  // such as 1j
    const size_t zeros = std::min(whole.find_first_not_of('0'), whole.size());
    const bool is_integer = !has_point && exponent.empty();
    if (is_integer && zeros > 0 && zeros < whole.size()) return std::nullopt;  // 007
    whole.erase(0, zeros);
    out += whole.empty() ? "0" : whole;
    if (has_point) out += '.' + fraction;
    out += exponent;
    if (out.size() > kMaxNumber) return std::nullopt;
    return out;
  }

  /// 0x1F, 0o17, 0b11, of 64 bits at most.
  std::optional<std::string> read_based_number(const std::string& sign) {
    const char letter = static_cast<char>(peek(1) | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (base == 0) return std::nullopt;
    rest_.remove_prefix(2);
    std::string digits;
    for (; is_word(peek()); rest_.remove_prefix(1))
      if (peek() != '_') digits += peek();
    uint64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
    if (error != std::errc() || stop != end) return std::nullopt;
    return sign + std::to_string(value);
  }

  bool begins_string() const {
    const char c = peek();
    return is_quote(c) || (is_quote(peek(1)) && (c == 'r' || c == 'R' || c == 'u' || c == 'U'));
  }

  /// Strings that stand side by side are one.
  std::optional<std::string> read_strings() {
    std::string out;
    for (; begins_string(); skip_blanks())
      if (!read_string(out)) return std::nullopt;
    return out;
  }

  bool read_string(std::string& out) {
    high_ = 0;
    const bool is_raw = peek() == 'r' || peek() == 'R';
    if (!is_quote(peek())) rest_.remove_prefix(1);
    std::string quotes(1, peek());
    if (rest_.starts_with(std::string(3, peek()))) quotes.assign(3, peek());
    rest_.remove_prefix(quotes.size());
    while (!take(quotes)) {
      if (rest_.empty()) return false;
      if (peek() != '\\') {
        out += peek();
        rest_.remove_prefix(1);
      } else if (is_raw) {
        out += rest_.substr(0, 2);
        rest_.remove_prefix(std::min<size_t>(rest_.size(), 2));
      } else {
        rest_.remove_prefix(1);
        if (!read_escape(out)) return false;
      }
    }
    return true;
  }

  /// What follows a backslash.
  bool read_escape(std::string& out) {
    if (rest_.empty()) return false;
    const char c = rest_[0];
    if (c >= '0' && c <= '7') return read_code(3, 8, out);
    rest_.remove_prefix(1);
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      out += kMeant[letter];
      return true;
    }
    switch (c) {
      case '\n':  // the line goes on
        return true;
      case 'N':
        return false;
      case 'x':
        return read_code(2, 16, out);
      case 'u':
        return read_code(4, 16, out);
      case 'U':
        return read_code(8, 16, out);
      default:  // Python keeps the backslash of what it does not know
        out += '\\';
        out += c;
        return true;
    }
  }

  /// A character as at most so many octal digits, or exactly so many hexadecimal ones.
  bool read_code(size_t max_digits, int base, std::string& out) {
    uint32_t code = 0;
    const std::string_view digits = rest_.substr(0, max_digits);
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, code, base);
    const auto num_digits = static_cast<size_t>(stop - digits.data());
    if (error != std::errc() || code > 0x10FFFF || (base == 16 && num_digits < max_digits))
      return false;
    rest_.remove_prefix(num_digits);
    // Models write pairs of surrogates, as JSON has them; alone they are no character.
    const bool is_high = code >= 0xD800 && code < 0xDC00;
    const bool is_low = code >= 0xDC00 && code < 0xE000;
    if (is_low && high_ != 0 && out.size() == high_end_) {
      out.resize(out.size() - kReplacementUtf8.size());
      append_utf8(out, 0x10000 + ((high_ - 0xD800) << 10) + (code - 0xDC00));
    } else {
      append_utf8(out, is_high || is_low ? kReplacementChar : code);
    }
    high_ = is_high ? code : 0;
    high_end_ = out.size();
    return true;
  }

  std::string_view rest_;
  uint32_t high_ = 0;  // the surrogate that has just been read, and where its place-holder ends
  size_t high_end_ = 0;
};

}  // namespace

std::optional<std::string> json_of_python(std::string_view literal) {
  return LiteralReader(literal).read();
}

}  // namespace hasten::text
