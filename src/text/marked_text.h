// SPDX-License-Identifier: Apache-2.0
// Text in which some bytes come from special tokens, and some of those are not for the client.
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

  enum class Source : char { text, shown_token, hidden_token };

  void append(std::string_view text, Source source) {
    text_ += text;
    sources_.append(text.size(), static_cast<char>(source));
  }
  /// Whether `size` bytes from `begin`, which is in the text, come from special tokens, as far as
  /// they have come.
  bool is_token(size_t begin, size_t size) const {
    const std::string_view bytes = std::string_view(sources_).substr(begin, size);
    return bytes.find(static_cast<char>(Source::text)) == std::string_view::npos;
  }
  void append(const MarkedText& other) {
    text_ += other.text_;
    sources_ += other.sources_;
  }
  void clear() {
    text_.clear();
    sources_.clear();
  }
  /// Cuts off the first bytes, at most all, and returns them.
  MarkedText take_front(size_t bytes) {
    MarkedText front;
    front.text_ = text_.substr(0, bytes);
    front.sources_ = sources_.substr(0, bytes);
    text_.erase(0, bytes);
    sources_.erase(0, bytes);
    return front;
  }
  /// The text without what is hidden.
  std::string visible() const {
    constexpr char kHidden = static_cast<char>(Source::hidden_token);
    if (sources_.find(kHidden) == std::string::npos) return text_;
    std::string result;
    for (size_t i = 0; i < text_.size(); ++i)
      if (sources_[i] != kHidden) result += text_[i];
    return result;
  }

 private:
  std::string text_;
  std::string sources_;  // by byte of text_: a Source
};

}  // namespace hasten::text
