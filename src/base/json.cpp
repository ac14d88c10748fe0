// SPDX-License-Identifier: Apache-2.0
// Bounded JSON parsing on Boost.JSON.
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/parse_options.hpp>
#include <boost/json/parser.hpp>
#include <string>

#include "base/error.h"
#include "base/fetched_file.h"
#include "base/printable.h"

namespace hasten::json {
namespace {

/// What is wrong at byte `read`.
std::string reason(std::string_view text, std::size_t read, const boost::system::error_code& code) {
  using boost::json::error;
  // Of a leading half without another one behind it the parser says "syntax error" only, there or
  // behind the backslash of another escape.
  constexpr std::string_view kEscape = "\\uD800";
  std::string_view before = text.substr(0, read);
  if (before.ends_with('\\')) before.remove_suffix(1);
  const std::string_view last =
      before.substr(before.size() - std::min(before.size(), kEscape.size()));
  before.remove_suffix(last.size());
  // Behind an odd number of backslashes the last one is a character of the text.
  const std::size_t num_backslashes = before.size() - (before.find_last_not_of('\\') + 1);
  const bool is_leading_half = num_backslashes % 2 == 0 && last.size() == kEscape.size() &&
                               last.starts_with("\\u") && (last[2] == 'd' || last[2] == 'D') &&
                               std::string_view("89abAB").find(last[3]) != std::string_view::npos;
  if (code == error::illegal_leading_surrogate || code == error::illegal_trailing_surrogate ||
      code == error::expected_utf16_escape || (code == error::syntax && is_leading_half)) {
    return "half of a surrogate pair stands alone, which is no character; write both halves "
           "(\\ud83d\\ude00), or the character itself";
  }
  if (code == error::incomplete && text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return "there is nothing";
  if (code != error::syntax || read >= text.size()) return code.message();
  const auto byte = static_cast<unsigned char>(text[read]);
  if (byte < ' ')
    return fmt::format(
        "the control character {:#04x} is unexpected; in a string it is written \\u{:04x}", byte,
        byte);
  if (byte < 0x80) return fmt::format("{} is unexpected", printable(text.substr(read, 1)));
  // Quotes of print, which editors put where JSON's should be. No more is shown as it is: it may be
  // half a character, or steer a terminal.
  for (const std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019", "\u00ab", "\u00bb"})
    if (text.substr(read).starts_with(quote))
      return fmt::format("{} is unexpected; strings stand in \"", quote);
  return fmt::format("the byte {:#04x} is unexpected, or no UTF-8", byte);
}

}  // namespace

Value parse(std::string_view text, std::string_view name, const Limits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    fail(ErrorCode::invalid_data, "{} is {} bytes of JSON; the limit is {}", name, text.size(),
         limits.max_bytes);
  }
  // Python refuses the mark, RFC 8259 leaves it open, and it can mean nothing else.
  const std::string_view marked = text;
  text = without_byte_order_mark(text);
  boost::json::parse_options options;
  options.max_depth = static_cast<std::size_t>(limits.max_depth);
  boost::json::parser parser({}, options);
  boost::system::error_code code;
  const std::size_t read = parser.write(text.data(), text.size(), code);
  if (code) {
    const std::size_t byte = read + (marked.size() - text.size());
    if (code == boost::json::error::too_deep) {
      fail(ErrorCode::invalid_data, "{} nests deeper than {} levels at byte {}", name,
           limits.max_depth, byte);
    }
    check_is_no_utf16(text, name);
    fail(ErrorCode::invalid_data, "{} is not valid JSON at byte {}: {}", name, byte,
         reason(text, read, code));
  }
  return parser.release();
}

}  // namespace hasten::json
