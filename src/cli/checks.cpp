// SPDX-License-Identifier: Apache-2.0
// Checks of numbers, sizes and names. They say what is wanted.
#include "cli/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

namespace hasten::cli {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A whole number of `unit` microseconds.
Check duration(int64_t unit, int64_t min, int64_t max) {
  return [unit, is_whole = whole_number(min, max)](std::string& text) -> std::string {
    std::string wrong = is_whole(text);
    if (wrong.empty()) text = fmt::format("{}", *parse_number<int64_t>(text) * unit);
    return wrong;
  };
}

std::string read_byte_size(std::string& text) {
  constexpr std::string_view kPrefixes = "kmgt";
  constexpr double kMost = 0x1p60;  // of memory, that is
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto count = parse_number<double>(text.substr(0, end));
  std::string unit;
  for (const char c : text.substr(std::min(text.find_first_not_of(' ', end), text.size())))
    unit += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  const size_t prefix = kPrefixes.find(unit.empty() ? 'b' : unit[0]);
  const int power = prefix == std::string_view::npos ? 0 : static_cast<int>(prefix) + 1;
  const std::string_view rest = std::string_view(unit).substr(power > 0 ? 1 : 0);
  if (!count || !(rest.empty() || rest == "b" || (power > 0 && rest == "ib"))) {
    return fmt::format(
        "{} is no size: write a number of bytes, or one with B, KiB, MiB, GiB or TiB behind it",
        text);
  }
  const double bytes = std::ldexp(*count, 10 * power);
  if (!(bytes <= kMost)) return fmt::format("{} is too large", text);
  if (bytes > 0 && bytes < 1) return fmt::format("{} is less than a byte", text);
  text = fmt::format("{}", static_cast<int64_t>(bytes));
  return "";
}

}  // namespace

Check whole_number(int64_t min, int64_t max) {
  return [min, max](const std::string& text) -> std::string {
    const auto value = parse_number<int64_t>(text);
    if (value && *value >= min && *value <= max) return "";
    if (max < kMaxCount) return fmt::format("{} is no whole number from {} to {}", text, min, max);
    if (value && *value > max) return fmt::format("{} is too large", text);
    return fmt::format("{} is no whole number from {} on", text, min);
  };
}

Check milliseconds(int64_t min, int64_t max) { return duration(1'000, min, max); }

Check seconds(int64_t min, int64_t max) { return duration(1'000'000, min, max); }

Check number() {
  return [](const std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    return value && std::isfinite(*value) ? "" : fmt::format("{} is no number", text);
  };
}

Check number_within(double min, double max) {
  return [min, max](const std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    if (value && *value >= min && *value <= max) return "";
    return fmt::format("{} is no number from {} to {}", text, min, max);
  };
}

Check byte_size() { return read_byte_size; }

Check not_empty() {
  return [](std::string& text) -> std::string {
    return text.empty() ? "an empty name is none; leave it out for the default" : "";
  };
}

}  // namespace hasten::cli
