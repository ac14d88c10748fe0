// SPDX-License-Identifier: Apache-2.0
// Calls as Python has them: name(key="text", other=[1, True]).
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/blanks.h"
#include "text/digits.h"
#include "text/python_literal.h"
#include "text/tool_call_readers.h"
#include "text/tool_values.h"

namespace hasten::text {
namespace {

using Status = JsonScanner::Status;

bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '-';
}

/// Follows the text of one value to the comma or parenthesis behind it, as far as needed for that:
/// quotes and brackets. One thread.
class ValueScanner {
 public:
  /// False for more than kMaxDepth brackets. `c` belongs to the value unless `ends` said so.
  bool feed(char c) {
    if (num_escaped_ > 0) {
      --num_escaped_;
      num_quotes_ = 0;
    } else if (quote_ != '\0') {
      in_string(c);
    } else if (c == '"' || c == '\'') {
      // A quote right behind an empty string makes three that open one.
      is_long_ = c == closed_empty_;
      quote_ = c;
      num_chars_ = 0;
      num_quotes_ = 0;
      closed_empty_ = '\0';
    } else {
      closed_empty_ = '\0';
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if (c == ')' || c == ']' || c == '}') --depth_;
    }
    return depth_ <= JsonScanner::kMaxDepth;
  }

  bool ends(char c) const {
    return quote_ == '\0' && num_escaped_ == 0 && depth_ == 0 && (c == ',' || c == ')');
  }

 private:
  void in_string(char c) {
    ++num_chars_;
    if (c == '\\') num_escaped_ = 1;
    num_quotes_ = c == quote_ ? num_quotes_ + 1 : 0;
    if (num_quotes_ < (is_long_ ? 3 : 1)) return;
    if (!is_long_ && num_chars_ == 1) closed_empty_ = quote_;
    quote_ = '\0';
  }

  size_t depth_ = 0;
  int num_escaped_ = 0;       // characters that a backslash takes
  char quote_ = '\0';         // of the string that is open
  bool is_long_ = false;      // it has three of them
  int num_quotes_ = 0;        // that the string ends with
  size_t num_chars_ = 0;      // of the string, quotes included
  char closed_empty_ = '\0';  // the quote of an empty string that has just ended
};

class PythonicCallReader final : public CallReader {
 public:
  explicit PythonicCallReader(const ToolSchemas& tools) : tools_(tools) {}

  Status feed(char c, MarkedText::Source /*source*/) override {
    switch (part_) {
      case Part::name:
        return word(c, '(', name_, Part::before_key);
      case Part::before_key:
        if (is_blank(c)) return Status::more;
        if (c == ')') return finish();
        text_.clear();
        part_ = Part::key;
        return word(c, '=', text_, Part::value);
      case Part::key:
        return word(c, '=', text_, Part::value);
      case Part::value:
        return value(c);
    }
    return Status::broken;
  }

 private:
  enum class Part { name, before_key, key, value };

  /// A name up to `end`; blanks may stand before that.
  Status word(char c, char end, std::string& out, Part next) {
    if (c == end && !out.empty()) {
      ended_ = false;
      key_ = text_;
      text_.clear();
      scanner_ = {};
      part_ = next;
      return Status::more;
    }
    if (is_blank(c) && !out.empty()) {
      ended_ = true;
      return Status::more;
    }
    const bool fits = is_name_char(c) && !ended_ && (!out.empty() || !(is_digit(c) || c == '-'));
    out += c;
    return fits && out.size() <= kMaxCallHead ? Status::more : Status::broken;
  }

  Status value(char c) {
    if (!scanner_.ends(c)) {
      text_ += c;
      return scanner_.feed(c) ? Status::more : Status::broken;
    }
    const std::optional<std::string> json = json_of(text_, tools_.types_of(name_, key_));
    // Python refuses a keyword that comes twice.
    if (!json || !keys_.insert(key_).second) return Status::broken;
    arguments_ += arguments_.empty() ? "{" : ", ";
    arguments_ += json::serialize(json::Value(key_)) + ": " + *json;
    part_ = Part::before_key;
    return c == ')' ? finish() : Status::more;
  }

  static std::optional<std::string> json_of(std::string_view text, ValueTypes types) {
    std::optional<std::string> json = json_of_python(text);
    if (json) {
      // Llama 4's template puts quotes around every value.
      if (!json->starts_with('"') || types.has(ValueTypes::string)) return json;
      const std::string said = unquoted(*json);
      return said.empty() ? json : json_of_text(said, types);
    }
    // Llama 3.2's puts them around none.
    const std::string_view bare = trimmed(text);
    if (bare.empty() || bare[0] == '=' || bare.find_first_of("\"'()[]{}") != std::string_view::npos)
      return std::nullopt;
    return json_of_text(bare, types);
  }

  Status finish() {
    arguments_ += arguments_.empty() ? "{}" : "}";
    has_arguments_ = true;
    return Status::done;
  }

  const ToolSchemas& tools_;
  Part part_ = Part::name;
  bool ended_ = false;  // blanks have ended the name that is being read
  std::string key_;
  std::set<std::string> keys_;  // that have values
  std::string text_;            // of the key or the value being read
  ValueScanner scanner_;
};

}  // namespace

std::unique_ptr<CallReader> make_pythonic_call_reader(const ToolSchemas& tools) {
  return std::make_unique<PythonicCallReader>(tools);
}

}  // namespace hasten::text
