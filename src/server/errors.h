// SPDX-License-Identifier: Apache-2.0
// Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}} and an HTTP status.
#pragma once

#include <cstdint>
#include <string>

#include "hasten/error.h"
#include "server/http.h"

namespace hasten::server {

/// An error as a client sees it. Throw one to end a request with it.
struct ApiError {
  int status = 500;
  std::string message{};
  std::string type = "invalid_request_error";  // or authentication_error, rate_limit_error,
                                               // server_error
  std::string param{};                         // the field at fault; empty: null
  std::string code{};                          // for programs; empty: null
  int64_t retry_after_s = 0;                   // 0: do not say
};

/// What an engine's or parser's error is to a client. The messages of bugs and of the operating
/// system are not for clients and are replaced.
ApiError to_api_error(const Error& error);
/// For an exception of any other kind.
ApiError internal_error();
/// For work that comes during a drain.
ApiError shutting_down();

/// {"error": {…}}
std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace hasten::server
