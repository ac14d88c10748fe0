// SPDX-License-Identifier: Apache-2.0
// Server-sent events, as OpenAI's clients read them (WHATWG HTML, section 9.2).
#pragma once

#include <string>
#include <string_view>

#include "server/http.h"

namespace hasten::server {

/// "data: {json}\n\n". JSON text has no line breaks, so one data line is enough.
std::string sse_event(std::string_view json);
/// The end of a stream.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
/// A comment, which clients skip: it keeps proxies from closing a silent stream.
inline constexpr std::string_view kSsePing = ": ping\n\n";

/// The head of an answer that is a stream of events.
HttpResponse sse_head();

}  // namespace hasten::server
