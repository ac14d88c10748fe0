// SPDX-License-Identifier: Apache-2.0
// The engine's chat template, with its errors as a client is to see them.
#pragma once

#include "hasten/engine.h"

namespace hasten::server {

/// The prompt of a conversation. What the template's budget refuses is the request's fault, not
/// overload: an Error{invalid_argument} of `messages`.
RenderedChat render_chat(const Engine& engine, const Chat& chat);

}  // namespace hasten::server
