// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 as its reference code has it.
#include "base/siphash.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <random>

namespace hasten {
namespace {

using State = std::array<uint64_t, 4>;

void mix(State& v, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }
}

void absorb(State& v, uint64_t word) {
  v[3] ^= word;
  mix(v, 2);
  v[0] ^= word;
}

uint64_t squeeze(State& v) {
  mix(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

}  // namespace

static_assert(std::endian::native == std::endian::little);
Hash128 siphash(std::string_view bytes, const Hash128& key) {
  State v = {key.low ^ 0x736f6d6570736575ULL, key.high ^ 0x646f72616e646f6dULL ^ 0xeeULL,
             key.low ^ 0x6c7967656e657261ULL, key.high ^ 0x7465646279746573ULL};
  const uint64_t size = bytes.size();
  uint64_t word = 0;
  for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    absorb(v, word);
  }
  word = size << 56;
  for (size_t i = 0; i < bytes.size(); ++i)
    word |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  absorb(v, word);

  Hash128 hash;
  v[2] ^= 0xeeULL;
  hash.low = squeeze(v);
  v[1] ^= 0xddULL;
  hash.high = squeeze(v);
  return hash;
}

Hash128 random_key() {
  std::random_device device;  // the system's, of 32 bits each
  const auto word = [&] { return uint64_t{device()} << 32 | device(); };
  const uint64_t low = word();
  return {.low = low, .high = word()};
}

}  // namespace hasten
