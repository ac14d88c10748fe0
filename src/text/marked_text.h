// SPDX-License-Identifier: Apache-2.0
// Text in which some bytes spell special tokens that a client is not to see.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hasten::text {

/// What a parser of answers works on. One thread.
class MarkedText {
 public:
  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  void append(std::string_view text, bool hidden) {
    text_ += text;
    hidden_.append(text.size(), hidden ? '\1' : '\0');
  }
  void append(const MarkedText& other) {
    text_ += other.text_;
    hidden_ += other.hidden_;
  }
  void clear() {
    text_.clear();
    hidden_.clear();
  }
  /// Cuts off the first bytes, at most all, and returns them.
  MarkedText take_front(size_t bytes) {
    MarkedText front;
    front.text_ = text_.substr(0, bytes);
    front.hidden_ = hidden_.substr(0, bytes);
    text_.erase(0, bytes);
    hidden_.erase(0, bytes);
    return front;
  }
  /// The text without what is hidden.
  std::string visible() const {
    if (hidden_.find('\1') == std::string::npos) return text_;
    std::string result;
    for (size_t i = 0; i < text_.size(); ++i)
      if (hidden_[i] == '\0') result += text_[i];
    return result;
  }

 private:
  std::string text_;
  std::string hidden_;  // by byte of text_: 1 if it is
};

}  // namespace hasten::text
