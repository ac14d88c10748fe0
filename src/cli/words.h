// SPDX-License-Identifier: Apache-2.0
// Words for people: large counts and JSON as they read them, and text from outside made safe to
// show.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace hasten::cli {

/// "1.24 B", "494 M", "17".
std::string count_text(int64_t count);

/// JSON whose numbers people read: 0.0131 rather than 1.31E-2.
std::string json_text(const json::Value& value);

/// `text` from a file or a client, safe for a terminal and for JSON: control characters,
/// newlines unless `keep_newlines`, and bytes that are no UTF-8 become U+FFFD.
std::string safe_text(std::string_view text, bool keep_newlines = false);

/// `bytes` such that what they are can be seen: line ends, quotes and backslashes as in C, other
/// control characters and those that show nothing as \u200b, bytes of no whole character as \xe4.
/// Different ones are written differently; letters that look alike stay as they are.
std::string escaped_text(std::string_view bytes);
/// Every byte as \xe4.
std::string escaped_bytes(std::string_view bytes);

}  // namespace hasten::cli
