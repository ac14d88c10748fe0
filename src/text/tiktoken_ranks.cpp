// SPDX-License-Identifier: Apache-2.0
// Reads tiktoken rank files: one token per line, base64, then its rank, which is its id.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {
namespace {

constexpr std::array<int8_t, 256> kBase64Values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  int8_t value = 0;
  for (char c = 'A'; c <= 'Z'; ++c) values[static_cast<uint8_t>(c)] = value++;
  for (char c = 'a'; c <= 'z'; ++c) values[static_cast<uint8_t>(c)] = value++;
  for (char c = '0'; c <= '9'; ++c) values[static_cast<uint8_t>(c)] = value++;
  values['+'] = value++;
  values['/'] = value++;
  return values;
}();

// RFC 4648, section 4, with its padding.
std::optional<std::string> decode_base64(std::string_view encoded) {
  if (encoded.empty() || encoded.size() % 4 != 0) return std::nullopt;
  const size_t padding = encoded.ends_with("==") ? 2 : encoded.ends_with('=') ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < encoded.size(); ++i) {
    const int8_t value = kBase64Values[static_cast<uint8_t>(encoded[i])];
    const bool pad = i + padding >= encoded.size();
    if (value < 0 && !pad) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(pad ? 0 : value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(bits >> shift));
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace

TokenizerSpec parse_tiktoken_ranks(std::string_view ranks, std::string pre,
                                   const std::vector<std::string>& specials) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  spec.pre = std::move(pre);
  spec.merges_by_rank = true;
  for (size_t line_number = 1; !ranks.empty(); ++line_number) {
    std::string_view line = ranks.substr(0, ranks.find('\n'));
    ranks.remove_prefix(std::min(line.size() + 1, ranks.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view number = line.substr(std::min(space + 1, line.size()));
    const std::optional<std::string> bytes = decode_base64(line.substr(0, space));
    size_t rank = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (!bytes || error != std::errc() || end != number.data() + number.size()) {
      fail(ErrorCode::invalid_data, "line {} of the rank file is not \"base64 rank\": {}",
           line_number, printable(line));
    }
    // p50k_base leaves out the rank of its special token.
    constexpr size_t kMaxGap = 16;
    if (rank < spec.tokens.size() || rank - spec.tokens.size() > kMaxGap) {
      fail(ErrorCode::invalid_data, "line {} of the rank file has rank {}; the next is {}",
           line_number, rank, spec.tokens.size());
    }
    spec.tokens.resize(rank);
    spec.types.resize(rank, static_cast<int32_t>(TokenType::unused));
    spec.tokens.push_back(to_gpt2_alphabet(*bytes));
    spec.types.push_back(static_cast<int32_t>(TokenType::normal));
  }
  for (const std::string& special : specials) {
    spec.tokens.push_back(special);
    spec.types.push_back(static_cast<int32_t>(TokenType::control));
  }
  return spec;
}

bool is_tiktoken_ranks(std::string_view file) {
  const std::string_view line = file.substr(0, file.find('\n'));
  const size_t space = std::min(line.find(' '), line.size());
  return decode_base64(line.substr(0, space)) && line.substr(space).starts_with(" 0");
}

}  // namespace hasten::text
