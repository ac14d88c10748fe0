// SPDX-License-Identifier: Apache-2.0
// What the value of an option may be, and what to say of one that is none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace hasten::cli {

/// Above all counts that a machine can hold, and safe to do arithmetic with.
inline constexpr int64_t kMaxCount = int64_t{1} << 40;

/// Looks at the text of a value, and may rewrite it to the number that is meant. Returns what is
/// wrong with it in words; empty: nothing.
using Check = std::function<std::string(std::string& text)>;

Check whole_number(int64_t min, int64_t max = kMaxCount);
/// Whole numbers of these; the option is in microseconds.
Check milliseconds(int64_t min, int64_t max);
Check seconds(int64_t min, int64_t max);
/// Finite; the engine knows the limits.
Check number();
Check number_within(double min, double max);
Check not_empty();
/// Bytes, of "4GiB", "1.5 gib", "512M" or "1000". Less than one is refused, because 0 leaves the
/// choice to the engine.
Check byte_size();

}  // namespace hasten::cli
