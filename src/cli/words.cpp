// SPDX-License-Identifier: Apache-2.0
// Sizes and counts as people read them.
#include "cli/words.h"

#include <fmt/format.h>

#include <array>

namespace hasten::cli {
namespace {

template <size_t kCount>
std::string scaled(double value, double base, const std::array<const char*, kCount>& units) {
  size_t unit = 0;
  while (value >= base && unit + 1 < kCount) {
    value /= base;
    ++unit;
  }
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

}  // namespace

std::string size_text(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024.0,
                std::array{" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string count_text(int64_t count) {
  return scaled(static_cast<double>(count), 1000.0, std::array{"", " K", " M", " B", " T"});
}

}  // namespace hasten::cli
