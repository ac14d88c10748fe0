// SPDX-License-Identifier: Apache-2.0
// Code points, white space and case of UTF-8 strings.
#include "text/jinja/strings.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <string>
#include <vector>

#include "text/jinja/case.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

bool is_cased(Category category) {
  return category == Category::lu || category == Category::ll || category == Category::lt;
}

/// Of the character at `at`; unassigned at the end.
Category category_at(std::string_view text, size_t at) {
  if (at >= text.size()) return Category::cn;
  return char_properties(decode_utf8(text.substr(at)).code_point).category;
}

// The one letter whose lower case depends on its place in the word.
constexpr uint32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;

/// The characters that a strip takes away.
class StripSet {
 public:
  /// Null: white space.
  explicit StripSet(const std::string_view* characters) : is_space_(characters == nullptr) {
    if (is_space_) return;
    for (size_t at = 0; at < characters->size();) {
      const size_t length = char_length(*characters, at);
      const uint32_t key = key_of(characters->substr(at, length));
      if (key < ascii_.size()) {
        ascii_.set(key);
      } else {
        others_.push_back(key);
      }
      at += length;
    }
    std::sort(others_.begin(), others_.end());
  }

  bool contains(std::string_view character) const {
    if (is_space_) return is_space(decode_utf8(character).code_point);
    const uint32_t key = key_of(character);
    return key < ascii_.size() ? ascii_.test(key)
                               : std::binary_search(others_.begin(), others_.end(), key);
  }

 private:
  /// The code point; beyond all of them, a byte that begins none.
  static uint32_t key_of(std::string_view character) {
    const Utf8Char decoded = decode_utf8(character);
    return decoded.valid ? decoded.code_point : 0x110000U + static_cast<uint8_t>(character[0]);
  }

  bool is_space_;
  std::bitset<128> ascii_;
  std::vector<uint32_t> others_;  // sorted
};

// Up to here a search that starts anew at each place costs little: as many comparisons per byte.
constexpr size_t kShortNeedle = 256;

}  // namespace

size_t char_length(std::string_view text, size_t at) {
  if (static_cast<uint8_t>(text[at]) < 0x80) return 1;
  const Utf8Char character = decode_utf8(text.substr(at));
  return character.valid ? character.length : 1;
}

size_t previous_char(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at + char_length(text, at) == end ? at : end - 1;
}

int64_t count_chars(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += char_length(text, at)) ++count;
  return count;
}

size_t char_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += char_length(text, at);
  return at;
}

bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (needle.empty()) return from <= text.size() ? from : std::string_view::npos;
  if (from >= text.size()) return std::string_view::npos;
  const void* found =
      ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last_text(Runtime& rt, std::string_view text, std::string_view needle) {
  if (needle.size() <= kShortNeedle || needle.size() > text.size()) return text.rfind(needle);
  rt.step(text.size() * 2);
  const Runtime::Lease lease(rt, text.size() + needle.size());
  const std::string reversed(text.rbegin(), text.rend());
  const size_t at = find_text(reversed, std::string(needle.rbegin(), needle.rend()));
  return at == std::string_view::npos ? at : text.size() - at - needle.size();
}

TextRange stripped(std::string_view text, const std::string_view* characters, bool left,
                   bool right) {
  const StripSet set(characters);
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const size_t length = char_length(text, begin);
    if (!set.contains(text.substr(begin, length))) break;
    begin += length;
  }
  while (right && begin < end) {
    const size_t last = previous_char(text, end);
    if (last < begin || !set.contains(text.substr(last, end - last))) break;
    end = last;
  }
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

Value change_case(Runtime& rt, const Text& text, Case to) {
  rt.step(text.bytes.size() * 4);
  TextBuilder out(rt);
  bool first = true;         // character of the string
  bool after_cased = false;  // the character before is a letter with case
  size_t done = 0;           // bytes of the string
  std::string changed;
  for_each_piece(text, [&](std::string_view piece, bool literal) {
    changed.clear();
    for (size_t at = 0; at < piece.size();) {
      const Utf8Char character = decode_utf8(piece.substr(at));
      const size_t length = character.valid ? character.length : 1;
      const uint32_t c = character.code_point;
      const Category category = char_properties(c).category;
      CaseMapping mapping = CaseMapping::lower;
      if (to == Case::upper || (to == Case::swap && category == Category::ll)) {
        mapping = CaseMapping::upper;
      } else if ((to == Case::title && !after_cased) || (to == Case::capitalize && first)) {
        mapping = CaseMapping::title;
      } else if (to == Case::fold) {
        mapping = CaseMapping::fold;
      }
      done += length;
      if (!character.valid) {
        changed += piece.substr(at, length);
      } else if (c == kSigma && mapping == CaseMapping::lower && after_cased &&
                 !is_cased(category_at(text.bytes, done))) {
        append_utf8(changed, kFinalSigma);
      } else {
        append_case(changed, c, mapping);
      }
      after_cased = character.valid && is_cased(category);
      first = false;
      at += length;
      flush_long(out, changed, literal);
    }
    out.append(changed, literal);
  });
  return text.markup ? rt.as_markup(*out.finish().text) : out.finish();
}

bool has_case(Runtime& rt, const Text& text, bool upper) {
  rt.step(text.bytes.size());
  bool found = false;
  for (size_t at = 0; at < text.bytes.size(); at += char_length(text.bytes, at)) {
    const Category category =
        char_properties(decode_utf8(text.bytes.substr(at)).code_point).category;
    if (!is_cased(category)) continue;
    if (category != (upper ? Category::lu : Category::ll)) return false;
    found = true;
  }
  return found;
}

Value replace_text(Runtime& rt, const Text& text, const Text& from, const Text& to, int64_t count) {
  TextBuilder out(rt);
  size_t begin = 0;
  size_t search = 0;
  for (; count != 0; count -= count > 0) {
    const size_t at = find_text(text.bytes, from.bytes, search);
    if (at == std::string_view::npos) break;
    rt.step();
    out.append(text, begin, at);
    out.append(to);
    begin = at + from.bytes.size();
    search = begin;
    if (from.bytes.empty()) {  // before each character, and at the end
      if (begin == text.bytes.size()) break;
      search = begin + char_length(text.bytes, begin);
    }
  }
  out.append(text, begin, text.bytes.size());
  return text.markup ? rt.as_markup(*out.finish().text) : out.finish();
}

Value pad_text(Runtime& rt, const Text& text, int64_t width, int left_share,
               std::string_view fill) {
  if (count_chars(fill) != 1) rt.error("the fill character must be exactly one character long");
  const int64_t size = count_chars(text.bytes);
  const int64_t missing = std::max(width, size) - size;
  rt.check_text_size(static_cast<size_t>(missing));
  // str.center puts the odd character on the left when the width is odd.
  const int64_t left =
      left_share == 1 ? missing / 2 + (missing & width & 1) : missing * left_share / 2;
  TextBuilder out(rt);
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (int64_t i = left; i < missing; ++i) out.append(fill);
  return text.markup ? rt.as_markup(*out.finish().text) : out.finish();
}

}  // namespace hasten::text::jinja
