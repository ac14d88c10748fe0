// SPDX-License-Identifier: Apache-2.0
// Draws, encodes and shuffles random weights.
#include "weights/synth/random_weights.h"

#include <algorithm>
#include <cstring>

#include "quant/codec.h"

namespace hasten::weights::synthetic {
namespace {

constexpr int64_t kPieceElements = 256;              // a multiple of every block size
constexpr int64_t kPoolElements = int64_t{1} << 18;  // 1024 pieces: at most a second to encode
constexpr int64_t kBatchPieces = 4096;               // 0.3 to 4 MB per append
constexpr uint64_t kPoolSalt = 0x706f6f6c;

}  // namespace

void RandomWeights::generate(DType dtype, float mean, float deviation, int64_t num_elements,
                             uint64_t salt, const Append& append) {
  if (num_elements <= kPoolElements) {
    append(encode(dtype, mean, deviation, num_elements, salt));
    return;
  }
  const std::vector<std::byte>& pieces = pool(dtype, mean, deviation);
  const auto piece_bytes = static_cast<size_t>(row_bytes(dtype, kPieceElements));
  const size_t num_pieces = pieces.size() / piece_bytes;
  Random random(hash_bytes("order", seed_ ^ salt));
  std::vector<std::byte> batch(piece_bytes * kBatchPieces);
  for (int64_t left = row_bytes(dtype, num_elements); left > 0;) {
    for (int64_t i = 0; i < kBatchPieces; ++i) {
      std::memcpy(batch.data() + static_cast<size_t>(i) * piece_bytes,
                  pieces.data() + random.next() % num_pieces * piece_bytes, piece_bytes);
    }
    const int64_t count = std::min(left, static_cast<int64_t>(batch.size()));
    append(std::span(batch).first(static_cast<size_t>(count)));
    left -= count;
  }
}

std::vector<std::byte> RandomWeights::encode(DType dtype, float mean, float deviation,
                                             int64_t num_elements, uint64_t salt) const {
  Random random(hash_bytes("elements", seed_ ^ salt));
  std::vector<float> elements(static_cast<size_t>(num_elements));
  for (float& element : elements) element = mean + deviation * random.normal();
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(dtype, num_elements)));
  quant::encode_row(dtype, elements.data(), bytes.data(), num_elements);
  return bytes;
}

const std::vector<std::byte>& RandomWeights::pool(DType dtype, float mean, float deviation) {
  std::vector<std::byte>& bytes = pools_[{dtype, {mean, deviation}}];
  if (bytes.empty()) bytes = encode(dtype, mean, deviation, kPoolElements, kPoolSalt);
  return bytes;
}

}  // namespace hasten::weights::synthetic
