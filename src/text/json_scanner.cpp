// SPDX-License-Identifier: Apache-2.0
// The automaton of RFC 8259, with a stack of brackets.
#include "text/json_scanner.h"

#include <algorithm>

#include "text/blanks.h"
#include "text/digits.h"

namespace hasten::text {
namespace {

// Longer than any number that a double needs; a longer word is not JSON that anyone means.
constexpr size_t kMaxWord = 64;

bool is_word_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
}

/// Takes digits off the front; false if there are none.
bool take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(count);
  return count > 0;
}

}  // namespace

JsonScanner::Status JsonScanner::broken() {
  is_broken_ = true;
  return Status::broken;
}

JsonScanner::Status JsonScanner::feed(char c) {
  if (is_broken_) return Status::broken;
  if (in_string()) return string_char(c);
  if (state_ == State::word) {
    if (is_word_char(c)) {
      word_ += c;
      return word_.size() > kMaxWord ? broken() : Status::more;
    }
    if (!word_is_valid()) return broken();
    state_ = State::after_value;
  }
  return is_blank(c) ? Status::more : structural(c);
}

JsonScanner::Status JsonScanner::structural(char c) {
  switch (state_) {
    case State::first_value:
      if (c == ']') return close(c);
      return begin_value(c);
    case State::value:
      return begin_value(c);
    case State::first_key:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::key:
      if (c != '"') return broken();
      string_is_key_ = true;
      state_ = State::string;
      return Status::more;
    case State::colon:
      if (c != ':') return broken();
      state_ = State::value;
      return Status::more;
    case State::after_value:
      if (open_.empty()) return broken();
      if (c != ',') return close(c);
      state_ = open_.back() == '}' ? State::key : State::value;
      return Status::more;
    default:
      return broken();
  }
}

JsonScanner::Status JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() >= kMaxDepth) return broken();
    open_ += c == '{' ? '}' : ']';
    state_ = c == '{' ? State::first_key : State::first_value;
  } else if (c == '"') {
    string_is_key_ = false;
    state_ = State::string;
  } else if (is_word_char(c)) {
    word_.assign(1, c);
    state_ = State::word;
  } else {
    return broken();
  }
  return Status::more;
}

JsonScanner::Status JsonScanner::string_char(char c) {
  if (hex_ > 0) {
    const bool hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    --hex_;
    return hex ? Status::more : broken();
  }
  if (state_ == State::escape) {
    state_ = State::string;
    if (c == 'u') hex_ = 4;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos ? Status::more
                                                                             : broken();
  }
  if (c == '\\') {
    state_ = State::escape;
  } else if (c == '"') {
    if (!string_is_key_) return value_ended();
    state_ = State::colon;
  } else if (static_cast<uint8_t>(c) < 0x20) {
    return broken();
  }
  return Status::more;
}

JsonScanner::Status JsonScanner::close(char bracket) {
  if (open_.back() != bracket) return broken();
  open_.pop_back();
  return value_ended();
}

JsonScanner::Status JsonScanner::value_ended() {
  state_ = State::after_value;
  return open_.empty() ? Status::done : Status::more;
}

bool JsonScanner::word_is_valid() const {
  std::string_view rest = word_;
  if (rest == "true" || rest == "false" || rest == "null") return true;
  if (rest.starts_with('-')) rest.remove_prefix(1);
  if (rest.size() > 1 && rest[0] == '0' && is_digit(rest[1])) return false;
  if (!take_digits(rest)) return false;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (!take_digits(rest)) return false;
  }
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
    if (!take_digits(rest)) return false;
  }
  return rest.empty();
}

}  // namespace hasten::text
