// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json, special_tokens_map.json and added_tokens.json, parsed.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

class VocabularyReader;

/// Reads what tokenizer_config.json says of any tokenizer: roles, and whether bos and eos are put
/// around texts.
void read_tokenizer_config(const json::Object& config, TokenizerSpec& spec);

/// Adds to the doubts of a spec that has all its tokens: the bos and eos of tokenizer_config.json
/// that are none of them, or that its added_tokens_decoder has under another id.
void doubt_roles(const json::Object& config, TokenizerSpec& spec);

/// The parsed files; empty objects for those that are not given.
class SideFiles {
 public:
  /// Throws Error{invalid_data}.
  explicit SideFiles(const TokenizerSideFiles& files);

  [[nodiscard]] const json::Object& config() const { return config_.get_object(); }
  /// The class that transformers reads the folder with ("Qwen2Tokenizer"), or empty.
  [[nodiscard]] std::string_view tokenizer_class() const;
  /// A flag of tokenizer_config.json.
  [[nodiscard]] bool flag(const char* name, bool when_absent) const;
  /// Makes the pieces control tokens that the files call special.
  void type_special_tokens(TokenizerSpec& spec) const;
  /// Adds tokens and sets roles, flags and the types of special tokens.
  void apply(TokenizerSpec& spec) const;

 private:
  void read_added_tokens(VocabularyReader& reader, TokenizerSpec& spec) const;
  void collect_specials(const json::Object& file);

  int64_t num_bytes_;
  json::Value config_;
  json::Value special_tokens_map_;
  json::Value added_tokens_;
  std::set<std::string_view> specials_;  // texts of special tokens; views of the files
};

}  // namespace hasten::text
