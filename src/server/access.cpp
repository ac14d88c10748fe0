// SPDX-License-Identifier: Apache-2.0
// Checks of keys, hosts and origins.
#include "server/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/siphash.h"
#include "server/ascii.h"

namespace hasten::server {
namespace {

constexpr std::string_view kBearer = "bearer ";

/// "name:8080" and "[::1]:8080" without their port, in lower case.
std::string without_port(std::string_view host) {
  const std::size_t bracket = host.find(']');
  const std::size_t from = bracket == std::string_view::npos ? 0 : bracket;
  return to_lower(host.substr(0, host.find(':', from)));
}

bool is_dotted_number(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// A tenant is its key and not the key's place among the others: what the disk has of a tenant must
/// not be another one's after a restart with other keys.
std::string tenant_of(std::string_view key) {
  const Hash128 hash =
      siphash(key, {.low = 0x6861'7374'656e'206bULL, .high = 0x6579'2d74'656e'616eULL});
  return fmt::format("key {:016x}{:016x}", hash.high, hash.low);
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (b.empty()) return a.empty();
  // volatile: the compiler may not stop at the first difference.
  volatile std::size_t difference = a.size() ^ b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = difference | static_cast<std::size_t>(a[i] ^ b[i % b.size()]);
  }
  return difference == 0;
}

bool names_this_machine(std::string_view host) {
  const std::string name = without_port(host);
  return name == "localhost" || name.ends_with(".localhost") || name == "[::1]" || name == "::1" ||
         (name.starts_with("127.") && is_dotted_number(name));
}

Access::Access(const ServerOptions& options)
    : options_(options), loopback_(options.host == "::1" || names_this_machine(options.host)) {}

bool Access::host_allowed(std::string_view host) const {
  if (!loopback_ || names_this_machine(host)) return true;
  const std::string name = without_port(host);
  return std::any_of(options_.allowed_hosts.begin(), options_.allowed_hosts.end(),
                     [&name](const std::string& allowed) { return to_lower(allowed) == name; });
}

bool Access::origin_allowed(std::string_view origin, std::string_view host) const {
  const std::size_t scheme = origin.find("://");
  if (scheme != std::string_view::npos) {
    const std::string_view place = origin.substr(scheme + 3);
    if (to_lower(place) == to_lower(host) || names_this_machine(place)) return true;
  }
  return std::any_of(
      options_.cors_origins.begin(), options_.cors_origins.end(),
      [origin](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

bool is_bearer(std::string_view authorization) {
  return to_lower(authorization.substr(0, kBearer.size())) == kBearer;
}

std::optional<std::string> Access::authenticate(std::string_view authorization) const {
  if (options_.api_keys.empty()) return "";
  if (!is_bearer(authorization)) return std::nullopt;
  const std::string_view token = authorization.substr(kBearer.size());
  std::optional<std::string> tenant;
  for (std::size_t i = 0; i < options_.api_keys.size(); ++i) {
    if (equal_in_constant_time(token, options_.api_keys[i])) tenant = tenant_of(token);
  }
  return tenant;
}

}  // namespace hasten::server
