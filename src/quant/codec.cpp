// SPDX-License-Identifier: Apache-2.0
// The table of codecs: one line per format.
#include "quant/codec.h"

#include <array>
#include <cstring>

#include "base/error.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"
#include "tensor/half.h"

namespace hasten::quant {
namespace {

// The plain numbers are blocks of one element.
struct BlockF32 {
  static constexpr int kSize = 1;
  float value;
};
void decode(const BlockF32& block, float* out) { *out = block.value; }
void encode(const float* in, BlockF32& block) { block.value = *in; }

struct BlockF16 {
  static constexpr int kSize = 1;
  uint16_t bits;
};
void decode(const BlockF16& block, float* out) { *out = f16_to_f32(block.bits); }
void encode(const float* in, BlockF16& block) { block.bits = f32_to_f16(*in); }

struct BlockBf16 {
  static constexpr int kSize = 1;
  uint16_t bits;
};
void decode(const BlockBf16& block, float* out) { *out = bf16_to_f32(block.bits); }
void encode(const float* in, BlockBf16& block) { block.bits = f32_to_bf16(*in); }

// Blocks are copied in and out because rows need no alignment.
template <class Block>
void decode_blocks(const std::byte* row, float* out, int64_t num_elements) {
  for (int64_t i = 0; i < num_elements; i += Block::kSize, row += sizeof(Block)) {
    Block block;
    std::memcpy(&block, row, sizeof block);
    decode(block, out + i);
  }
}

template <class Block>
void encode_blocks(const float* in, std::byte* row, int64_t num_elements) {
  for (int64_t i = 0; i < num_elements; i += Block::kSize, row += sizeof(Block)) {
    Block block;
    encode(in + i, block);
    std::memcpy(row, &block, sizeof block);
  }
}

struct Codec {
  DType dtype;
  int32_t block_size;
  size_t block_bytes;
  void (*decode)(const std::byte*, float*, int64_t);
  void (*encode)(const float*, std::byte*, int64_t);
};

template <class Block>
constexpr Codec codec_of(DType dtype) {
  return {dtype, Block::kSize, sizeof(Block), decode_blocks<Block>, encode_blocks<Block>};
}

constexpr std::array kCodecs = {
    codec_of<BlockF32>(DType::f32),      codec_of<BlockF16>(DType::f16),
    codec_of<BlockBf16>(DType::bf16),    codec_of<BlockQ4_0>(DType::q4_0),
    codec_of<BlockQ4_1>(DType::q4_1),    codec_of<BlockQ5_0>(DType::q5_0),
    codec_of<BlockQ5_1>(DType::q5_1),    codec_of<BlockQ8_0>(DType::q8_0),
    codec_of<BlockQ2K>(DType::q2_k),     codec_of<BlockQ3K>(DType::q3_k),
    codec_of<BlockQ4K>(DType::q4_k),     codec_of<BlockQ5K>(DType::q5_k),
    codec_of<BlockQ6K>(DType::q6_k),     codec_of<BlockIq4Nl>(DType::iq4_nl),
    codec_of<BlockIq4Xs>(DType::iq4_xs),
};

const Codec* find_codec(DType dtype) {
  for (const Codec& codec : kCodecs) {
    if (codec.dtype == dtype) return &codec;
  }
  return nullptr;
}

const Codec& codec_for_row(DType dtype, int64_t num_elements) {
  const Codec* codec = find_codec(dtype);
  HASTEN_CHECK(codec != nullptr);
  HASTEN_CHECK(codec->block_size == info(dtype).block_size &&
               codec->block_bytes == static_cast<size_t>(info(dtype).block_bytes));
  HASTEN_CHECK(num_elements >= 0 && num_elements % codec->block_size == 0);
  return *codec;
}

}  // namespace

bool has_codec(DType dtype) { return find_codec(dtype) != nullptr; }

void decode_row(DType dtype, const void* row, float* out, int64_t num_elements) {
  codec_for_row(dtype, num_elements).decode(static_cast<const std::byte*>(row), out, num_elements);
}

void encode_row(DType dtype, const float* in, void* row, int64_t num_elements) {
  codec_for_row(dtype, num_elements).encode(in, static_cast<std::byte*>(row), num_elements);
}

}  // namespace hasten::quant
