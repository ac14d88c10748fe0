// SPDX-License-Identifier: Apache-2.0
// Cuts a template into tokens, white space control included.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/arena.h"

namespace hasten::text::jinja {

enum class TokenKind : uint8_t {
  data,            // text between tags, as it will be printed
  variable_begin,  // {{
  variable_end,
  block_begin,  // {%
  block_end,
  name,
  string,  // text: unescaped
  integer,
  real,
  symbol,  // text: the operator or bracket
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int32_t line = 0;
  std::string_view text = {};
  int64_t integer = 0;
  double real = 0;

  bool is(TokenKind k, std::string_view t) const { return kind == k && text == t; }
  bool is_name(std::string_view t) const { return is(TokenKind::name, t); }
  bool is_symbol(std::string_view t) const { return is(TokenKind::symbol, t); }
};

/// The tokens of a template, ended by one of kind `end`. Their texts point into `source` or the
/// arena. As Jinja with trim_blocks and lstrip_blocks: a newline after a tag and blanks before one
/// go, `-` takes all white space, `+` keeps it, and one newline at the end of the template goes.
/// Throws Error{invalid_data} that names the line.
std::vector<Token> tokenize(std::string_view source, Arena& arena);

/// Throws the Error{invalid_data} of a template that is not well-formed.
[[noreturn]] void syntax_error(int32_t line, std::string_view message);

}  // namespace hasten::text::jinja
