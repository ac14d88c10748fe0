// SPDX-License-Identifier: Apache-2.0
// Lines, fields, events (WHATWG HTML, section 9.2.6).
#include "client/sse_reader.h"

#include <algorithm>

#include "base/error.h"

namespace hasten::client {

void SseReader::feed(std::string_view bytes,
                     const std::function<void(std::string_view data)>& take) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    if (line_.size() + end > max_event_bytes_)
      fail(ErrorCode::invalid_data, "a line of an event stream is longer than {} bytes",
           max_event_bytes_);
    line_ += bytes.substr(0, end);
    if (end == bytes.size()) return;
    bytes.remove_prefix(end + 1);
    end_line(take);
    line_.clear();
  }
}

void SseReader::end_line(const std::function<void(std::string_view data)>& take) {
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    if (has_data_) take(data_);
    has_data_ = false;
    data_.clear();
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  if (line.substr(0, colon) != "data") return;
  line.remove_prefix(std::min(colon + 1, line.size()));
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (data_.size() + line.size() > max_event_bytes_)
    fail(ErrorCode::invalid_data, "an event is longer than {} bytes", max_event_bytes_);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

}  // namespace hasten::client
