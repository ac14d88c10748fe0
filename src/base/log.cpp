// SPDX-License-Identifier: Apache-2.0
// The logger behind base/log.h: spdlog's asynchronous stderr sink.
#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace hasten::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

/// The logger and the thread that writes for it.
struct AsyncLogger {
  AsyncLogger() {
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    logger->flush_on(spdlog::level::warn);
  }
  ~AsyncLogger() { pool.reset(); }  // writes what is queued and joins before the logger goes

  // 8192 lines of queue: a second of the busiest log seen; older lines give way to newer ones.
  std::shared_ptr<spdlog::details::thread_pool> pool =
      std::make_shared<spdlog::details::thread_pool>(8192, 1);
  std::shared_ptr<spdlog::async_logger> logger = std::make_shared<spdlog::async_logger>(
      "hasten", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(), pool,
      spdlog::async_overflow_policy::overrun_oldest);
};

spdlog::logger& logger() {
  static const AsyncLogger instance;
  return *instance.logger;
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }
bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }
void write(Level level, std::string_view message) { logger().log(to_spdlog(level), message); }

}  // namespace hasten::log
