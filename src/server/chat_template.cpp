// SPDX-License-Identifier: Apache-2.0
// Maps what a chat template throws.
#include "server/chat_template.h"

#include "hasten/error.h"

namespace hasten::server {

RenderedChat render_chat(const Engine& engine, const Chat& chat) {
  try {
    return engine.render_chat(chat);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    throw Error(ErrorCode::invalid_argument, error.what(), "messages");
  }
}

}  // namespace hasten::server
