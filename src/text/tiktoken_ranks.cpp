// SPDX-License-Identifier: Apache-2.0
// Reads tiktoken rank files: one token per line, base64, then its rank, which is its id.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/base64.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {

TokenizerSpec parse_tiktoken_ranks(std::string_view ranks, std::string pre,
                                   const std::vector<std::string>& specials) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  spec.pre = std::move(pre);
  spec.merges_by_rank = true;
  spec.ignore_merges = true;           // tiktoken looks for the whole word before it merges
  constexpr size_t kMinLineBytes = 7;  // "IQ== 0" and its end
  const auto num_lines = static_cast<size_t>(std::count(ranks.begin(), ranks.end(), '\n')) + 1;
  const size_t num_tokens = std::min(num_lines, ranks.size() / kMinLineBytes + 1) + specials.size();
  spec.tokens.reserve(num_tokens);
  spec.types.reserve(num_tokens);
  // p50k_base leaves out the rank of its special token.
  constexpr size_t kMaxLeftOut = 16;
  size_t num_left_out = 0;
  std::string bytes;
  for (size_t line_number = 1; !ranks.empty(); ++line_number) {
    std::string_view line = ranks.substr(0, ranks.find('\n'));
    ranks.remove_prefix(std::min(line.size() + 1, ranks.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view number = line.substr(std::min(space + 1, line.size()));
    const bool decoded = decode_base64(line.substr(0, space), bytes);
    size_t rank = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (!decoded || error != std::errc() || end != number.data() + number.size()) {
      fail(ErrorCode::invalid_data, "line {} of the rank file is not \"base64 rank\": {}",
           line_number, printable(line));
    }
    if (rank < spec.tokens.size() || rank - spec.tokens.size() > kMaxLeftOut - num_left_out) {
      fail(
          ErrorCode::invalid_data,
          "line {} of the rank file has rank {}; the next is {}, and a file may leave out {} ranks",
          line_number, rank, spec.tokens.size(), kMaxLeftOut);
    }
    num_left_out += rank - spec.tokens.size();
    spec.tokens.resize(rank);
    spec.types.resize(rank, static_cast<int32_t>(TokenType::unused));
    spec.tokens.push_back(to_gpt2_alphabet(bytes));
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
