// SPDX-License-Identifier: Apache-2.0
// Framing of server-sent events.
#include "server/sse.h"

#include "base/error.h"

namespace hasten::server {

std::string sse_event(std::string_view json) {
  HASTEN_CHECK(json.find_first_of("\r\n") == std::string_view::npos);
  std::string event;
  event.reserve(json.size() + 8);
  event.append("data: ").append(json).append("\n\n");
  return event;
}

HttpResponse sse_head() {
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

}  // namespace hasten::server
