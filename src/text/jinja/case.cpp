// SPDX-License-Identifier: Apache-2.0
// Looks characters up in the generated case tables.
#include "text/jinja/case.h"

#include <algorithm>
#include <optional>

#include "text/unicode.h"
#include "text/utf8.h"

namespace hasten::text::jinja {
namespace {

std::optional<uint32_t> look_up(std::span<const tables::CaseRun> runs, uint32_t c) {
  const auto after = std::upper_bound(runs.begin(), runs.end(), c,
                                      [](uint32_t v, const auto& run) { return v < run.first; });
  if (after == runs.begin()) return std::nullopt;
  const tables::CaseRun& run = after[-1];
  if (c > run.last || (c - run.first) % run.step != 0) return std::nullopt;
  return static_cast<uint32_t>(static_cast<int32_t>(c) + run.delta);
}

const tables::CaseExpansion* look_up(std::span<const tables::CaseExpansion> list, uint32_t c) {
  const auto at = std::lower_bound(list.begin(), list.end(), c, [](const auto& entry, uint32_t v) {
    return entry.code_point < v;
  });
  return at != list.end() && at->code_point == c ? &*at : nullptr;
}

// Folding is the lower case of the upper case, but for the dotless i, the capital sharp s, and
// Cherokee, whose small letters came late and fold to the capital ones.
void append_folded(std::string& out, uint32_t c) {
  const bool cherokee = c >= 0x13A0 && c <= 0x13F5;
  if (c == 0x131 || cherokee) return append_utf8(out, c);
  if (c == 0x1E9E) {
    out += "ss";
    return;
  }
  if (c >= 0x13F8 && c <= 0x13FD) return append_utf8(out, c - 8);
  if (c >= 0xAB70 && c <= 0xABBF) return append_utf8(out, c - 0xAB70 + 0x13A0);
  std::string upper;
  append_case(upper, c, CaseMapping::upper);
  for (std::string_view rest = upper; !rest.empty();) {
    const Utf8Char next = decode_utf8(rest);
    append_case(out, next.code_point, CaseMapping::lower);
    rest.remove_prefix(next.length);
  }
}

}  // namespace

void append_case(std::string& out, uint32_t c, CaseMapping mapping) {
  if (c < 0x80) {
    const bool to_lower = mapping == CaseMapping::lower || mapping == CaseMapping::fold;
    const bool from = to_lower ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
    out += static_cast<char>(from ? c ^ 0x20 : c);
    return;
  }
  // Letters of scripts without case: most of those beyond the alphabets that have one.
  if (char_properties(c).category == Category::lo) return append_utf8(out, c);
  if (mapping == CaseMapping::fold) return append_folded(out, c);
  const auto expansions = mapping == CaseMapping::upper   ? tables::kUpperExpansions
                          : mapping == CaseMapping::lower ? tables::kLowerExpansions
                                                          : tables::kTitleExpansions;
  if (const tables::CaseExpansion* expansion = look_up(expansions, c)) {
    out += expansion->to;
    return;
  }
  std::optional<uint32_t> mapped;
  if (mapping == CaseMapping::title) mapped = look_up(tables::kTitleRuns, c);
  if (!mapped)
    mapped = look_up(mapping == CaseMapping::lower ? tables::kLowerRuns : tables::kUpperRuns, c);
  append_utf8(out, mapped.value_or(c));
}

}  // namespace hasten::text::jinja
