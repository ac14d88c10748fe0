// SPDX-License-Identifier: Apache-2.0
// The shape of the generated script tables; only code_point_set.cpp reads them.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "text/regex/code_point_set.h"

namespace hasten::text::regex::tables {

struct Script {
  std::string_view name;  // long ("Hiragana") or short ("Hira")
  int first;              // of kScriptRanges
  int last;               // one past
};

extern const CodePointRange kScriptRanges[];
extern const Script kScripts[];  // sorted by name
extern const size_t kNumScripts;

}  // namespace hasten::text::regex::tables
