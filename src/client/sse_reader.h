// SPDX-License-Identifier: Apache-2.0
// SseReader: takes a stream of server-sent events apart, whatever the pieces it comes in.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace hasten::client {

/// Lines end in LF or CRLF. Fields other than data, and comments, are left out. One thread.
class SseReader {
 public:
  /// `max_event_bytes`: of one event's data and of one line.
  explicit SseReader(size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  /// Calls `take` with the data of each event that ends in `bytes`. Throws Error{invalid_data} when
  /// a line or event is too long.
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& take);

 private:
  void end_line(const std::function<void(std::string_view data)>& take);

  const size_t max_event_bytes_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace hasten::client
