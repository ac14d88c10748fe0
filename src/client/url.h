// SPDX-License-Identifier: Apache-2.0
// Where a server is, as people write it.
#pragma once

#include <string>
#include <string_view>

namespace hasten::client {

struct Url {
  std::string host;  // a name or an address; an IPv6 one without its brackets
  std::string port = "80";
  std::string prefix = {};  // before every path: "" or "/api"

  /// As it stands in a Host field: "127.0.0.1:8080", "[::1]:8080".
  std::string authority() const;
};

/// Reads http://HOST[:PORT][/PREFIX]; a prefix that ends in /v1 loses that, which every path
/// brings. Throws Error{invalid_argument, "url"} for anything else, such as https, which is not
/// spoken here.
Url parse_url(std::string_view text);

}  // namespace hasten::client
