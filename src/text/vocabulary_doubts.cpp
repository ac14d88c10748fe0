// SPDX-License-Identifier: Apache-2.0
// Looks for tokens of single bytes.
#include "text/vocabulary_doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace hasten::text {
namespace {

bool has_byte_tokens(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte)
    if (vocabulary.byte_token(static_cast<uint8_t>(byte)) >= 0) return true;
  return false;
}

/// Whether people write what a byte is a part of in UTF-8: no control character but tab and the two
/// of line ends, and no character of the planes in which none is assigned (0xF1, 0xF2).
bool stands_in_text(int byte) {
  if (byte < 0x20) return byte == '\t' || byte == '\n' || byte == '\r';
  return byte != 0x7F && byte != 0xC0 && byte != 0xC1 && byte != 0xF1 && byte != 0xF2 &&
         byte <= 0xF4;
}

bool has_byte(const Vocabulary& vocabulary, TokenizerKind kind, uint8_t byte) {
  if (kind == TokenizerKind::bpe) return vocabulary.byte_token(byte) >= 0;
  const char character = static_cast<char>(byte);
  return vocabulary.find_ordinary({&character, 1}) >= 0;
}

}  // namespace

void check_has_tokens(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  int32_t first = -1;
  int64_t num_alike = 0;  // 0: not all are
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.is_ordinary(id) || id == spec.unk) continue;
    if (first < 0) first = id;
    if (vocabulary.bytes(id) != vocabulary.bytes(first)) return;
    ++num_alike;
  }
  const bool is_byte_level = spec.kind == TokenizerKind::bpe;
  if (num_alike > 1 && (is_byte_level || !has_byte_tokens(vocabulary))) {
    fail(ErrorCode::invalid_data,
         "all {} tokens of text are {}: the file is damaged; fetch it again", num_alike,
         printable(vocabulary.bytes(first)));
  }
  if (num_alike == 0 && spec.unk < 0 && !has_byte_tokens(vocabulary)) {
    fail(ErrorCode::invalid_data,
         "none of the {} tokens is one of text: the file is damaged or not whole; fetch it again",
         vocabulary.size());
  }
}

std::string doubt_of_bytes(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  if (spec.kind != TokenizerKind::bpe && spec.kind != TokenizerKind::rwkv) return {};
  constexpr size_t kMostListed = 4;
  std::vector<int> lacking;
  for (int byte = 0; byte < 256; ++byte) {
    if (stands_in_text(byte) && !has_byte(vocabulary, spec.kind, static_cast<uint8_t>(byte)))
      lacking.push_back(byte);
  }
  if (lacking.empty()) return {};
  std::string list;
  for (size_t i = 0; i < std::min(lacking.size(), kMostListed); ++i)
    list += fmt::format("{}0x{:02x}", i > 0 ? ", " : "", lacking[i]);
  if (lacking.size() > kMostListed) list += ", \u2026";
  const std::string_view fate = spec.unk < 0 ? "left out" : "made the unknown token";
  return fmt::format("it has no token for {} of text ({}), which {} {}",
                     lacking.size() == 1 ? "a byte" : fmt::format("{} bytes", lacking.size()), list,
                     lacking.size() == 1 ? "is" : "are", fate);
}

}  // namespace hasten::text
