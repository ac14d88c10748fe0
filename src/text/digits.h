// SPDX-License-Identifier: Apache-2.0
// Digits as JSON and Python have them, which differ from those of Unicode.
#pragma once

namespace hasten::text {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace hasten::text
