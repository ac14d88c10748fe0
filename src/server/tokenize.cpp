// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and /detokenize, in the shape of vLLM.
#include <utility>

#include "base/json.h"
#include "server/chat_template.h"
#include "server/handlers.h"
#include "server/openai_json.h"
#include "server/openai_request.h"

namespace hasten::server {

Task<> tokenize(Context& context, Exchange& exchange) {
  const TokenizeRequest request = parse_tokenize_request(exchange.take_body(), context.bounds());
  context.served_name(request.model);
  const GenerationSlot slot(context);
  const auto* text = std::get_if<std::string>(&request.input);
  const std::vector<int32_t> tokens =
      text != nullptr
          ? context.engine.tokenize(*text, request.add_special_tokens, request.parse_special)
          : render_chat(context.engine, std::get<Chat>(request.input)).tokens;
  json::Object result = {{"count", tokens.size()},
                         {"max_model_len", context.engine.model().context},
                         {"tokens", json::Array(tokens.begin(), tokens.end())},
                         {"token_strs", nullptr}};
  if (request.with_strings) {
    json::Array strings;
    for (const int32_t token : tokens) {
      strings.emplace_back(with_escapes(context.engine.token_bytes(token)));
    }
    result["token_strs"] = std::move(strings);
  }
  HttpResponse response{.body = json::serialize(result)};
  co_await exchange.respond(std::move(response));
}

Task<> detokenize(Context& context, Exchange& exchange) {
  const DetokenizeRequest request =
      parse_detokenize_request(exchange.take_body(), context.bounds());
  context.served_name(request.model);
  const GenerationSlot slot(context);
  const std::string text = to_utf8(
      context.engine.detokenize(request.tokens, /*show_special=*/!request.skip_special_tokens));
  HttpResponse response{.body = json::serialize(json::Object{{"prompt", text}})};
  co_await exchange.respond(std::move(response));
}

}  // namespace hasten::server
