// SPDX-License-Identifier: Apache-2.0
// The filters of numbers and of any value.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

std::string_view trimmed(std::string_view text) {
  const TextRange kept = stripped(text, nullptr, true, true);
  return text.substr(static_cast<size_t>(kept.begin), static_cast<size_t>(kept.end - kept.begin));
}

/// int(text, base), or nullopt where Python raises ValueError.
std::optional<int64_t> parse_integer(Runtime& rt, std::string_view text, int base) {
  std::string digits;
  text = trimmed(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto prefix = [&](char letter) {
    return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
  };
  const int prefix_base = prefix('x') ? 16 : prefix('o') ? 8 : prefix('b') ? 2 : 0;
  if (prefix_base != 0 && (base == prefix_base || base == 0)) {
    base = prefix_base;
    text.remove_prefix(2);
  }
  if (base == 0) base = 10;
  if (text.empty() || text.front() == '_' || text.back() == '_' ||
      text.find("__") != std::string_view::npos)
    return std::nullopt;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  if (negative) digits = fmt::format("-{}", digits);
  int64_t result = 0;
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), result, base);
  if (end != digits.data() + digits.size() || code == std::errc::invalid_argument)
    return std::nullopt;
  if (code != std::errc()) rt.error("an integer exceeds 64 bits");
  return result;
}

/// float(text), or nullopt where Python raises ValueError.
std::optional<double> parse_real(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && text.substr(1).find_first_of("+-") != 0) text.remove_prefix(1);
  double result = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (end != text.data() + text.size() || code == std::errc::invalid_argument) return std::nullopt;
  if (code != std::errc()) return text.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  return result;
}

std::optional<int64_t> truncated(double value) {
  if (!(std::fabs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Value to_integer(Runtime& rt, Self self, Given arguments) {
  const auto [otherwise, base] = bind(rt, arguments, {"default", "base"});
  const int64_t radix = integer_or(rt, base, 10);
  if (radix != 0 && (radix < 2 || radix > 36)) rt.error("int: the base must be 0 or in [2, 36]");
  if (self.kind == Kind::large) return self;
  std::optional<int64_t> result;
  if (self.is_integral()) result = self.as_integer();
  if (self.kind == Kind::real) result = truncated(self.real);
  if (self.is_string()) {
    result = parse_integer(rt, self.text->bytes, static_cast<int>(radix));
    if (!result) {
      if (const auto real = parse_real(self.text->bytes)) result = truncated(*real);
    }
  }
  if (self.is_undefined()) rt.undefined_error(self);
  if (result) return Value::of(*result);
  return otherwise != nullptr ? *otherwise : Value::of(int64_t{0});
}

Value to_real(Runtime& rt, Self self, Given arguments) {
  const auto [otherwise] = bind(rt, arguments, {"default"});
  if (self.is_undefined()) rt.undefined_error(self);
  if (self.is_number()) return Value::of(self.as_real());
  if (self.is_string()) {
    if (const auto real = parse_real(self.text->bytes)) return Value::of(*real);
  }
  return otherwise != nullptr ? *otherwise : Value::of(0.0);
}

Value absolute(Runtime& rt, Self self, Given) {
  if (self.kind == Kind::large) return self;
  if (self.kind == Kind::real) return Value::of(std::fabs(self.real));
  if (self.is_integral() && self.as_integer() >= 0) return Value::of(self.as_integer());
  return negate(rt, self);
}

/// Python's round(): to the nearest of the decimal digits that the number shows, ties to even.
double round_half_even(double value, int64_t digits) {
  if (digits > 22 || std::fabs(value) > 1e22) return value;
  if (digits < 0) {
    // No value that comes here reaches half of 10^23.
    const double scale = std::pow(10.0, static_cast<double>(-std::max<int64_t>(digits, -23)));
    return std::nearbyint(value / scale) * scale;
  }
  const std::string rounded = fmt::format("{:.{}f}", value, digits);
  double result = 0;
  std::from_chars(rounded.data(), rounded.data() + rounded.size(), result);
  return result;
}

Value round(Runtime& rt, Self self, Given arguments) {
  const auto [precision, method] = bind(rt, arguments, {"precision", "method"});
  const int64_t digits = integer_or(rt, precision, 0);
  const std::string_view how = string_or(rt, method, "common");
  if (self.is_undefined()) rt.undefined_error(self);
  if (!self.is_number()) rt.error("type {} doesn't define __round__ method", type_name(self));
  const double value = self.as_real();
  if (how == "common") {
    if (self.is_integral() && digits >= 0) return Value::of(self.as_integer());
    if (self.kind == Kind::large && digits >= 0) return self;
    const double rounded = round_half_even(value, digits);
    return self.is_integral() ? Value::of(truncated(rounded).value_or(0)) : Value::of(rounded);
  }
  if (how != "ceil" && how != "floor") rt.error("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double whole = how == "ceil" ? std::ceil(value * scale) : std::floor(value * scale);
  return Value::of((whole + 0.0) / scale);  // Python's are integers, which have no -0
}

Value default_filter(Runtime& rt, Self self, Given arguments) {
  const auto [otherwise, boolean] = bind(rt, arguments, {"default_value", "boolean"});
  if (!self.is_undefined() && !(boolean_or(boolean, false) && !truthy(self))) return self;
  return otherwise != nullptr ? *otherwise : rt.borrowed_text("");
}

Value attribute(Runtime& rt, Self self, Given arguments) {
  const auto [name] = bind(rt, arguments, {"name"}, 1);
  if (self.kind == Kind::dict) {  // a method, but never an entry
    const std::string_view text = text_of(rt, *name).bytes;
    if (find_method(Kind::dict, text) == nullptr) return rt.missing(text, "dict object");
  }
  return get_attribute(rt, self, text_of(rt, *name).bytes);
}

/// As the transformers library prints it: json.dumps with ensure_ascii off.
Value to_json(Runtime& rt, Self self, Given arguments) {
  const auto [ensure_ascii, indent, separators, sort_keys] =
      bind(rt, arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.indent = std::nullopt,
                  .ensure_ascii = boolean_or(ensure_ascii, false),
                  .sort_keys = boolean_or(sort_keys, false)};
  Runtime::Lease lease(rt);
  if (given(indent)) {
    style.item_separator = ",";
    if (indent->is_string()) {
      lease.grow(indent->text->bytes.size());
      style.indent = std::string(indent->text->bytes);
    } else {
      const int64_t width = std::max<int64_t>(0, integer_or(rt, indent, 0));
      rt.check_text_size(static_cast<size_t>(width));
      lease.grow(static_cast<size_t>(width));
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
  }
  if (given(separators)) {
    const auto parts = iterate(rt, *separators);
    if (parts.size() != 2) rt.error("separators must be a pair of strings");
    style.item_separator = text_of(rt, parts[0]).bytes;
    style.key_separator = text_of(rt, parts[1]).bytes;
    lease.grow(style.item_separator.size() + style.key_separator.size());
  }
  TextBuilder out(rt);
  print_json(out, self, style);
  return out.finish();
}

constexpr NamedNative kOtherFiltersByName[] = {
    {"abs", absolute},  {"attr", attribute}, {"d", default_filter}, {"default", default_filter},
    {"float", to_real}, {"int", to_integer}, {"round", round},      {"tojson", to_json},
};

}  // namespace

const std::span<const NamedNative> kOtherFilters = kOtherFiltersByName;

}  // namespace hasten::text::jinja
