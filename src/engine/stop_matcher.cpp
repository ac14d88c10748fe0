// SPDX-License-Identifier: Apache-2.0
// The automata of the stop strings, one byte at a time.
#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace hasten::engine {
namespace {

/// How much of the pattern the text ends with after `byte`, given how much before.
uint16_t advance(const StopStrings::Pattern& pattern, uint16_t matched, char byte) {
  if (matched == pattern.text.size()) matched = pattern.fallback[matched];
  while (matched > 0 && pattern.text[matched] != byte) matched = pattern.fallback[matched];
  return pattern.text[matched] == byte ? static_cast<uint16_t>(matched + 1) : matched;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) {
  for (std::string& text : strings) {
    Pattern& pattern = patterns.emplace_back();
    pattern.text = std::move(text);
    pattern.fallback.assign(pattern.text.size() + 1, 0);
    for (size_t i = 1; i < pattern.text.size(); ++i)
      pattern.fallback[i + 1] = advance(pattern, pattern.fallback[i], pattern.text[i]);
  }
}

StopMatcher::StopMatcher(const StopStrings& strings)
    : strings_(strings), matched_(strings.patterns.size(), 0) {}

StopMatcher::Piece StopMatcher::append(std::string_view piece, bool may_stop) {
  if (matched_.empty()) return {.text = std::string(piece)};
  for (const char byte : piece) {
    held_.push_back(byte);
    const std::string* match = nullptr;
    for (size_t i = 0; i < matched_.size(); ++i) {
      const StopStrings::Pattern& pattern = strings_.patterns[i];
      matched_[i] = advance(pattern, matched_[i], byte);
      if (matched_[i] == pattern.text.size() && (match == nullptr || match->size() < matched_[i]))
        match = &pattern.text;
    }
    if (match != nullptr && may_stop) {
      held_.resize(held_.size() - match->size());
      return {.text = std::exchange(held_, {}), .match = match};
    }
  }
  // A string that was complete but might not stop is text; what it ends with may begin another.
  size_t keep = 0;
  for (size_t i = 0; i < matched_.size(); ++i) {
    const StopStrings::Pattern& pattern = strings_.patterns[i];
    keep = std::max<size_t>(
        keep, matched_[i] == pattern.text.size() ? pattern.fallback[matched_[i]] : matched_[i]);
  }
  Piece result = {.text = held_.substr(0, held_.size() - keep)};
  held_.erase(0, held_.size() - keep);
  return result;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace hasten::engine
