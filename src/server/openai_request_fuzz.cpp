// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the parsers of OpenAI's requests: they return or throw Error.
#include <cstdint>
#include <string_view>

#include "hasten/error.h"
#include "server/openai_request.h"

namespace {

template <class Parse>
void run(const Parse& parse, std::string_view body) {
  // Small limits, so that short inputs reach them.
  hasten::server::RequestBounds bounds{.limits = {}, .vocab_size = 300, .context = 64};
  bounds.limits.messages = 4;
  bounds.limits.tools = 3;
  bounds.limits.prompts = 3;
  bounds.limits.json_depth = 16;
  try {
    parse(body, bounds);
  } catch (const hasten::Error&) {
    // The answer to a bad request.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  run(hasten::server::parse_chat_request, body);
  run(hasten::server::parse_completion_request, body);
  run(hasten::server::parse_tokenize_request, body);
  run(hasten::server::parse_detokenize_request, body);
  return 0;
}
