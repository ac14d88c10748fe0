// SPDX-License-Identifier: Apache-2.0
// What is done to a text before it is cut into words: tokenizer.json's normalisers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer_steps.h"

namespace hasten::text {

/// Compiled steps, one after the other. Const after construction: any thread.
class TextNormalizer {
 public:
  /// Throws Error{unsupported, invalid_data} for an expression or a character map that is no good,
  /// and Error{unsupported} for more steps, or a longer literal, than a published file has.
  explicit TextNormalizer(const NormalizerSteps& steps);
  TextNormalizer(TextNormalizer&&) noexcept;
  TextNormalizer& operator=(TextNormalizer&&) noexcept;
  ~TextNormalizer();

  bool empty() const { return steps_.empty(); }
  /// Whether apply certainly gives back the text itself. Cheap, and true of most text where
  /// composition is all that is asked for.
  [[nodiscard]] bool leaves_alone(std::string_view text) const;
  // U+FDFA becomes 18 characters under NFKC; its 3 bytes 33, and twice that in GPT-2's alphabet.
  static constexpr size_t kMaxGrowth = 32;

  /// What all stretches of one text may become together: kMaxGrowth times the text and 64 KiB, and
  /// 2 GiB at most. One thread.
  class Growth {
   public:
    explicit Growth(size_t text_bytes);

   private:
    friend class TextNormalizer;
    size_t limit_;  // bytes
    size_t left_;
  };

  /// Malformed bytes stay as they are, except where a step names U+FFFD. Time and memory are
  /// near-linear in the text and in what becomes of it. Throws Error{invalid_argument} if that is
  /// more than `growth` has left, which only hostile steps do.
  [[nodiscard]] std::string apply(std::string_view text, Growth& growth) const;

 private:
  struct Step;
  std::vector<Step> steps_;
};

}  // namespace hasten::text
