// SPDX-License-Identifier: Apache-2.0
// Bounded JSON parsing on Boost.JSON.
#include "base/json.h"

#include <boost/json/parse.hpp>
#include <boost/json/parse_options.hpp>
#include <boost/json/parser.hpp>

#include "base/error.h"

namespace hasten::json {

Value parse(std::string_view text, std::string_view name, const Limits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    fail(ErrorCode::invalid_data, "{} is {} bytes of JSON; the limit is {}", name, text.size(),
         limits.max_bytes);
  }
  boost::json::parse_options options;
  options.max_depth = static_cast<std::size_t>(limits.max_depth);
  boost::json::parser parser({}, options);
  boost::system::error_code code;
  const std::size_t read = parser.write(text.data(), text.size(), code);
  if (code) {
    if (code == boost::json::error::too_deep) {
      fail(ErrorCode::invalid_data, "{} nests deeper than {} levels at byte {}", name,
           limits.max_depth, read);
    }
    fail(ErrorCode::invalid_data, "{} is not valid JSON at byte {}: {}", name, read,
         code.message());
  }
  return parser.release();
}

}  // namespace hasten::json
