// SPDX-License-Identifier: Apache-2.0
// The part of a chat request that reaches the template: messages, tools and template arguments.
#pragma once

#include "hasten/chat.h"
#include "server/json_fields.h"
#include "server/server.h"

namespace hasten::server {

/// The conversation in a body, checked and otherwise as the client sent it. Throws Error with
/// `param` as openai_request.h says.
Chat read_chat(const Fields& body, const Limits& limits);

}  // namespace hasten::server
