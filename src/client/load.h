// SPDX-License-Identifier: Apache-2.0
// Loads a server that speaks OpenAI's API: sends requests when they are due and tells of each token
// as it comes. What the server sends is hostile: bounded in size and time, never trusted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/url.h"

namespace hasten::client {

struct ServerAddress {
  Url url;
  std::string api_key;  // sent as a Bearer token; empty: none
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{60'000};     // between two pieces of an answer
  std::chrono::milliseconds request_timeout{600'000};  // for all of it
  std::chrono::milliseconds error_timeout{2'000};      // for the words of an error behind its head
  size_t header_bytes = 16 << 10;
  size_t event_bytes = 1 << 20;
  size_t body_bytes = 64 << 20;  // of one answer
};

/// How an answer ended.
struct Ending {
  std::string failure;         // in a few words, one of few; empty: it came whole
  std::string detail;          // of it, as the server says, and what to do; may be empty
  int64_t prompt_tokens = -1;  // as the server says; -1: it does not
  int64_t cached_tokens = 0;
  int64_t completion_tokens = -1;
};

/// All functions are called on the thread of `run_load`, one at a time.
struct Load {
  size_t num_requests = 0;
  std::vector<int64_t> times_us = {};  // when each is due, from the start on; empty: closed loop
  // Of each, those that come when it has ended well, as [index, microseconds after that], of an
  // open loop; empty: none does. Those have no time of their own.
  std::vector<std::vector<std::pair<size_t, int64_t>>> followers = {};
  int64_t users = 1;  // of a closed loop: requests under way at the same time
  std::string path;   // "/v1/completions", to be answered with a stream of events
  // JSON; asked for once of each, those that follow nobody in order.
  std::function<std::string(size_t index)> body;
  /// It is about to be sent; `due_us` is the same time in a closed loop.
  std::function<void(size_t index, int64_t due_us, int64_t now_us)> on_send;
  std::function<void(size_t index, int64_t now_us)> on_text;  // an event brought text
  std::function<void(size_t index, int64_t now_us, const Ending& ending)> on_end;
};

/// Returns when each request has ended, which time limits make sure of. Each has a connection of
/// its own. Throws Error{unavailable} when the server's name cannot be resolved.
void run_load(const ServerAddress& server, const Load& load);

/// The body of GET `path`. Throws Error{unavailable} when the server cannot be reached or does not
/// answer 200, saying what it did.
std::string get(const ServerAddress& server, std::string_view path);

}  // namespace hasten::client
