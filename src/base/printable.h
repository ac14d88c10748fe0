// SPDX-License-Identifier: Apache-2.0
// Names from files, made safe to print in errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hasten {

/// The text in quotes: bytes outside printable ASCII as \xNN, cut after the `longest` first.
[[nodiscard]] std::string printable(std::string_view text, size_t longest = 80);

}  // namespace hasten
