// SPDX-License-Identifier: Apache-2.0
// Leveled logging to standard error; spdlog is behind it, asynchronous, and drops the oldest line
// rather than stall the caller. Never logs prompts or answers.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace hasten::log {

enum class Level { debug, info, warn, error, off };

/// Lines below `level` are dropped. Default: info. Any thread.
void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hasten::log
