// SPDX-License-Identifier: Apache-2.0
// Reads tekken.json, which Mistral's models have beside or instead of a tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/in_file.h"
#include "base/printable.h"
#include "text/base64.h"
#include "text/pre_tokenizer.h"
#include "text/token_spelling.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {
namespace {

constexpr const char* kTekkenFile = "tekken.json";

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

// One token of a list, which has its rank there.
class Entry {
 public:
  Entry(const json::Value& value, const char* list, size_t rank)
      : token_(value.if_object()), list_(list), rank_(rank) {
    if (token_ == nullptr) fail(ErrorCode::invalid_data, "{} is not an object", name());
  }

  std::string name() const { return fmt::format("entry {} of {}", rank_, list_); }

  std::string_view string(const char* member) const {
    const json::Value& value = field(*token_, member);
    if (value.is_string()) return as_string(value, member);
    fail(ErrorCode::invalid_data, "the {} of {} is not a string", member, name());
  }

  // Throws Error unless the rank that it says is its own. `text` is the token's.
  void check_rank(std::string_view text, int64_t limit) const {
    const json::Value& given = field(*token_, "rank");
    if (const int64_t* rank = given.if_int64();
        rank != nullptr && *rank < limit && std::cmp_equal(*rank, rank_))
      return;
    const std::string named = fmt::format("{}, {},", name(), printable(text));
    const int32_t rank = as_number(given, fmt::format("the rank of {}", named), limit);
    fail(ErrorCode::invalid_data, "{} has rank {}: the list is not in the order of its ranks",
         named, rank);
  }

 private:
  const json::Object* token_;
  const char* list_;
  size_t rank_;
};

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
      const Entry entry(item, "special_tokens", names.size());
      names.emplace_back(entry.string("token_str"));
      entry.check_rank(names.back(), num_specials);
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
    const Entry entry(vocab[rank], "vocab", rank);
    const std::string_view encoded = entry.string("token_bytes");
    const std::optional<std::string> bytes = decode_base64(encoded);
    if (!bytes) {
      fail(ErrorCode::invalid_data, "the token_bytes of {} are no Base64: {}", entry.name(),
           printable(encoded));
    }
    entry.check_rank(*bytes, vocab_size);
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
  const json::Value file = json::parse(tekken_json, kTekkenFile, kTokenizerFileLimits);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  spec.merges_by_rank = true;
  spec.ignore_merges = true;  // a word that is a token is that token
  in_file(kTekkenFile, [&] {
    const json::Object& root = as_file(file);
    const json::Object& config = as_object(field(root, "config"), "config");
    spec.pre_steps = steps_of(as_string(field(config, "pattern"), "pattern"));
    const auto size_of = [&](const char* name) {
      return as_number(field(config, name), name, std::ssize(tekken_json));
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
