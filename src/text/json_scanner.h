// SPDX-License-Identifier: Apache-2.0
// Checks JSON one character at a time, as a model writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hasten::text {

/// Follows one JSON value of any type. One thread.
class JsonScanner {
 public:
  enum class Status { more, done, broken };

  /// Takes the next character. `done` with the one that closes an object, array or string at the
  /// top. `broken` for what cannot be JSON, and for more than kMaxDepth levels; from then on
  /// always.
  Status feed(char c);

  /// Open objects and arrays.
  size_t depth() const { return open_.size(); }
  bool in_string() const { return state_ == State::string || state_ == State::escape || hex_ > 0; }

  static constexpr size_t kMaxDepth = 64;

 private:
  enum class State { value, first_value, key, first_key, colon, after_value, string, escape, word };

  Status structural(char c);
  Status begin_value(char c);
  Status string_char(char c);
  Status close(char bracket);
  Status value_ended();
  Status broken();
  bool word_is_valid() const;

  State state_ = State::value;
  std::string open_;  // the brackets that will close what is open
  std::string word_;  // the number or literal so far
  int hex_ = 0;       // digits of \uXXXX still to come
  bool string_is_key_ = false;
  bool is_broken_ = false;
};

}  // namespace hasten::text
