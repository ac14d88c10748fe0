// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of block files: whatever a folder holds, reading a block is a miss, or returns
// the very contents that were written.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/kv_cache/block_file.h"

namespace {

using namespace hasten::engine;

constexpr int64_t kTokens = 4;
constexpr int64_t kBytes = 64;
constexpr int64_t kSlots = 3;
const std::vector<int32_t> kTokenIds = {1, 2, 3, 4};

BlockName name(int64_t slot) {
  return {.key = {.low = static_cast<uint64_t>(slot), .high = 9},
          .parent = {},
          .group = 0,
          .tokens = kTokenIds};
}

std::vector<std::byte> contents(int64_t slot) {
  return std::vector<std::byte>(kBytes, static_cast<std::byte>(slot + 1));
}

BlockFile open(int fd) {
  return BlockFile(hasten::FileDescriptor(::dup(fd)),
                   {.block_tokens = kTokens,
                    .payload_bytes = kBytes,
                    .max_bytes = kSlots * BlockFile::slot_bytes(kTokens, kBytes),
                    .seal = {.low = 1, .high = 2}});
}

}  // namespace

/// The first byte: whether the rest is the file, or a list of changes (offset of two bytes, value)
/// to a good one; the second: how much of it is left.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const hasten::FileDescriptor file(::memfd_create("blocks", MFD_CLOEXEC));
  const bool is_whole = data[0] % 2 == 0;
  const int64_t length = data[1] * 64;
  data += 2;
  size -= 2;
  if (is_whole) {
    if (::pwrite(file.get(), data, size, 0) < 0) return 0;
  } else {
    {
      BlockFile good = open(file.get());
      for (int64_t slot = 0; slot < kSlots; ++slot)
        if (!good.write(slot, name(slot), 1, contents(slot)).empty()) return 0;
    }
    for (; size >= 3; data += 3, size -= 3) {
      uint16_t offset = 0;
      std::memcpy(&offset, data, sizeof offset);
      if (::pwrite(file.get(), data + 2, 1, offset) < 0) return 0;
    }
    if (length > 0 && ::ftruncate(file.get(), length) != 0) return 0;
  }
  BlockFile hostile = open(file.get());
  hostile.scan([](int64_t slot, const hasten::Hash128& /*key*/, uint64_t /*serial*/) {
    if (slot < 0 || slot >= kSlots) __builtin_trap();
  });
  std::vector<std::byte> out(kBytes);
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    const auto outcome = hostile.read(slot, name(slot), out);
    if (outcome == BlockFile::Outcome::ok && out != contents(slot)) __builtin_trap();
  }
  return 0;
}
