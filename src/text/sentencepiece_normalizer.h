// SPDX-License-Identifier: Apache-2.0
// What SentencePiece does to a text before it looks for pieces.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/precompiled_charsmap.h"
#include "text/prefix_matcher.h"
#include "text/segment_encoder.h"

namespace hasten::text {

/// Maps characters, takes superfluous spaces away, and puts one before the text; U+2581 becomes a
/// space, which is what pieces are spelled with here. User-defined pieces are not mapped. Const
/// after construction: any thread.
class SentencePieceNormalizer {
 public:
  /// Throws Error{invalid_data} for a damaged character map.
  explicit SentencePieceNormalizer(const TokenizerSpec& spec);
  SentencePieceNormalizer(const SentencePieceNormalizer&) = delete;
  SentencePieceNormalizer& operator=(const SentencePieceNormalizer&) = delete;

  /// Throws Error{invalid_data} where the map makes too much of a sequence.
  [[nodiscard]] std::string apply(const Segment& segment) const;

 private:
  // What a place of a text becomes.
  struct Step {
    size_t length;
    std::string_view to;
  };
  Step next(std::string_view text, size_t at, PrefixMatcher::Search& names) const;

  SpacePrefix space_prefix_;
  bool single_space_prefix_;
  bool remove_extra_whitespaces_;
  std::optional<PrecompiledCharsMap> chars_map_;
  std::vector<std::string> user_defined_names_;  // as in the file
  PrefixMatcher user_defined_;                   // of the names
};

}  // namespace hasten::text
