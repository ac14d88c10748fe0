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
  std::string_view text() const { return std::string_view(text_).substr(begin_); }
  size_t size() const { return text_.size() - begin_; }
  bool empty() const { return size() == 0; }

  enum class Source : char { text, shown_token, hidden_token };

  void append(std::string_view text, Source source) {
    text_ += text;
    sources_.append(text.size(), static_cast<char>(source));
  }
  /// Whether `size` bytes from `begin`, which is in the text, come from special tokens, as far as
  /// they have come.
  bool is_token(size_t begin, size_t size) const {
    const std::string_view bytes = sources().substr(begin, size);
    return bytes.find(static_cast<char>(Source::text)) == std::string_view::npos;
  }
  /// Where the byte at a place comes from.
  Source source(size_t at) const { return static_cast<Source>(sources_[begin_ + at]); }
  void append(const MarkedText& other) {
    text_ += other.text();
    sources_ += other.sources();
  }
  void clear() {
    text_.clear();
    sources_.clear();
    begin_ = 0;
  }
  /// Cuts off the first bytes, at most all, and returns them.
  MarkedText take_front(size_t bytes) {
    MarkedText front;
    front.text_ = text().substr(0, bytes);
    front.sources_ = sources().substr(0, bytes);
    begin_ += front.text_.size();
    if (begin_ > size()) {  // moves no more bytes than were cut off since the last time
      text_.erase(0, begin_);
      sources_.erase(0, begin_);
      begin_ = 0;
    }
    return front;
  }
  /// Puts back what was cut off: cheap while it still lies there.
  void put_front(const MarkedText& front) {
    const size_t bytes = front.size();
    if (begin_ < bytes) {
      text_.insert(begin_, bytes - begin_, ' ');
      sources_.insert(begin_, bytes - begin_, ' ');
      begin_ = bytes;
    }
    begin_ -= bytes;
    text_.replace(begin_, bytes, front.text());
    sources_.replace(begin_, bytes, front.sources());
  }
  /// The text without what is hidden.
  std::string visible() const {
    constexpr char kHidden = static_cast<char>(Source::hidden_token);
    if (sources().find(kHidden) == std::string_view::npos) return std::string(text());
    std::string result;
    for (size_t i = begin_; i < text_.size(); ++i)
      if (sources_[i] != kHidden) result += text_[i];
    return result;
  }

 private:
  std::string_view sources() const { return std::string_view(sources_).substr(begin_); }

  std::string text_;
  std::string sources_;  // by byte of text_: a Source
  size_t begin_ = 0;     // of both: what comes before was cut off
};

}  // namespace hasten::text
