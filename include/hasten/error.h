// SPDX-License-Identifier: Apache-2.0
// The one exception that hasten throws: what is wrong, with which value, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace hasten {

enum class ErrorCode {
  invalid_argument,    // a request or option is out of its range; HTTP 400
  not_found,           // a file, model or adapter does not exist; HTTP 404
  invalid_data,        // a file or stream is damaged, lies about itself, or is of an unknown kind
  unsupported,         // understood, but not something this build or device can do
  resource_exhausted,  // memory, queue or budget is used up; HTTP 429 or 503
  unavailable,         // shutting down or not ready; HTTP 503
  io,                  // the operating system refused a file or socket operation
  internal,            // a bug in hasten; HTTP 500
};

/// Thrown for what the caller or the environment got wrong. `what()` is one sentence that names the
/// thing, its value, the limit, and the way out.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string param = {})
      : std::runtime_error(message), code_(code), param_(std::move(param)) {}

  ErrorCode code() const noexcept { return code_; }
  /// The request field at fault ("temperature", "messages[2].content"), or empty.
  const std::string& param() const noexcept { return param_; }

 private:
  ErrorCode code_;
  std::string param_;
};

}  // namespace hasten
