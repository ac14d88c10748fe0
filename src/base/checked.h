// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic on numbers from outside: overflow is a value (nullopt), never a wrap.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace hasten {

/// a + b, or nullopt when it does not fit.
[[nodiscard]] inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// a * b, or nullopt when it does not fit.
[[nodiscard]] inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// An unsigned number from a file as int64_t, or nullopt when it is larger than any size can be.
[[nodiscard]] inline std::optional<int64_t> checked_size(uint64_t value) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(value);
}

/// ceil(a / b) for a >= 0, b > 0.
[[nodiscard]] constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
/// a rounded up to a multiple of b.
[[nodiscard]] constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace hasten
