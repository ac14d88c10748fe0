// SPDX-License-Identifier: Apache-2.0
// What tests need to show that a file cannot choose its names such that looking them up is slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace hasten {

/// Names of 16 bytes which one std::hash, libstdc++'s (MurmurHash64A, Appleby 2008), gives the same
/// value, as its steps are undone from that value; or, for comparison, others of that length.
inline std::vector<std::string> names_of_one_hash(size_t count, bool one_hash) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  constexpr uint64_t kInverse = 0x5f7a0ea7e59b19bd;
  static_assert(kFactor * kInverse == 1);
  constexpr uint64_t kSeed = 0xc70f6907;
  const auto fold = [](uint64_t x) { return x ^ (x >> 47); };  // undoes itself
  std::vector<std::string> names;
  for (uint64_t i = 1; i <= count; ++i) {
    const uint64_t first = i * 0x9e3779b97f4a7c15;
    const uint64_t state = (kSeed ^ (16 * kFactor) ^ (fold(first * kFactor) * kFactor)) * kFactor;
    uint64_t second = fold((state ^ (one_hash ? 12345 : i)) * kInverse) * kInverse;
    std::string name(16, '\0');
    std::memcpy(name.data(), &first, sizeof first);
    std::memcpy(name.data() + sizeof first, &second, sizeof second);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace hasten
