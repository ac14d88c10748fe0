// SPDX-License-Identifier: Apache-2.0
// What a character is: general category, white space, stability under normalisation.
#pragma once

#include <cstdint>

namespace hasten::text {

/// The general categories of the Unicode Standard, chapter 4.5.
enum class Category : uint8_t {
  // clang-format off
  cn, lu, ll, lt, lm, lo, mn, mc, me, nd, nl, no, pc, pd, ps,
  pe, pi, pf, po, sm, sc, sk, so, zs, zl, zp, cc, cf, cs, co,
  // clang-format on
};

struct CharProperties {
  Category category;
  bool white_space;   // the property White_Space: what \s matches
  bool nfc_unstable;  // may change, or change its neighbours, under NFC
};

/// The properties of any number; those above U+10FFFF are unassigned.
[[nodiscard]] CharProperties char_properties(uint32_t code_point);

/// \p{L}
[[nodiscard]] inline bool is_letter(Category c) { return c >= Category::lu && c <= Category::lo; }
/// \p{M}
[[nodiscard]] inline bool is_mark(Category c) { return c >= Category::mn && c <= Category::me; }
/// \p{N}
[[nodiscard]] inline bool is_number(Category c) { return c >= Category::nd && c <= Category::no; }

}  // namespace hasten::text
