// SPDX-License-Identifier: Apache-2.0
// Reads tekken.json, which Mistral's models have beside or instead of a tokenizer.json.
#include <algorithm>
#include <string>

#include "base/in_file.h"
#include "base/printable.h"
#include "text/base64.h"
#include "text/pre_tokenizer.h"
#include "text/token_spelling.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {
namespace {

constexpr const char* kName = "tekken.json";

// Those of files that list none, in order.
constexpr const char* kFirstSpecials[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[AVAILABLE_TOOLS]",
                                          "[/AVAILABLE_TOOLS]",
                                          "[TOOL_RESULTS]",
                                          "[/TOOL_RESULTS]",
                                          "[TOOL_CALLS]",
                                          "[IMG]",
                                          "<pad>",
                                          "[IMG_BREAK]",
                                          "[IMG_END]",
                                          "[PREFIX]",
                                          "[MIDDLE]",
                                          "[SUFFIX]",
                                          "[SYSTEM_PROMPT]",
                                          "[/SYSTEM_PROMPT]",
                                          "[TOOL_CONTENT]"};

PreTokenizerSteps steps_of(std::string_view pattern) {
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    if (known.expressions.size() == 1 && known.expressions[0] == pattern) return known.steps();
  }
  return {{.pattern = std::string(pattern), .dialect = regex::Dialect::perl}};
}

// Published files have 1,000 special tokens, most of them without a name.
constexpr int64_t kMaxUnnamedSpecials = 10'000;

// Special tokens take the first ids, whether a file names them or not.
void read_specials(const json::Object& root, int32_t num_specials, TokenizerSpec& spec) {
  std::vector<std::string> names;
  const json::Value& list = field(root, "special_tokens");
  if (list.is_null()) {
    names.assign(std::begin(kFirstSpecials), std::end(kFirstSpecials));
  } else {
    for (const json::Value& item : as_array(list, "special_tokens")) {
      const json::Object& token = as_object(item, "special_tokens");
      const int32_t rank = as_id(field(token, "rank"), "special_tokens", num_specials);
      if (rank != std::ssize(names)) fail_field("special_tokens", "in the order of their ranks");
      names.emplace_back(as_string(field(token, "token_str"), "token_str"));
    }
  }
  if (num_specials - std::ssize(names) > kMaxUnnamedSpecials) {
    fail(ErrorCode::invalid_data,
         "default_num_special_tokens is {}, of which {} have a name; at most {} may have none",
         num_specials, names.size(), kMaxUnnamedSpecials);
  }
  for (int32_t id = 0; id < num_specials; ++id) {
    const bool named = id < std::ssize(names);
    spec.tokens.push_back(named ? names[static_cast<size_t>(id)]
                                : "<SPECIAL_" + std::to_string(id) + ">");
    spec.types.push_back(static_cast<int32_t>(spec.tokens.back() == "<unk>" ? TokenType::unknown
                                                                            : TokenType::control));
  }
}

void read_ranks(const json::Object& root, int64_t vocab_size, TokenizerSpec& spec) {
  const json::Array& vocab = as_array(field(root, "vocab"), "vocab");
  const auto num_ranks = static_cast<size_t>(vocab_size) - spec.tokens.size();
  if (num_ranks > vocab.size()) {
    fail(ErrorCode::invalid_data, "default_vocab_size is {}, with {} special tokens and {} others",
         vocab_size, spec.tokens.size(), vocab.size());
  }
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const json::Object& token = as_object(vocab[rank], "vocab");
    const std::string_view encoded = as_string(field(token, "token_bytes"), "token_bytes");
    const std::optional<std::string> bytes = decode_base64(encoded);
    if (!bytes) {
      fail(ErrorCode::invalid_data, "token_bytes of rank {} is no Base64: {}", rank,
           printable(encoded));
    }
    if (as_id(field(token, "rank"), "vocab", vocab_size) != static_cast<int32_t>(rank)) {
      fail_field("vocab", "in the order of its ranks");
    }
    spec.tokens.push_back(to_gpt2_alphabet(*bytes));
    spec.types.push_back(static_cast<int32_t>(TokenType::normal));
  }
}

int32_t find_special(const TokenizerSpec& spec, std::string_view name) {
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), name);
  return found == spec.tokens.end() ? -1 : static_cast<int32_t>(found - spec.tokens.begin());
}

}  // namespace

TokenizerSpec parse_tekken_json(std::string_view tekken_json) {
  const json::Value file = json::parse(tekken_json, kName, kTokenizerFileLimits);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  spec.merges_by_rank = true;
  spec.ignore_merges = true;  // a word that is a token is that token
  in_file(kName, [&] {
    const json::Object& root = as_file(file);
    const json::Object& config = as_object(field(root, "config"), "config");
    spec.pre_steps = steps_of(as_string(field(config, "pattern"), "pattern"));
    const auto size_of = [&](const char* name) {
      return as_id(field(config, name), name, std::ssize(tekken_json));
    };
    const int32_t vocab_size = size_of("default_vocab_size");
    read_specials(root, std::min(size_of("default_num_special_tokens"), vocab_size), spec);
    read_ranks(root, vocab_size, spec);
  });
  spec.unk = find_special(spec, "<unk>");
  spec.bos = find_special(spec, "<s>");
  spec.eos = find_special(spec, "</s>");
  spec.pad = find_special(spec, "<pad>");
  spec.add_bos = spec.bos >= 0;
  return spec;
}

}  // namespace hasten::text
