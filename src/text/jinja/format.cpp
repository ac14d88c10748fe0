// SPDX-License-Identifier: Apache-2.0
// printf-style and brace-style formatting of values.
#include "text/jinja/format.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

// Wider padding than this serves no prompt; it keeps one format from filling the memory.
constexpr int32_t kMaxWidth = 4096;

/// What stands between the colon and the brace, or between the % and its letter.
struct Spec {
  char fill = ' ';
  char align = 0;  // one of < > ^ =, or 0 for the type's own
  char sign = '-';
  bool sign_given = false;
  bool alternate = false;
  char group = 0;  // between thousands: a comma or an underscore
  int32_t width = 0;
  std::optional<int32_t> precision;
  char type = 0;
};

/// Reads digits at `at`; nullopt if there are none.
std::optional<int32_t> read_number(Runtime& rt, std::string_view text, size_t& at) {
  int32_t number = 0;
  const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (code == std::errc::invalid_argument || text[at] == '-') return std::nullopt;
  if (code != std::errc() || number > kMaxWidth)
    rt.error("a format asks for more than {} characters", kMaxWidth);
  at = static_cast<size_t>(end - text.data());
  return number;
}

std::string digits_of(Runtime& rt, const Spec& spec, const Value& value) {
  const bool of_type = spec.type == 0 || spec.type == 'n';
  const char type = !of_type ? spec.type : value.kind == Kind::real ? 'g' : 'd';
  const bool integral = std::string_view("dxXobiuc").find(type) != std::string_view::npos;
  if (integral) {
    if (value.kind == Kind::real && type != 'x' && type != 'X' && type != 'o') {
      if (!(std::fabs(value.real) < 9.2e18)) rt.error("a float is too large for format '{}'", type);
      return fmt::format("{}", static_cast<int64_t>(value.real));
    }
    const bool is_large = value.kind == Kind::large;
    if (!value.is_integral() && !is_large) rt.error("format '{}' needs an integer", type);
    const int64_t number = is_large ? INT64_MAX : value.as_integer();
    if (type == 'c') {
      const bool surrogate = number >= 0xD800 && number < 0xE000;
      if (number < 0 || number > 0x10FFFF || surrogate)
        rt.error("format 'c' needs the number of a character");
      std::string character;
      append_utf8(character, static_cast<uint32_t>(number));
      return character;
    }
    const char* prefix = !spec.alternate ? "" : type == 'o' ? "0o" : type == 'b' ? "0b" : "0x";
    const uint64_t magnitude = is_large     ? value.large
                               : number < 0 ? 0 - static_cast<uint64_t>(number)
                                            : static_cast<uint64_t>(number);
    const char* minus = number < 0 ? "-" : "";
    if (type == 'x') return fmt::format("{}{}{:x}", minus, prefix, magnitude);
    if (type == 'X') return fmt::format("{}{}{:X}", minus, spec.alternate ? "0X" : "", magnitude);
    if (type == 'o') return fmt::format("{}{}{:o}", minus, prefix, magnitude);
    if (type == 'b') return fmt::format("{}{}{:b}", minus, prefix, magnitude);
    return fmt::format("{}{}", minus, magnitude);
  }
  const double number = value.as_real();
  const int32_t precision = spec.precision.value_or(6);
  switch (type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", number, precision);
    case 'e':
      return fmt::format("{:.{}e}", number, precision);
    case 'E':
      return fmt::format("{:.{}E}", number, precision);
    case 'g':
      return fmt::format("{:.{}g}", number, precision);
    case 'G':
      return fmt::format("{:.{}G}", number, precision);
    case '%':
      return fmt::format("{:.{}f}%", number * 100, precision);
    default:
      rt.error("unknown format code '{}' for a number", type);
  }
}

/// Refuses the first byte of a longer character, which no message could show.
void check_type(Runtime& rt, char type) {
  if (static_cast<uint8_t>(type) >= 0x80) rt.error("unsupported format character");
}

std::string grouped(const std::string& digits, char separator) {
  const size_t begin = digits.find_first_of("0123456789");
  const size_t end = std::min(digits.find_first_not_of("0123456789", begin), digits.size());
  std::string result = digits.substr(0, begin);
  for (size_t i = begin; i < end; ++i) {
    if (i > begin && (end - i) % 3 == 0) result += separator;
    result += digits[i];
  }
  return result + digits.substr(end);
}

void pad(TextBuilder& out, const Spec& spec, char default_align, const Text& body) {
  const int64_t missing = spec.width - count_chars(body.bytes);
  const char align = spec.align != 0 ? spec.align : default_align;
  const auto fill = [&](int64_t count) {
    if (count > 0) out.append(std::string(static_cast<size_t>(count), spec.fill));
  };
  const bool signed_body =
      align == '=' && !body.bytes.empty() && (body.bytes[0] == '-' || body.bytes[0] == '+');
  if (signed_body) out.append(body, 0, 1);
  if (align == '>' || align == '=') fill(missing);
  if (align == '^') fill(missing / 2);
  out.append(body, signed_body ? 1 : 0, body.bytes.size());
  if (align == '<') fill(missing);
  if (align == '^') fill(missing - missing / 2);
}

// "g" with a digit behind the point, which needs one of the `precision` digits.
std::string format_short_real(double value, int32_t precision) {
  std::string digits = fmt::format("{:.{}g}", value, precision);
  if (digits.find_first_of(".en") < digits.size()) return digits;  // also inf and nan
  const auto whole = static_cast<int32_t>(digits.size()) - (digits[0] == '-' ? 1 : 0);
  if (whole < std::max(precision, 1)) return digits + ".0";
  std::string scientific = fmt::format("{:.{}e}", value, std::max(precision, 1) - 1);
  const size_t exponent = scientific.find('e');
  size_t end = exponent;
  if (scientific.find('.') < exponent) {
    while (scientific[end - 1] == '0') --end;
    if (scientific[end - 1] == '.') --end;
  }
  return scientific.erase(end, exponent - end);
}

void format_number(TextBuilder& out, const Spec& spec, const Value& value) {
  Runtime& rt = out.runtime();
  std::string digits;
  if (value.kind == Kind::real && spec.type == 0) {
    digits =
        spec.precision ? format_short_real(value.real, *spec.precision) : format_real(value.real);
  } else {
    digits = digits_of(rt, spec, value);
  }
  if (spec.sign != '-' && digits[0] != '-') digits = fmt::format("{}{}", spec.sign, digits);
  if (spec.group != 0) digits = grouped(digits, spec.group);
  pad(out, spec, '>', Text{.bytes = digits});
}

void format_text(TextBuilder& out, const Spec& spec, const Text& text) {
  if (!spec.precision) return pad(out, spec, '<', text);
  const Value cut = out.runtime().slice(text, 0, char_offset(text.bytes, *spec.precision));
  pad(out, spec, '<', *cut.text);
}

Value repr(Runtime& rt, const Value& value) {
  TextBuilder out(rt);
  print_repr(out, value);
  return out.finish();
}

// ascii(): what is beyond ASCII as \xe9, \u4e2d or \U0001f642.
Value ascii(Runtime& rt, const Value& value) {
  const Value printed = repr(rt, value);
  rt.step(printed.text->bytes.size());
  TextBuilder out(rt);
  std::string escaped;
  for_each_piece(*printed.text, [&](std::string_view piece, bool literal) {
    escaped.clear();
    while (!piece.empty()) {
      const Utf8Char next = decode_utf8(piece);
      piece.remove_prefix(next.length);
      const uint32_t c = next.code_point;
      if (c < 0x80) {
        escaped += static_cast<char>(c);
      } else {
        escaped += c < 0x100     ? fmt::format("\\x{:02x}", c)
                   : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                                 : fmt::format("\\U{:08x}", c);
      }
      flush_long(out, escaped, literal);
    }
    out.append(escaped, literal);
  });
  return out.finish();
}

/// Walks through "… %(name)-5.2f …".
class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, const Text& format, const Value& values)
      : rt_(rt), format_(format), values_(values), out_(rt) {}

  Value run() {
    const std::string_view text = format_.bytes;
    while (true) {
      const size_t percent = std::min(text.find('%', at_), text.size());
      out_.append(format_, at_, percent);
      if (percent == text.size()) break;
      at_ = percent + 1;
      conversion();
    }
    const bool single =
        values_.kind != Kind::tuple && values_.kind != Kind::dict && values_.kind != Kind::list;
    if ((values_.kind == Kind::tuple && next_ < values_.list->size) || (single && next_ == 0))
      rt_.error("not all arguments were converted by the string's formatting");
    return format_.markup ? rt_.as_markup(*out_.finish().text) : out_.finish();
  }

 private:
  char peek() const {
    if (at_ >= format_.bytes.size()) rt_.error("incomplete format");
    return format_.bytes[at_];
  }

  void conversion() {
    std::optional<Value> named;
    if (peek() == '(') {
      const size_t close = format_.bytes.find(')', at_);
      if (close == std::string_view::npos) rt_.error("incomplete format key");
      if (values_.kind != Kind::dict) rt_.error("format requires a mapping");
      const std::string_view key = format_.bytes.substr(at_ + 1, close - at_ - 1);
      const Value* found = rt_.find(*values_.dict, key);
      if (found == nullptr) rt_.error("KeyError: '{}'", key);
      named = *found;
      next_ = 1;
      at_ = close + 1;
    }
    Spec spec;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      if (peek() == '-') spec.align = '<';
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
      if (peek() == '#') spec.alternate = true;
      if (peek() == '0') spec.fill = '0';
    }
    spec.width = read_number(rt_, format_.bytes, at_).value_or(0);
    if (peek() == '.') {
      ++at_;
      peek();
      spec.precision = read_number(rt_, format_.bytes, at_).value_or(0);
    }
    spec.type = peek();
    check_type(rt_, spec.type);
    ++at_;
    if (spec.type == '%') return out_.append("%");
    convert(spec, named ? *named : take());
  }

  void convert(Spec spec, const Value& value) {
    if (spec.fill == '0') spec.align = spec.align == '<' ? '<' : '=';
    if (spec.align == '<') spec.fill = ' ';
    const bool text_type = spec.type == 's' || spec.type == 'r' || spec.type == 'a';
    if (spec.type == 'c' && value.is_string() && count_chars(value.text->bytes) == 1)
      return format_text(out_, spec, *value.text);
    if (!text_type) {
      if (!value.is_number() || (spec.type == 'c' && !value.is_integral()))
        rt_.error("%{} format: a number is required, not {}", spec.type, type_name(value));
      return format_number(out_, spec, value);
    }
    if (spec.align == 0 || spec.align == '=') spec.align = '>';
    spec.fill = ' ';
    Value text = spec.type == 's'   ? to_text(rt_, value)
                 : spec.type == 'a' ? ascii(rt_, value)
                                    : repr(rt_, value);
    if (format_.markup) text = escape(rt_, *text.text);
    format_text(out_, spec, *text.text);
  }

  Value take() {
    const bool tuple = values_.kind == Kind::tuple;
    if (next_ >= (tuple ? values_.list->size : 1)) rt_.error("not enough arguments for format");
    return tuple ? values_.list->items[next_++] : (++next_, values_);
  }

  Runtime& rt_;
  const Text& format_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;  // value
};

/// Walks through "… {name.attribute[0]!r:>5} …".
class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, const Text& format, const Arguments& arguments)
      : rt_(rt), format_(format), arguments_(arguments), out_(rt) {}

  Value run() {
    const std::string_view text = format_.bytes;
    size_t at = 0;
    while (true) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out_.append(format_, at, brace);
      if (brace == text.size()) return out_.finish();
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out_.append(format_, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      const size_t close = text.find('}', brace);
      if (text[brace] == '}' || close == std::string_view::npos)
        rt_.error("single '{}' in a format string", text[brace]);
      field(text.substr(brace + 1, close - brace - 1));
      at = close + 1;
    }
  }

 private:
  void field(std::string_view field) {
    if (field.find('{') != std::string_view::npos)
      rt_.error("nested format fields are unsupported");
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec_text = field.substr(std::min(colon + 1, field.size()));
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    Value value = look_up(name);
    if (conversion == 'r') value = repr(rt_, value);
    if (conversion == 'a') value = ascii(rt_, value);
    if (conversion == 's') value = to_text(rt_, value);
    const Spec spec = parse_spec(spec_text, value.is_string());
    const bool to_integer = std::string_view("bcdoxX").find(spec.type) != std::string_view::npos;
    if (value.kind == Kind::real && to_integer)
      rt_.error("unknown format code '{}' for object of type 'float'", spec.type);
    const bool is_whole = value.is_integral() || value.kind == Kind::large;
    if (is_whole && spec.precision && (spec.type == 0 || to_integer))
      rt_.error("precision not allowed in integer format specifier");
    if (value.is_number() && !(value.kind == Kind::boolean && spec_text.empty()))
      return format_number(out_, spec, value);
    if (!spec_text.empty() && !value.is_string())
      rt_.error("unsupported format string passed to {}.__format__", type_name(value));
    if (spec.type != 0 && spec.type != 's')
      rt_.error("unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.group != 0 || spec.alternate || spec.sign_given || spec.align == '=')
      rt_.error("sign, '=', '#' and ',' are not allowed in the format of a string");
    format_text(out_, spec, *to_text(rt_, value).text);
  }

  Value look_up(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string_view name = path.substr(0, end);
    Value value = argument(name);
    std::string_view rest = path.substr(end);
    while (!rest.empty()) {
      const bool dot = rest[0] == '.';
      const size_t stop = std::min(dot ? rest.find_first_of(".[", 1) : rest.find(']'), rest.size());
      const std::string_view part = rest.substr(1, stop - 1);
      value = dot ? get_attribute(rt_, value, part) : get_path(rt_, value, rt_.borrowed_text(part));
      rest.remove_prefix(dot ? stop : std::min(stop + 1, rest.size()));
    }
    return value;
  }

  Value argument(std::string_view name) {
    size_t index = next_;
    const bool numbered = !name.empty() && name[0] >= '0' && name[0] <= '9';
    if (numbered || name.empty()) {
      if (numbering_ != 0 && numbering_ != (numbered ? 'm' : 'a'))
        rt_.error("cannot switch between manual and automatic field numbering");
      numbering_ = numbered ? 'm' : 'a';
    }
    if (!name.empty()) {
      const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), index);
      if (code != std::errc() || end != name.data() + name.size()) {
        for (const NamedValue& named : arguments_.named) {
          if (named.name.bytes == name) return named.value;
        }
        rt_.error("KeyError: '{}'", name);
      }
    } else {
      ++next_;
    }
    if (index >= arguments_.positional.size())
      rt_.error("replacement index {} out of range for positional arguments", index);
    return arguments_.positional[index];
  }

  /// `of_text`: the zero before a width means no sign-aware padding.
  Spec parse_spec(std::string_view text, bool of_text) {
    Spec spec;
    size_t at = 0;
    const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (text.size() >= 2 && is_align(text[1])) {
      spec.fill = text[0];
      spec.align = text[1];
      at = 2;
    } else if (is_align(peek())) {
      spec.align = text[at++];
    }
    if (peek() == '+' || peek() == '-' || peek() == ' ') {
      spec.sign = text[at++];
      spec.sign_given = true;
    }
    if (peek() == '#') spec.alternate = ++at > 0;
    if (peek() == '0') {
      ++at;
      spec.fill = '0';
      if (spec.align == 0) spec.align = of_text ? '<' : '=';
    }
    if (at < text.size()) spec.width = read_number(rt_, text, at).value_or(0);
    if (peek() == ',' || peek() == '_') spec.group = text[at++];
    if (peek() == '.') {
      ++at;
      if (at < text.size()) spec.precision = read_number(rt_, text, at);
      if (!spec.precision) rt_.error("format specifier is missing its precision");
    }
    if (at < text.size()) spec.type = text[at++];
    check_type(rt_, spec.type);
    if (at != text.size()) rt_.error("invalid format specifier '{}'", text);
    return spec;
  }

  Runtime& rt_;
  const Text& format_;
  const Arguments& arguments_;
  TextBuilder out_;
  size_t next_ = 0;     // positional argument
  char numbering_ = 0;  // of fields: by hand, automatic, or neither yet
};

}  // namespace

Value format_percent(Runtime& rt, const Text& format, const Value& values) {
  return PercentFormatter(rt, format, values).run();
}

Value format_braces(Runtime& rt, const Text& format, const Arguments& arguments) {
  return BraceFormatter(rt, format, arguments).run();
}

}  // namespace hasten::text::jinja
