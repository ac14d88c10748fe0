// SPDX-License-Identifier: Apache-2.0
// What is done to a text before it is cut into words: tokenizer.json's normalisers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer_steps.h"

namespace hasten::text {

/// Compiled steps, one after the other. Const after construction: any thread.
class TextNormalizer {
 public:
  /// Throws Error{unsupported, invalid_data} for an expression or a character map that is no good.
  explicit TextNormalizer(const NormalizerSteps& steps);
  TextNormalizer(TextNormalizer&&) noexcept;
  TextNormalizer& operator=(TextNormalizer&&) noexcept;
  ~TextNormalizer();

  bool empty() const { return steps_.empty(); }
  /// Whether apply certainly gives back the text itself. Cheap, and true of most text where
  /// composition is all that is asked for.
  [[nodiscard]] bool leaves_alone(std::string_view text) const;
  /// Malformed bytes stay as they are, except where a step names U+FFFD. Time is near-linear in the
  /// text and in what becomes of it. Throws Error{invalid_argument} if that grows beyond
  /// kMaxGrowth times the text, which only hostile steps do.
  [[nodiscard]] std::string apply(std::string_view text) const;

  // U+FDFA becomes 18 characters under NFKC; its 3 bytes 33.
  static constexpr size_t kMaxGrowth = 256;

 private:
  struct Step;
  std::vector<Step> steps_;
};

}  // namespace hasten::text
