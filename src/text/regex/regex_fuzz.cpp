// SPDX-License-Identifier: Apache-2.0
// Fuzzes the regular expressions: the input is an expression, a zero byte, and a text. Both
// searches must find the same, in order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/regex/linear_search.h"
#include "text/regex/regex.h"

namespace {

using hasten::Error;
using hasten::ErrorCode;
using namespace hasten::text::regex;

void check(std::string_view pattern, std::string_view text, Dialect dialect) {
  const Regex regex(pattern, dialect);
  std::vector<Match> matches;
  regex.find_all(text, matches);
  size_t at = 0;
  for (const Match& match : matches) {
    if (match.begin < at || match.end < match.begin || match.end > text.size()) std::abort();
    at = match.end;
  }
  std::vector<Match> in_parts;
  Scratch used;
  for (Progress progress; !progress.done;) regex.find_more(text, 2, used, progress, in_parts);
  if (in_parts != matches) std::abort();
  const Syntax syntax = parse(pattern, dialect);
  const Alphabet alphabet(syntax.sets);
  const Program program = compile(syntax, alphabet);
  std::vector<Match> general;
  Scratch scratch;
  LinearSearch(program, alphabet).find_all(text, 0, std::nullopt, scratch, general);
  if (general != matches) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  if (end == std::string_view::npos) return 0;
  for (const Dialect dialect : {Dialect::ruby, Dialect::perl}) {
    try {
      check(input.substr(0, end), input.substr(end + 1), dialect);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) std::abort();
    }
  }
  return 0;
}
