// SPDX-License-Identifier: Apache-2.0
// How a stretch of text between added tokens becomes tokens; one implementation per kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/split_segment.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// Text without added tokens.
struct Segment {
  std::string_view text;
  bool starts_text = false;  // nothing stands before it
};

/// Const after construction: any thread.
class SegmentEncoder {
 public:
  virtual ~SegmentEncoder() = default;
  /// Appends the tokens of `segment` to `out`. Time is near-linear in the segment.
  virtual void encode(const Segment& segment, std::vector<int32_t>& out) const = 0;
  /// The segment in at most `num_parts` parts that make the same tokens, or null where a part would
  /// have to know the others. Borrows the text; what cannot be done in parts is done here.
  [[nodiscard]] virtual std::unique_ptr<SplitSegment> split(const Segment& /*segment*/,
                                                            size_t /*num_parts*/) const {
    return nullptr;
  }
};

/// Borrow `vocabulary`, which must be made of the same spec. Throw Error{invalid_data}, and
/// Error{unsupported} for an unknown pre-tokenizer.
std::unique_ptr<const SegmentEncoder> make_byte_level_bpe(const TokenizerSpec& spec,
                                                          const Vocabulary& vocabulary);
std::unique_ptr<const SegmentEncoder> make_sentencepiece_bpe(const TokenizerSpec& spec,
                                                             const Vocabulary& vocabulary);
std::unique_ptr<const SegmentEncoder> make_sentencepiece_unigram(const TokenizerSpec& spec,
                                                                 const Vocabulary& vocabulary);
std::unique_ptr<const SegmentEncoder> make_word_piece(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary);
std::unique_ptr<const SegmentEncoder> make_word_level(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary);
std::unique_ptr<const SegmentEncoder> make_rwkv_world(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary);
std::unique_ptr<const SegmentEncoder> make_character_bpe(const TokenizerSpec& spec,
                                                         const Vocabulary& vocabulary);

}  // namespace hasten::text
