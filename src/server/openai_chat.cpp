// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions: conversations, with tools and reasoning.
#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "server/chat_template.h"
#include "server/errors.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/openai_json.h"
#include "server/openai_request.h"
#include "server/sse.h"

namespace hasten::server {
namespace {

/// One of the n answers.
struct ChatChoice {
  std::unique_ptr<ChatParser> parser;
  bool begun = false;  // its role was sent
  bool has_tool_calls = false;
  Finish finish = Finish::none;
  json::Array logprobs;  // of tokens whose text was not sent yet, or of all in a whole answer
  // A whole answer:
  std::string content;
  std::string reasoning;
  json::Array tool_calls;
};

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const Engine& engine, const ChatRequest& request, const RenderedChat& prompt,
             AnswerHeader header)
      : engine_(engine), request_(request.common), header_(std::move(header)) {
    choices_.resize(static_cast<std::size_t>(request_.request.n));
    for (ChatChoice& choice : choices_) choice.parser = engine.chat_parser(prompt);
  }

  std::string add(const Arrival& arrival) override {
    const Chunk& chunk = arrival.chunk;
    ChatChoice& choice = choices_.at(static_cast<std::size_t>(chunk.choice));
    if (request_.request.logprobs >= 0) add_logprobs(chunk, choice.logprobs);
    std::vector<ChatEvent> events = choice.parser->push(chunk.text, chunk.special);
    if (chunk.finish != Finish::none) {
      choice.finish = chunk.finish;
      std::vector<ChatEvent> rest = choice.parser->finish();
      std::move(rest.begin(), rest.end(), std::back_inserter(events));
    }
    for (const ChatEvent& event : events) {
      choice.has_tool_calls = choice.has_tool_calls || event.kind == ChatEvent::Kind::tool_call;
    }
    if (!request_.stream) {
      for (const ChatEvent& event : events) collect(event, choice);
      return {};
    }
    std::string out;
    if (!std::exchange(choice.begun, true)) {
      out += delta(chunk.choice, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    }
    for (const ChatEvent& event : events) {
      out += delta(chunk.choice, event_json(event), take_logprobs(choice), nullptr);
    }
    if (chunk.finish != Finish::none) {
      out += delta(chunk.choice, {}, take_logprobs(choice), finish_reason(choice));
    }
    return out;
  }

  std::string stream_end(const Usage& usage) override {
    return last_events(header_, request_.include_usage ? &usage : nullptr);
  }

  std::string stream_error(const std::string& error_json) override {
    return sse_event(error_json).append(kSseDone);
  }

  std::string body(const Usage& usage) override {
    json::Array choices;
    for (std::size_t i = 0; i < choices_.size(); ++i) choices.push_back(whole(i, choices_[i]));
    json::Object result = header_.json();
    result["choices"] = std::move(choices);
    result["usage"] = usage_json(usage);
    return json::serialize(result);
  }

 private:
  json::Object token_json(const TokenProbability& token) const {
    const std::string bytes = engine_.token_bytes(token.token);
    json::Array values;
    for (const char byte : bytes) values.emplace_back(static_cast<unsigned char>(byte));
    return {{"token", to_utf8(bytes)},
            {"logprob", finite_logprob(token.logprob)},
            {"bytes", std::move(values)}};
  }

  void add_logprobs(const Chunk& chunk, json::Array& out) const {
    const std::size_t count = std::min(num_text_tokens(chunk), chunk.logprobs.size());
    for (std::size_t i = 0; i < count; ++i) {
      json::Object token = token_json(chunk.logprobs[i].chosen);
      json::Array top;
      for (const TokenProbability& other : chunk.logprobs[i].top) top.push_back(token_json(other));
      token["top_logprobs"] = std::move(top);
      out.push_back(std::move(token));
    }
  }

  /// {"content": […]} of the tokens whose text is being sent, or null.
  json::Value take_logprobs(ChatChoice& choice) const {
    if (choice.logprobs.empty()) return nullptr;
    return json::Object{{"content", std::exchange(choice.logprobs, {})}, {"refusal", nullptr}};
  }

  static json::Value finish_reason(const ChatChoice& choice) {
    if (choice.has_tool_calls && choice.finish == Finish::stop) return "tool_calls";
    return finish_reason_json(choice.finish);
  }

  static json::Object call_json(const ChatEvent& event) {
    return {{"index", event.index},
            {"id", event.id},
            {"type", "function"},
            {"function", {{"name", event.name}, {"arguments", event.text}}}};
  }

  /// The delta that tells of one event.
  static json::Object event_json(const ChatEvent& event) {
    switch (event.kind) {
      case ChatEvent::Kind::content:
        return {{"content", event.text}};
      case ChatEvent::Kind::reasoning:
        // vLLM renamed the field, and clients of either name are about.
        return {{"reasoning", event.text}, {"reasoning_content", event.text}};
      case ChatEvent::Kind::tool_call:
        return {{"tool_calls", json::Array{call_json(event)}}};
      case ChatEvent::Kind::tool_arguments:
        return {
            {"tool_calls", json::Array{json::Object{{"index", event.index},
                                                    {"function", {{"arguments", event.text}}}}}}};
    }
    return {};
  }

  std::string delta(int32_t index, json::Object change, json::Value logprobs,
                    json::Value finish) const {
    json::Object chunk = header_.json();
    chunk["choices"] = json::Array{json::Object{{"index", index},
                                                {"delta", std::move(change)},
                                                {"logprobs", std::move(logprobs)},
                                                {"finish_reason", std::move(finish)}}};
    if (request_.include_usage) chunk["usage"] = nullptr;
    return sse_event(json::serialize(chunk));
  }

  static void collect(const ChatEvent& event, ChatChoice& choice) {
    switch (event.kind) {
      case ChatEvent::Kind::content:
        choice.content += event.text;
        break;
      case ChatEvent::Kind::reasoning:
        choice.reasoning += event.text;
        break;
      case ChatEvent::Kind::tool_call: {
        json::Object call = call_json(event);
        call.erase("index");
        choice.tool_calls.push_back(std::move(call));
        break;
      }
      case ChatEvent::Kind::tool_arguments: {
        json::Value& call = choice.tool_calls.at(static_cast<std::size_t>(event.index));
        json::String& arguments = call.at("function").at("arguments").as_string();
        arguments.append(event.text);
        break;
      }
    }
  }

  json::Object whole(std::size_t index, ChatChoice& choice) const {
    json::Object message = {
        {"role", "assistant"}, {"content", choice.content}, {"refusal", nullptr}};
    if (!choice.reasoning.empty()) {
      message["reasoning"] = choice.reasoning;
      message["reasoning_content"] = choice.reasoning;
    }
    if (choice.has_tool_calls) {
      if (choice.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = choice.tool_calls;
    }
    return {{"index", index},
            {"message", std::move(message)},
            {"logprobs", take_logprobs(choice)},
            {"finish_reason", finish_reason(choice)}};
  }

  const Engine& engine_;
  const GenerationFields& request_;
  AnswerHeader header_;
  std::vector<ChatChoice> choices_;
};

}  // namespace

Task<> chat_completions(Context& context, Exchange& exchange) {
  ChatRequest chat = parse_chat_request(exchange.take_body(), context.bounds());
  const std::string& model = context.served_name(chat.common.model);
  const GenerationSlot slot(context);

  std::vector<Request> requests = {chat.common.request};
  RenderedChat prompt = render_chat(context.engine, chat.chat);
  requests.front().prompt = std::move(prompt.tokens);
  check_context(context, requests.front().prompt, "messages");
  ChatWriter writer(context.engine, chat, prompt,
                    {.id = "chatcmpl-" + exchange.request().id,
                     .kind = chat.common.stream ? "chat.completion.chunk" : "chat.completion",
                     .created_s = std::time(nullptr),
                     .model = model});
  chat.chat = {};  // large, and not needed while the answer is generated
  prompt = {};
  co_await answer_generation(context, exchange, std::move(requests), writer, chat.common.stream);
}

}  // namespace hasten::server
