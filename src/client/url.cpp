// SPDX-License-Identifier: Apache-2.0
// Takes a URL apart.
#include "client/url.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"

namespace hasten::client {
namespace {

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

std::string Url::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + port;
}

Url parse_url(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [text](std::string_view why) {
    fail_param("url", "--url {}: {}; write http://HOST:PORT", printable(text), why);
  };
  if (text.starts_with("https://"))
    fail_param("url",
               "--url {}: there is no TLS here; give the http:// address of the server itself, "
               "behind its proxy",
               printable(text));
  if (!text.starts_with(kScheme)) wrong("it does not begin with http://");
  if (!is_visible(text) || text.size() > 2048) wrong("it is too long, or holds what no URL may");
  std::string_view rest = text.substr(kScheme.size());
  Url url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view prefix = rest.substr(slash);
  if (authority.find('@') != std::string_view::npos) wrong("it holds a user; give --api-key KEY");
  if (prefix.find_first_of("?#") != std::string_view::npos) wrong("it holds a query or fragment");
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) wrong("its address has no closing bracket");
    url.host = authority.substr(1, end - 1);
    authority.remove_prefix(end + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    authority.remove_prefix(colon);
  }
  if (url.host.empty()) wrong("it names no host");
  if (!authority.empty()) {
    url.port = authority.substr(1);
    const bool digits = url.port.find_first_not_of("0123456789") == std::string::npos;
    if (authority[0] != ':' || url.port.empty() || url.port.size() > 5 || !digits ||
        std::stoi(url.port) < 1 || std::stoi(url.port) > 65535)
      wrong("its port is no number from 1 to 65535");
  }
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.ends_with("/v1")) prefix.remove_suffix(3);
  url.prefix = prefix;
  return url;
}

}  // namespace hasten::client
