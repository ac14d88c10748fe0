// SPDX-License-Identifier: Apache-2.0
// JSON from outside, parsed within limits; Boost.JSON is behind it.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string_view>

#include "base/json_fwd.h"

namespace hasten::json {

using boost::json::serialize;

struct Limits {
  int64_t max_bytes = int64_t{4} << 20;  // of the text
  int32_t max_depth = 128;               // of nested arrays and objects
};

/// Parses one strict JSON value (no comments, no trailing commas, valid UTF-8), which a byte order
/// mark may stand before. `name` says in errors whose text it is ("tokenizer.json", "request
/// body"). Throws Error{invalid_data}, which says so of UTF-16. What stands in the place of a file
/// is told apart where files are read (fetched_file.h).
Value parse(std::string_view text, std::string_view name, const Limits& limits = {});

}  // namespace hasten::json
