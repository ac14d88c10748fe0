// SPDX-License-Identifier: Apache-2.0
// Python's view of strings: code points, white space, case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/jinja/runtime.h"

namespace hasten::text::jinja {

/// Bytes of the character at `at`; a byte that begins none counts as one character.
size_t char_length(std::string_view text, size_t at);
int64_t count_chars(std::string_view text);
/// The byte at which the character that ends at byte `end` begins.
size_t previous_char(std::string_view text, size_t end);
/// The byte at which character number `index` begins; text.size() if there are fewer.
size_t char_offset(std::string_view text, int64_t index);

bool is_space(uint32_t code_point);  // str.isspace
/// Where `needle` first begins at `from` or later, or npos. Linear in both, as the standard
/// library's search is not.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);
/// Where it begins last, or npos.
size_t find_last_text(Runtime& rt, std::string_view text, std::string_view needle);

/// Bytes [begin, end) that str.strip(characters) leaves; without `characters`, white space goes.
TextRange stripped(std::string_view text, const std::string_view* characters, bool left,
                   bool right);

enum class Case { upper, lower, title, capitalize, swap, fold };
/// The string in another case, its provenance kept.
Value change_case(Runtime& rt, const Text& text, Case to);

/// str.isupper or str.islower: has letters with case, all of that one.
bool has_case(Runtime& rt, const Text& text, bool upper);

/// str.replace; `count` < 0 replaces all.
Value replace_text(Runtime& rt, const Text& text, const Text& from, const Text& to, int64_t count);
/// Moves text that is being made into `out` once it is long: what is made on the way stays small.
inline void flush_long(TextBuilder& out, std::string& text, bool literal) {
  constexpr size_t kLong = 4096;
  if (text.size() < kLong) return;
  out.append(text, literal);
  text.clear();
}
/// Padded to `width` characters; the left side gets `left_share` halves of the padding, the odd
/// character as str.center places it.
Value pad_text(Runtime& rt, const Text& text, int64_t width, int left_share, std::string_view fill);

}  // namespace hasten::text::jinja
