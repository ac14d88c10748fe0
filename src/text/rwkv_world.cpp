// SPDX-License-Identifier: Apache-2.0
// The tokenizer of RWKV's world models: the longest token at the front of the text, again and
// again; and the reader of its vocabulary file.
#include <charconv>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/piece_trie.h"
#include "text/segment_encoder.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

PieceTrie trie_of_used(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Entry> entries;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    // Converters fill a vocabulary up with unused tokens that have names.
    if (vocabulary.type(id) == TokenType::unused || !vocabulary.is_ordinary(id)) continue;
    entries.push_back({vocabulary.bytes(id), id});
  }
  return PieceTrie(std::move(entries));
}

class RwkvWorld final : public SegmentEncoder {
 public:
  RwkvWorld(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : trie_(trie_of_used(vocabulary)), unk_(spec.unk) {}

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    for (std::string_view rest = segment.text; !rest.empty();) {
      rest.remove_prefix(encode_first(rest, rest.size(), out));
    }
  }

  std::unique_ptr<SplitSegment> split(const Segment& segment, size_t num_parts) const override {
    return split_at_steps(segment.text, num_parts, [this]() -> EncodeStep {
      return [this](std::string_view text, size_t at, size_t limit, std::vector<int32_t>& out) {
        return encode_first(text.substr(at), limit - at, out);
      };
    });
  }

 private:
  // Appends the token at the front of `rest`, and answers its length; 0 if it has more than
  // `max_bytes` and is left.
  size_t encode_first(std::string_view rest, size_t max_bytes, std::vector<int32_t>& out) const {
    size_t longest = 0;
    int32_t token = unk_;
    trie_.prefixes(rest, [&](size_t length, int32_t id) {
      longest = length;
      token = id;
    });
    if (longest > max_bytes) return 0;
    if (token >= 0) out.push_back(token);
    return longest > 0 ? longest : 1;  // a byte that the vocabulary lacks
  }

  PieceTrie trie_;
  int32_t unk_;
};

// The bytes of a Python literal: '…', "…", or the same after a b. In text, as opposed to bytes,
// \xE9 is the character U+00E9.
std::optional<std::string> parse_literal(std::string_view literal) {
  const bool is_bytes = literal.starts_with('b');
  if (is_bytes) literal.remove_prefix(1);
  if (literal.size() < 2 || literal.front() != literal.back() ||
      (literal.front() != '\'' && literal.front() != '"')) {
    return std::nullopt;
  }
  literal = literal.substr(1, literal.size() - 2);
  if (is_bytes) return from_python_bytes(literal);
  std::string text;
  while (!literal.empty()) {
    const bool wide = literal.starts_with("\\u") || literal.starts_with("\\U");
    const size_t digits = wide ? (literal[1] == 'u' ? 4 : 8) : 2;
    if (wide || literal.starts_with("\\x")) {
      uint32_t code_point = 0;
      const char* begin = literal.data() + 2;
      if (literal.size() < 2 + digits) return std::nullopt;
      const auto [end, error] = std::from_chars(begin, begin + digits, code_point, 16);
      const bool is_scalar =
          code_point < 0xD800 || (code_point >= 0xE000 && code_point <= 0x10FFFF);
      if (error != std::errc() || end != begin + digits || !is_scalar) return std::nullopt;
      append_utf8(text, code_point);
      literal.remove_prefix(2 + digits);
      continue;
    }
    const size_t length = literal.front() == '\\' ? std::min<size_t>(2, literal.size()) : 1;
    const std::optional<std::string> plain = from_python_bytes(literal.substr(0, length));
    if (!plain) return std::nullopt;
    text += *plain;
    literal.remove_prefix(length);
  }
  return text;
}

template <class Integer>
bool parse_number(std::string_view text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Takes the line at the front of `lines` off, and answers it without its end.
std::string_view take_line(std::string_view& lines) {
  const size_t end = std::min(lines.find('\n'), lines.size());
  std::string_view line = lines.substr(0, end);
  lines.remove_prefix(std::min(end + 1, lines.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// The largest id that a file may have: no line of a token is shorter than "1 'a' 1\n", and empty
// lines are none.
int64_t max_id_of(std::string_view lines) {
  constexpr int64_t kMinLineBytes = 8;
  int64_t bytes = 0;
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    if (!line.empty()) bytes += std::ssize(line) + 1;
  }
  return bytes / kMinLineBytes;
}

}  // namespace

std::unique_ptr<const SegmentEncoder> make_rwkv_world(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary) {
  return std::make_unique<RwkvWorld>(spec, vocabulary);
}

TokenizerSpec parse_rwkv_vocabulary(std::string_view lines) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::rwkv;
  spec.add_bos = false;
  // The end of a text, which the file leaves out.
  spec.tokens = {"<|endoftext|>"};
  spec.types = {static_cast<int32_t>(TokenType::control)};
  spec.eos = 0;
  const int64_t max_id = max_id_of(lines);
  for (size_t line_number = 1; !lines.empty(); ++line_number) {
    const std::string_view line = take_line(lines);
    if (line.empty()) continue;
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    int32_t id = -1;
    size_t length = 0;
    std::optional<std::string> bytes;
    if (first < last && parse_number(line.substr(0, first), id) &&
        parse_number(line.substr(last + 1), length)) {
      bytes = parse_literal(line.substr(first + 1, last - first - 1));
    }
    if (!bytes || bytes->size() != length || id < 1 || id > max_id) {
      fail(ErrorCode::invalid_data, "RWKV vocabulary: line {} is not \"id 'token' bytes\": {}",
           line_number, printable(line));
    }
    const auto i = static_cast<size_t>(id);
    if (i >= spec.tokens.size()) {
      spec.tokens.resize(i + 1);
      spec.types.resize(i + 1, static_cast<int32_t>(TokenType::unused));
    }
    spec.tokens[i] = to_python_bytes(*bytes);
    spec.types[i] = static_cast<int32_t>(TokenType::normal);
  }
  if (spec.tokens.size() == 1) {
    fail(ErrorCode::invalid_data, "RWKV vocabulary: the file holds no token");
  }
  return spec;
}

}  // namespace hasten::text
