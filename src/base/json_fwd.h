// SPDX-License-Identifier: Apache-2.0
// The names of JSON's types, for headers that only pass them on.
#pragma once

#include <boost/json/fwd.hpp>

namespace hasten::json {

using Value = boost::json::value;
using Object = boost::json::object;
using Array = boost::json::array;
using String = boost::json::string;

}  // namespace hasten::json
