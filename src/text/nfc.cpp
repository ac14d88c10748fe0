// SPDX-License-Identifier: Apache-2.0
// Canonical decomposition, ordering and composition (Unicode Standard, chapter 3.11).
#include "text/nfc.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "text/unicode.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

// Hangul syllables are composed by arithmetic (chapter 3.12).
constexpr uint32_t kSyllableBase = 0xAC00;
constexpr uint32_t kLeadBase = 0x1100;
constexpr uint32_t kVowelBase = 0x1161;
constexpr uint32_t kTailBase = 0x11A7;
constexpr uint32_t kNumLeads = 19;
constexpr uint32_t kNumVowels = 21;
constexpr uint32_t kNumTails = 28;
constexpr uint32_t kNumSyllables = kNumLeads * kNumVowels * kNumTails;

// A character with its canonical combining class; malformed bytes are negative.
struct Ordered {
  int32_t code_point;
  uint8_t combining_class;
};

uint8_t combining_class(uint32_t code_point) {
  const auto* end = tables::kCombiningClasses + tables::kNumCombiningClasses;
  const auto* found = std::lower_bound(
      tables::kCombiningClasses, end, code_point,
      [](const tables::CombiningClass& entry, uint32_t key) { return entry.code_point < key; });
  return found != end && found->code_point == code_point ? found->value : 0;
}

void decompose(uint32_t code_point, std::vector<Ordered>& out) {
  if (const uint32_t s = code_point - kSyllableBase; s < kNumSyllables) {
    out.push_back({static_cast<int32_t>(kLeadBase + s / (kNumVowels * kNumTails)), 0});
    out.push_back({static_cast<int32_t>(kVowelBase + s / kNumTails % kNumVowels), 0});
    if (s % kNumTails != 0) {
      out.push_back({static_cast<int32_t>(kTailBase + s % kNumTails), 0});
    }
    return;
  }
  const auto* end = tables::kDecompositions + tables::kNumDecompositions;
  const auto* found = std::lower_bound(
      tables::kDecompositions, end, code_point,
      [](const tables::Decomposition& entry, uint32_t key) { return entry.composed < key; });
  if (found == end || found->composed != code_point) {
    out.push_back({static_cast<int32_t>(code_point), combining_class(code_point)});
    return;
  }
  decompose(found->first, out);  // at most four deep in any version of Unicode
  if (found->second != 0) decompose(found->second, out);
}

// Null if NFKD makes of the character what NFD makes of it.
const char* compatibility_decomposition(uint32_t code_point) {
  if (code_point < tables::kCompatibilityDecompositions[0].code_point) return nullptr;
  const auto* end = tables::kCompatibilityDecompositions + tables::kNumCompatibilityDecompositions;
  const auto* found = std::lower_bound(tables::kCompatibilityDecompositions, end, code_point,
                                       [](const tables::CompatibilityDecomposition& entry,
                                          uint32_t key) { return entry.code_point < key; });
  return found != end && found->code_point == code_point ? found->to : nullptr;
}

// False if the character has no compatibility decomposition of its own.
bool decompose_compatibly(uint32_t code_point, std::vector<Ordered>& out) {
  const char* decomposition = compatibility_decomposition(code_point);
  if (decomposition == nullptr) return false;
  for (std::string_view to = decomposition; !to.empty();) {
    const Utf8Char next = decode_utf8(to);
    out.push_back({static_cast<int32_t>(next.code_point), combining_class(next.code_point)});
    to.remove_prefix(next.length);
  }
  return true;
}

// What the last characters decompose to: a text has few different ones at a time.
class Decomposer {
 public:
  explicit Decomposer(bool compatible) : compatible_(compatible) {}

  void append(uint32_t code_point, std::vector<Ordered>& out) {
    if (code_point < 0x80) {
      out.push_back({static_cast<int32_t>(code_point), 0});
      return;
    }
    Known& known = known_[code_point % known_.size()];
    if (known.code_point == code_point) {
      for (size_t i = 0; i < known.size; ++i) out.push_back(known.to[i]);
      return;
    }
    const size_t before = out.size();
    if (!compatible_ || !decompose_compatibly(code_point, out)) decompose(code_point, out);
    const size_t size = out.size() - before;
    if (size > known.to.size()) return;
    known.code_point = code_point;
    known.size = static_cast<uint8_t>(size);
    std::copy(out.end() - static_cast<ptrdiff_t>(size), out.end(), known.to.begin());
  }

 private:
  struct Known {
    uint32_t code_point = UINT32_MAX;
    uint8_t size = 0;
    std::array<Ordered, 4> to{};  // as long as canonical ones are
  };
  const bool compatible_;
  std::array<Known, 64> known_{};
};

// The primary composite of two characters, or 0.
uint32_t compose(uint32_t first, uint32_t second) {
  if (second < 0x300) return 0;  // the first combining mark
  if (first - kLeadBase < kNumLeads && second - kVowelBase < kNumVowels) {
    return kSyllableBase + ((first - kLeadBase) * kNumVowels + (second - kVowelBase)) * kNumTails;
  }
  if (first - kSyllableBase < kNumSyllables && (first - kSyllableBase) % kNumTails == 0 &&
      second - kTailBase - 1 < kNumTails - 1) {
    return first + (second - kTailBase);
  }
  const auto* end = tables::kCompositions + tables::kNumCompositions;
  const auto* found = std::lower_bound(
      tables::kCompositions, end, std::tuple(first, second),
      [](const tables::Composition& entry, const std::tuple<uint32_t, uint32_t>& key) {
        return std::tuple(entry.first, entry.second) < key;
      });
  if (found == end || found->first != first || found->second != second) return 0;
  return found->composed;
}

// Sorts each run of combining marks by class, keeping the order of equals.
void order_marks(std::vector<Ordered>& characters) {
  for (size_t i = 0; i < characters.size();) {
    size_t end = i + 1;
    if (characters[i].combining_class != 0) {
      bool in_order = true;
      for (; end < characters.size() && characters[end].combining_class != 0; ++end) {
        in_order =
            in_order && characters[end - 1].combining_class <= characters[end].combining_class;
      }
      const auto of_run = [&](size_t at) {
        return characters.begin() + static_cast<ptrdiff_t>(at);
      };
      const auto by_class = [](const Ordered& a, const Ordered& b) {
        return a.combining_class < b.combining_class;
      };
      if (!in_order) std::stable_sort(of_run(i), of_run(end), by_class);
    }
    i = end;
  }
}

// Joins each mark with the last starter unless something of its class or higher stands between.
void compose_all(std::vector<Ordered>& characters) {
  size_t kept = 0;
  ptrdiff_t starter = -1;
  uint8_t last_class = 0;
  // What was composed last, which runs repeat.
  int32_t last_first = -1, last_second = -1;
  uint32_t last_composed = 0;
  for (const Ordered next : characters) {
    const bool adjacent = starter >= 0 && static_cast<size_t>(starter) + 1 == kept;
    if (starter >= 0 && next.code_point >= 0 && (adjacent || last_class < next.combining_class)) {
      Ordered& first = characters[static_cast<size_t>(starter)];
      if (first.code_point != last_first || next.code_point != last_second) {
        last_first = first.code_point;
        last_second = next.code_point;
        last_composed =
            compose(static_cast<uint32_t>(last_first), static_cast<uint32_t>(last_second));
      }
      const uint32_t composed = last_composed;
      if (composed != 0) {
        first.code_point = static_cast<int32_t>(composed);
        continue;
      }
    }
    last_class = next.combining_class;
    if (next.combining_class == 0) {
      starter = next.code_point >= 0 ? static_cast<ptrdiff_t>(kept) : -1;
    }
    characters[kept++] = next;
  }
  characters.resize(kept);
}

}  // namespace

bool is_nfc_stable(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    // No character below U+0300, whose first byte is 0xCC, is touched by NFC.
    if (static_cast<uint8_t>(text[i]) < 0xCC) {
      ++i;
      continue;
    }
    const Utf8Char next = decode_utf8(text.substr(i));
    if (next.valid && char_properties(next.code_point).nfc_unstable) return false;
    i += next.length;
  }
  return true;
}

bool is_nfkc_stable(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Char next = decode_utf8(text.substr(i));
    if (next.valid && (char_properties(next.code_point).nfc_unstable ||
                       compatibility_decomposition(next.code_point) != nullptr)) {
      return false;
    }
    i += next.length;
  }
  return true;
}

std::string to_nfc(std::string_view text) {
  return to_normalization_form(text, NormalizationForm::nfc);
}

std::string to_normalization_form(std::string_view text, NormalizationForm form, size_t max_bytes) {
  // What is put in order together: 32 KiB, and the rest of a run of marks.
  constexpr size_t kAtOnce = 4096;
  const bool compatible = form == NormalizationForm::nfkc || form == NormalizationForm::nfkd;
  const bool composed = form == NormalizationForm::nfc || form == NormalizationForm::nfkc;
  Decomposer decomposer(compatible);
  std::string out;
  out.reserve(text.size());
  std::vector<Ordered> characters;
  const auto put = [&] {
    order_marks(characters);
    if (composed) compose_all(characters);
    for (const Ordered character : characters) {
      if (character.code_point >= 0) {
        append_utf8(out, static_cast<uint32_t>(character.code_point));
      } else {
        out.push_back(static_cast<char>(-1 - character.code_point));
      }
    }
    characters.clear();
  };
  // Whether nothing before it can change with it or with what follows.
  const auto begins_anew = [&](const Ordered& character) {
    return character.combining_class == 0 &&
           (!composed || character.code_point < 0 ||
            !char_properties(static_cast<uint32_t>(character.code_point)).nfc_unstable);
  };
  std::vector<Ordered> behind;
  for (size_t i = 0; i < text.size();) {
    const size_t before = characters.size();
    const Utf8Char next = decode_utf8(text.substr(i));
    if (next.valid) {
      decomposer.append(next.code_point, characters);
    } else {
      for (size_t k = 0; k < next.length; ++k) {
        characters.push_back({-1 - static_cast<uint8_t>(text[i + k]), 0});
      }
    }
    i += next.length;
    if (before < kAtOnce || !begins_anew(characters[before])) continue;
    behind.assign(characters.begin() + static_cast<ptrdiff_t>(before), characters.end());
    characters.resize(before);
    put();
    if (out.size() > max_bytes) return out;
    characters.swap(behind);
  }
  put();
  return out;
}

}  // namespace hasten::text
