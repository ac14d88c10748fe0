// SPDX-License-Identifier: Apache-2.0
// What the encoders have in common whose words know nothing of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "text/pre_tokenizer_chain.h"
#include "text/segment_encoder.h"

namespace hasten::text {

/// Cuts a segment into words, all of it at once or for parts.
class WordwiseEncoder : public SegmentEncoder {
 public:
  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    words_.cut_in_batches(segment.text, segment.starts_text, [&](const auto& words) {
      encode_words(words, 0, words.words.size(), out);
    });
  }

  [[nodiscard]] std::unique_ptr<SplitSegment> split(const Segment& segment,
                                                    size_t num_parts) const override {
    return split_at_words(words_, segment.text, segment.starts_text, num_parts,
                          [this](const auto& words, size_t first, size_t last, auto& out) {
                            encode_words(words, first, last, out);
                          });
  }

 protected:
  explicit WordwiseEncoder(const PreTokenizerSteps& steps) : words_(steps) {}

 private:
  /// Appends the tokens of words [first, last).
  virtual void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                            std::vector<int32_t>& out) const = 0;

  PreTokenizerChain words_;
};

}  // namespace hasten::text
