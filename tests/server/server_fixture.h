// SPDX-License-Identifier: Apache-2.0
// A running server on the fake engine, for each test anew.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "fake_engine.h"
#include "hasten/engine.h"
#include "http_client.h"
#include "server/server.h"

namespace hasten::testing {

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    log::set_level(log::Level::off);
    fake_controls().ready = true;
    fake_controls().step_us = 200;
    fake_controls().max_queue = 10'000;
    options_.port = 0;
  }

  /// The server, with options_ as they are at its first use.
  server::Server& server() {
    if (!server_) {
      server_ = std::make_unique<server::Server>(engine_, options_);
      server_->start();
    }
    return *server_;
  }
  HttpClient connect(int receive_bytes = 0) { return HttpClient(server().port(), receive_bytes); }
  HttpReply post(std::string_view path, std::string_view body, std::string_view headers = "") {
    return connect().request("POST", path, body, headers);
  }
  HttpReply get(std::string_view path, std::string_view headers = "") {
    return connect().request("GET", path, "", headers);
  }
  /// POST /v1/chat/completions of one user message with further members (", \"stream\": true").
  HttpReply chat(std::string_view content, std::string_view more = "") {
    return post("/v1/chat/completions", chat_body(content, more));
  }
  static std::string chat_body(std::string_view content, std::string_view more = "") {
    return R"({"messages": [{"role": "user", "content": ")" + std::string(content) + "\"}]" +
           std::string(more) + "}";
  }
  /// Waits, for five seconds at most, until the engine runs `count` requests.
  bool running_becomes(int64_t count) const {
    for (int i = 0; i < 500; ++i) {
      if (engine_.stats().running == count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  Engine engine_;
  server::ServerOptions options_;
  std::unique_ptr<server::Server> server_;
};

inline json::Value parse(std::string_view text) { return json::parse(text, "reply"); }

/// The payloads of a stream's events, [DONE] included.
inline std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> events;
  while (!stream.empty()) {
    const std::size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << stream;
    if (end == std::string_view::npos) break;
    const std::string_view event = stream.substr(0, end);
    if (event.starts_with("data: ")) events.emplace_back(event.substr(6));
    stream.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace hasten::testing
