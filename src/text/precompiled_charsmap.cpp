// SPDX-License-Identifier: Apache-2.0
// Walks the double array of Darts-clone, each step checked.
#include "text/precompiled_charsmap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace hasten::text {
namespace {

// A unit of the array: bits 0-7 its label, 8 whether a value hangs below it, 9 the scale of its
// offset, 10-30 the offset. In a value unit, bits 0-30 are the value and bit 31 is set, so that no
// label can equal it.
constexpr uint32_t kValueBits = (uint32_t{1} << 31) - 1;

bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label(uint32_t unit) { return unit & (~kValueBits | 0xFF); }
uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & (uint32_t{1} << 9)) >> 6); }

}  // namespace

PrecompiledCharsMap::PrecompiledCharsMap(std::string_view blob) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t trie_bytes = 0;
  if (blob.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 ||
      blob.size() - sizeof trie_bytes < trie_bytes) {
    fail(ErrorCode::invalid_data,
         "a precompiled character map of {} bytes cannot hold its trie of {} bytes", blob.size(),
         trie_bytes);
  }
  blob.remove_prefix(sizeof trie_bytes);
  units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), blob.data(), trie_bytes);
  values_ = blob.substr(trie_bytes);
  values_.push_back('\0');  // should the last one not end
  for (size_t at = 0; at < values_.size();) {
    const size_t end = values_.find('\0', at);
    if (end - at > kMaxValueBytes) {
      fail(ErrorCode::invalid_data,
           "a precompiled character map holds a string of {} bytes; the limit is {}", end - at,
           kMaxValueBytes);
    }
    at = end + 1;
  }
}

PrecompiledCharsMap::Mapping PrecompiledCharsMap::find(std::string_view text, bool shortest) const {
  size_t length = 0;
  uint32_t value = 0;
  uint32_t at = offset(units_[0]);
  const size_t limit = std::min(text.size(), kMaxKeyBytes);
  for (size_t i = 0; i < limit; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (at >= units_.size() || label(units_[at]) != byte) break;
    const uint32_t unit = units_[at];
    at ^= offset(unit);
    if (!has_value(unit) || at >= units_.size()) continue;
    length = i + 1;
    value = units_[at] & kValueBits;
    if (shortest) break;
  }
  if (length == 0 || value >= values_.size()) return {};
  const std::string_view to = values_.data() + value;
  if (to.size() > kMaxGrowth * length) {
    fail(ErrorCode::invalid_data,
         "the tokenizer's character map makes {} bytes of {}; the limit is {} times as many",
         to.size(), length, kMaxGrowth);
  }
  return {.length = length, .to = to};
}

}  // namespace hasten::text
