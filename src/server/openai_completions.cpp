// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions: plain continuation of one or more prompts.
#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/openai_json.h"
#include "server/openai_request.h"
#include "server/sse.h"

namespace hasten::server {
namespace {

/// Logprobs in the shape of this API: parallel lists, one item per token.
struct Logprobs {
  json::Array tokens;
  json::Array token_logprobs;
  json::Array top_logprobs;
  json::Array text_offset;

  bool empty() const { return tokens.empty(); }
  json::Object take() {
    return {{"tokens", std::exchange(tokens, {})},
            {"token_logprobs", std::exchange(token_logprobs, {})},
            {"top_logprobs", std::exchange(top_logprobs, {})},
            {"text_offset", std::exchange(text_offset, {})}};
  }
};

/// A text with the logprobs of its tokens.
struct Scored {
  Logprobs logprobs;
  CharacterCount characters;  // of the text so far, for text_offset
};

/// One answer: choice c of prompt p has the index p * n + c.
struct CompletionChoice {
  bool begun = false;
  Finish finish = Finish::none;
  Scored scored;
  std::string text;  // of a whole answer
};

class CompletionWriter : public AnswerWriter {
 public:
  /// `prompts`: tokens of each prompt, `echoes`: their texts, for what repeats them.
  CompletionWriter(const Engine& engine, const CompletionRequest& request,
                   std::vector<std::vector<int32_t>> prompts, std::vector<std::string> echoes,
                   AnswerHeader header)
      : engine_(engine),
        request_(request),
        prompts_(std::move(prompts)),
        echoes_(std::move(echoes)),
        scored_prompts_(prompts_.size()),
        header_(std::move(header)),
        choices_(prompts_.size() * static_cast<std::size_t>(request.common.request.n)) {}

  std::string add(const Arrival& arrival) override {
    const Chunk& chunk = arrival.chunk;
    const auto prompt = static_cast<std::size_t>(arrival.request);
    const std::size_t index = prompt * num_choices() + static_cast<std::size_t>(chunk.choice);
    CompletionChoice& choice = choices_.at(index);
    std::string text;
    if (!std::exchange(choice.begun, true) && request_.echo) {
      text = echoes_[prompt];
      // The engine tells them once, before anything else comes; the other choices repeat them.
      Scored& scored = scored_prompts_[prompt];
      if (wants_logprobs() && scored.logprobs.empty())
        score_prompt(chunk, prompts_[prompt], scored);
      choice.scored = scored;
    }
    if (!request_.only_prompt) {
      text += chunk.text;
      if (wants_logprobs()) add_logprobs(chunk, choice.scored);
    }
    choice.finish =
        request_.only_prompt && chunk.finish == Finish::stop ? Finish::length : chunk.finish;
    if (!request_.common.stream) {
      choice.text += text;
      return {};
    }
    if (text.empty() && choice.finish == Finish::none) return {};
    json::Object event = header_.json();
    event["choices"] = json::Array{choice_json(index, choice, std::move(text))};
    if (request_.common.include_usage) event["usage"] = nullptr;
    return sse_event(json::serialize(event));
  }

  std::string stream_end(const Usage& usage) override {
    const Usage shown = visible(usage);
    return last_events(header_, request_.common.include_usage ? &shown : nullptr);
  }

  std::string stream_error(const std::string& error_json) override {
    return sse_event(error_json).append(kSseDone);
  }

  std::string body(const Usage& usage) override {
    json::Array choices;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      choices.push_back(choice_json(i, choices_[i], std::move(choices_[i].text)));
    }
    json::Object result = header_.json();
    result["choices"] = std::move(choices);
    result["usage"] = usage_json(visible(usage));
    return json::serialize(result);
  }

 private:
  std::size_t num_choices() const { return static_cast<std::size_t>(request_.common.request.n); }
  bool wants_logprobs() const { return request_.common.request.logprobs >= 0; }

  /// The token that scoring a prompt generates is not the client's.
  Usage visible(Usage usage) const {
    if (request_.only_prompt) usage.completion_tokens = 0;
    return usage;
  }

  void add_token(Scored& scored, int32_t token) const {
    const std::string bytes = engine_.token_bytes(token);
    scored.logprobs.text_offset.emplace_back(scored.characters.whole());
    scored.characters.add(bytes);
    scored.logprobs.tokens.emplace_back(token_name(bytes));
  }

  void add_token_logprob(Scored& scored, const TokenLogprob& logprob) const {
    add_token(scored, logprob.chosen.token);
    scored.logprobs.token_logprobs.emplace_back(finite_logprob(logprob.chosen.logprob));
    json::Object top;
    for (const TokenProbability& other : logprob.top) {
      top[token_name(engine_.token_bytes(other.token))] = finite_logprob(other.logprob);
    }
    // The chosen token is always among them, so that there may be one more than was asked for.
    top.emplace(token_name(engine_.token_bytes(logprob.chosen.token)),
                finite_logprob(logprob.chosen.logprob));
    scored.logprobs.top_logprobs.push_back(std::move(top));
  }

  void add_logprobs(const Chunk& chunk, Scored& scored) const {
    const std::size_t count = std::min(num_text_tokens(chunk), chunk.logprobs.size());
    for (std::size_t i = 0; i < count; ++i) add_token_logprob(scored, chunk.logprobs[i]);
  }

  void score_prompt(const Chunk& chunk, const std::vector<int32_t>& prompt, Scored& scored) const {
    // Nothing precedes the first token, so that it has no probability.
    add_token(scored, prompt.front());
    scored.logprobs.token_logprobs.emplace_back(nullptr);
    scored.logprobs.top_logprobs.emplace_back(nullptr);
    for (const TokenLogprob& logprob : chunk.prompt_logprobs) add_token_logprob(scored, logprob);
  }

  json::Object choice_json(std::size_t index, CompletionChoice& choice, std::string text) const {
    json::Value logprobs = nullptr;
    Logprobs& list = choice.scored.logprobs;
    if (!list.empty()) logprobs = list.take();
    return {{"index", index},
            {"text", std::move(text)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", finish_reason_json(choice.finish)}};
  }

  const Engine& engine_;
  const CompletionRequest& request_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<std::string> echoes_;
  std::vector<Scored> scored_prompts_;  // that echoes begin with
  AnswerHeader header_;
  std::vector<CompletionChoice> choices_;
};

std::vector<int32_t> prompt_tokens(const Engine& engine, const Prompt& prompt,
                                   const CompletionRequest& request) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return engine.tokenize(*text, request.add_special_tokens, request.parse_special);
  }
  return std::get<std::vector<int32_t>>(prompt);
}

std::string prompt_text(const Engine& engine, const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return to_utf8(engine.detokenize(std::get<std::vector<int32_t>>(prompt)));
}

}  // namespace

Task<> completions(Context& context, Exchange& exchange) {
  CompletionRequest request = parse_completion_request(exchange.take_body(), context.bounds());
  const std::string& model = context.served_name(request.common.model);
  const GenerationSlot slot(context);

  std::vector<Request> requests;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;
  for (const Prompt& prompt : request.prompts) {
    prompts.push_back(prompt_tokens(context.engine, prompt, request));
    check_context(context, prompts.back(), "prompt");
    echoes.push_back(request.echo ? prompt_text(context.engine, prompt) : "");
    requests.push_back(request.common.request);
    requests.back().prompt = prompts.back();
  }
  request.prompts = {};  // large, and not needed while the answers are generated
  CompletionWriter writer(context.engine, request, std::move(prompts), std::move(echoes),
                          {.id = "cmpl-" + exchange.request().id,
                           .kind = "text_completion",
                           .created_s = std::time(nullptr),
                           .model = model});
  co_await answer_generation(context, exchange, std::move(requests), writer, request.common.stream);
}

}  // namespace hasten::server
