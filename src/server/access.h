// SPDX-License-Identifier: Apache-2.0
// Who may ask: API keys, the Host allow-list against DNS rebinding, and origins of browsers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"
#include "server/server.h"

namespace hasten::server {

/// Decides by ServerOptions alone. Const after construction; any thread.
class Access {
 public:
  explicit Access(const ServerOptions& options);

  /// Whether a Host header names this server. A page on the web whose name was pointed at
  /// 127.0.0.1 sends its own name, and is refused. Always true when not bound to loopback.
  bool host_allowed(std::string_view host) const;
  /// Whether a browser's page of `origin` ("https://example.org") may call a server that it knows
  /// as `host`: its own page, pages of this machine, and the listed ones.
  bool origin_allowed(std::string_view origin, std::string_view host) const;
  /// The tenant whose key an Authorization header ("Bearer …") carries, or nullopt. Takes the same
  /// time for every wrong key of a length.
  std::optional<std::string> authenticate(std::string_view authorization) const;

 private:
  const ServerOptions& options_;
  bool loopback_;  // only this machine can reach the server
};

/// Whether two strings are equal, in a time that depends on their lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);
/// Whether an Authorization header has the form that carries a key.
bool is_bearer(std::string_view authorization);
/// Whether a name, with or without a port, always means this machine: localhost, 127.x, [::1].
bool names_this_machine(std::string_view host);

}  // namespace hasten::server
