// SPDX-License-Identifier: Apache-2.0
// Maps errors to statuses and to OpenAI's error object.
#include "server/errors.h"

#include "base/json.h"
#include "server/openai_json.h"

namespace hasten::server {
namespace {

json::Value or_null(const std::string& text) {
  return text.empty() ? json::Value(nullptr) : json::Value(text);
}

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError result{.status = 400, .message = error.what(), .param = error.param()};
  switch (error.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_data:
      break;
    case ErrorCode::unsupported:
      result.code = "unsupported_parameter";
      break;
    case ErrorCode::not_found:
      result.status = 404;
      result.code = result.param == "model" ? "model_not_found" : "not_found";
      break;
    case ErrorCode::resource_exhausted:
      result.status = 429;
      result.type = "rate_limit_error";
      result.code = "overloaded";
      result.retry_after_s = 1;
      break;
    case ErrorCode::unavailable:
      result.status = 503;
      result.type = "server_error";
      result.code = "unavailable";
      result.retry_after_s = 5;
      break;
    case ErrorCode::io:
    case ErrorCode::internal:
      return internal_error();
  }
  return result;
}

ApiError internal_error() {
  return {.status = 500,
          .message = "The server failed on this request; its log says why.",
          .type = "server_error",
          .code = "internal_error"};
}

ApiError shutting_down() {
  return to_api_error(
      Error(ErrorCode::unavailable, "The server is shutting down; ask another one."));
}

std::string error_json(const ApiError& error) {
  // A message may quote a path or a header, which can be any bytes.
  return json::serialize(json::Object{{"error",
                                       {{"message", to_utf8(error.message)},
                                        {"type", error.type},
                                        {"param", or_null(error.param)},
                                        {"code", or_null(error.code)}}}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after_s > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace hasten::server
