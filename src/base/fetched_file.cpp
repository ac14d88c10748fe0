// SPDX-License-Identifier: Apache-2.0
// Knows a pointer by its first line, which the specification of Git LFS fixes, a page by its first
// tag and UTF-16 by its mark, or by the zeros beside its first two characters.
#include "base/fetched_file.h"

#include <algorithm>

#include "base/error.h"

namespace hasten {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Whether `text` begins with `tag`, which is in small letters.
bool begins_with_tag(std::string_view text, std::string_view tag) {
  return text.size() >= tag.size() &&
         std::equal(tag.begin(), tag.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + ('a' - 'A')) : b);
         });
}

bool is_html(std::string_view text) {
  text = without_byte_order_mark(text);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return begins_with_tag(text, "<!doctype html") || begins_with_tag(text, "<html");
}

}  // namespace

void check_is_fetched(std::string_view bytes, std::string_view name) {
  if (bytes.starts_with("version https://git-lfs.github.com/")) {
    fail(ErrorCode::invalid_data,
         "{} is not there yet, only what Git LFS put in its place: git lfs pull fetches it", name);
  }
  if (is_html(bytes)) {
    fail(ErrorCode::invalid_data,
         "{} is an HTML page and not the file (a failed download?): fetch it again", name);
  }
}

void check_is_fetched(std::span<const std::byte> bytes, std::string_view name) {
  check_is_fetched(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                   name);
}

void check_is_no_utf16(std::string_view text, std::string_view name) {
  const bool is_marked = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  // One zero alone may stand in a damaged file of any kind.
  const auto is_zero = [&](size_t i) { return text[i] == '\0'; };
  const bool has_zeros = text.size() >= 4 && is_zero(0) != is_zero(1) && is_zero(0) == is_zero(2) &&
                         is_zero(1) == is_zero(3);
  if (is_marked || has_zeros) fail(ErrorCode::invalid_data, "{} is UTF-16; save it as UTF-8", name);
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace hasten
