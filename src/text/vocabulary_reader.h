// SPDX-License-Identifier: Apache-2.0
// Collects the tokens of a vocabulary from the JSON objects that list them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

/// Fills tokens, types and rules of a spec. Ids may leave gaps, but not more than the size of the
/// files justifies. Functions throw Error{invalid_data} that names the field.
class VocabularyReader {
 public:
  /// Goes on with what `spec` holds already. `file_bytes`: of the files that are read.
  VocabularyReader(TokenizerSpec& spec, int64_t file_bytes);

  /// Throws for an id that has another text already.
  void put(int32_t id, std::string_view text, TokenType type);
  /// {"piece": id, …}
  void read_vocab(const json::Object& vocab);
  /// {"content": …, "special": …, "lstrip": …}
  void read_added_token(const json::Object& token, int32_t id);
  /// [{"id": 32000, "content": …}, …]
  void read_added_tokens(const json::Value& list);
  /// {"32000": {"content": …}, …}: ids that are there already stay as they are, but for those that
  /// are special here.
  void read_added_tokens_decoder(const json::Value& value);

  bool has(int32_t id) const;
  /// Ids from here on are more than the files can hold.
  int64_t max_id() const { return max_id_; }

 private:
  TokenizerSpec& spec_;
  int64_t max_id_;
  std::vector<bool> present_;  // by id
};

/// The id of a token that is given by its text, as a string or as {"content": …}; -1 without one.
int32_t id_of_role(const TokenizerSpec& spec, const json::Value& value, std::string_view role);

/// Gives spec.unk the type of an unknown token, unless it has another than normal.
void type_unknown_token(TokenizerSpec& spec);

}  // namespace hasten::text
