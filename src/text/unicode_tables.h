// SPDX-License-Identifier: Apache-2.0
// The shape of the generated Unicode tables; only unicode.cpp and nfc.cpp read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "text/unicode.h"

namespace hasten::text::tables {

inline constexpr uint32_t kBlockSize = 256;  // code points

struct Decomposition {
  uint32_t composed;
  uint32_t first;
  uint32_t second;  // 0: decomposes to `first` alone
};

struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t composed;
};

// What NFKD makes of a character where NFD makes something else, whole and in order, as UTF-8.
struct CompatibilityDecomposition {
  uint32_t code_point;
  const char* to;
};

struct CombiningClass {
  uint32_t code_point;
  uint8_t value;
};

// kBlocks[kBlockOf[c / 256]][c % 256] is a letter; its place in A-Z a-z 0-9 - _ indexes kClasses.
extern const CharProperties kClasses[];
extern const uint8_t kBlockOf[0x110000 / kBlockSize];
extern const char kBlocks[][kBlockSize + 1];

// Each sorted by its first field (kCompositions by first, then second). Hangul is not in them.
extern const Decomposition kDecompositions[];
extern const size_t kNumDecompositions;
extern const Composition kCompositions[];
extern const size_t kNumCompositions;
extern const CompatibilityDecomposition kCompatibilityDecompositions[];
extern const size_t kNumCompatibilityDecompositions;
extern const CombiningClass kCombiningClasses[];
extern const size_t kNumCombiningClasses;

}  // namespace hasten::text::tables
