// SPDX-License-Identifier: Apache-2.0
// One long segment in parts that several threads encode, with the tokens of the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "text/pre_tokenizer_chain.h"

namespace hasten::text {

/// Parts of one segment. Borrows the encoder that made it and the text.
class SplitSegment {
 public:
  virtual ~SplitSegment() = default;
  [[nodiscard]] virtual size_t num_parts() const = 0;
  /// Encodes one part. Each once, in any order, on any thread.
  virtual void encode_part(size_t part) = 0;
  /// Appends the tokens of the segment, after all its parts; the same as those of encode.
  virtual void append_to(std::vector<int32_t>& out) = 0;
};

/// Encodes the word or token that begins at `at`, and answers its length, at least 1. One that ends
/// beyond `limit` it leaves, and answers 0. What it does depends on the text from `at` on, the
/// limit and nothing else.
using EncodeStep = std::function<size_t(std::string_view text, size_t at, size_t limit,
                                        std::vector<int32_t>& out)>;
/// Where each thread gets a step of its own, which may keep memory between calls.
using MakeEncodeStep = std::function<EncodeStep()>;

/// For encoders that go through a text step by step. Each part begins somewhere, and where the
/// steps of the part before it reach one of its own places, both go the same way from there on:
/// what comes before such a place is thrown away, what comes behind is right. Makes at most
/// `num_parts` parts, of which each goes on to the end of its last step, or to one that reaches far
/// beyond the part: a word as long as the text is encoded once, by append_to.
std::unique_ptr<SplitSegment> split_at_steps(std::string_view text, size_t num_parts,
                                             MakeEncodeStep make_step);

/// Appends the tokens of words [first, last).
using EncodeWords = std::function<void(const PreTokenizerChain::Words& words, size_t first,
                                       size_t last, std::vector<int32_t>& out)>;

/// For encoders whose words know nothing of each other: cuts them here, on this thread, and makes
/// parts of about as many bytes each.
std::unique_ptr<SplitSegment> split_at_words(const PreTokenizerChain& chain, std::string_view text,
                                             bool starts_text, size_t num_parts,
                                             EncodeWords encode);

/// Appends the tokens of a text.
using EncodeText = std::function<void(std::string_view text, std::vector<int32_t>& out)>;

/// For encoders that nothing reaches across certain places of: parts of `text` between some of the
/// places that `is_joint(text, at)` confirms.
std::unique_ptr<SplitSegment> split_at_joints(
    std::string text, size_t num_parts,
    const std::function<bool(std::string_view, size_t)>& is_joint, EncodeText encode);

}  // namespace hasten::text
