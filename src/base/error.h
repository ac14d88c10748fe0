// SPDX-License-Identifier: Apache-2.0
// Throwing hasten::Error with a formatted message, and HASTEN_CHECK for what only a bug can break.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "hasten/error.h"

namespace hasten {

/// Throws Error{code, formatted message}.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error{invalid_argument} that names the request field at fault.
template <class... Args>
[[noreturn]] void fail_param(std::string param, fmt::format_string<Args...> format,
                             Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...),
              std::move(param));
}

namespace internal {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace internal

}  // namespace hasten

/// An invariant that no input can break. Throws Error{internal}, so that one request's step fails
/// and the server lives.
#define HASTEN_CHECK(condition) \
  (static_cast<bool>(condition) \
       ? void(0)                \
       : ::hasten::internal::check_failed(#condition, __FILE__, __LINE__))
