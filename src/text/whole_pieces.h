// SPDX-License-Identifier: Apache-2.0
// Remembers short pieces that no step cuts: texts repeat them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace hasten::text {

/// A set that forgets. Pieces are told by all their bytes. One thread at a time.
class WholePieces {
 public:
  static constexpr size_t kMaxBytes = 7;

  /// Of a piece of 1 to kMaxBytes bytes, the front of `text`, which may be read beyond it.
  static uint64_t key_of(size_t length, std::string_view text) {
    uint64_t key = 0;
    std::memcpy(&key, text.data(), text.size() < sizeof key ? length : sizeof key);
    const size_t bits = 8 * length;
    return (key & ((uint64_t{1} << bits) - 1)) | uint64_t{length} << 56;
  }
  bool has(uint64_t key) const { return !keys_.empty() && keys_[slot_of(key)] == key; }
  void add(uint64_t key) {
    if (keys_.empty()) {
      // Clearing the set costs as much as cutting a few pieces: a short text does without.
      if (++num_missed_ < kWorthASet) return;
      keys_.resize(kSlots);
    }
    keys_[slot_of(key)] = key;
  }

 private:
  static constexpr size_t kSlots = 1024;  // 8 KiB
  // Pieces that someone aims at one slot cost what they would without the set.
  static size_t slot_of(uint64_t key) { return key * 0x9E3779B97F4A7C15ULL >> 54; }
  static_assert(kSlots == size_t{1} << (64 - 54));

  static constexpr int kWorthASet = 64;

  std::vector<uint64_t> keys_;  // [kSlots], 0: none; or not yet made
  int num_missed_ = 0;
};
static_assert(std::endian::native == std::endian::little);

}  // namespace hasten::text
