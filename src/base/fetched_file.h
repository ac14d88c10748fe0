// SPDX-License-Identifier: Apache-2.0
// Tells files from what stands in their place when a download failed, and text that is not UTF-8.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hasten {

/// Throws Error{invalid_data} where `bytes` are the pointer that Git LFS leaves in the place of a
/// large file, or an HTML page. `name` stands for the file in the error.
void check_is_fetched(std::string_view bytes, std::string_view name);
void check_is_fetched(std::span<const std::byte> bytes, std::string_view name);

/// Throws Error{invalid_data} where a text that should begin with two letters of ASCII is UTF-16.
void check_is_no_utf16(std::string_view text, std::string_view name);

/// The text behind the mark that some editors put before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace hasten
