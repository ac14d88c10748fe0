// SPDX-License-Identifier: Apache-2.0
// hasten perplexity: how surprised a model is by a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "server/openai_json.h"

namespace hasten::cli {
namespace {

struct PerplexityOptions {
  EngineOptions engine;
  std::string file;
  int64_t window = 0;  // predicted tokens per window; 0: as many as the context allows, up to 512
  int64_t tokens = 0;  // of the text, from its start; 0: all
  bool json = false;
};

/// Sum of the log-probabilities of the prompt's tokens but the first.
double prompt_log_likelihood(Engine& engine, std::vector<int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 1;
  request.prompt_logprobs = 0;
  double sum = 0;
  std::string error;
  Generation generation = engine.submit(std::move(request), [&](const Chunk& chunk) {
    for (const TokenLogprob& token : chunk.prompt_logprobs) sum += token.chosen.logprob;
    if (chunk.finish == Finish::error) error = chunk.error;
  });
  generation.wait();
  if (!error.empty()) throw Error(ErrorCode::internal, error);
  return sum;
}

/// Makes window and context fit each other: one may be given, or both.
void choose_window(PerplexityOptions& options) {
  constexpr int64_t kWindow = 512;
  constexpr int64_t kBeside = 2;  // the token that a window begins with, and one to be generated
  int64_t& context = options.engine.context;
  if (context > 0 && context < std::max<int64_t>(1, options.window) + kBeside)
    fail_param("context",
               "--ctx is {}: a window of {} takes {} tokens, its first and last beside the "
               "predicted ones",
               context, counted(std::max<int64_t>(1, options.window), "predicted token"),
               std::max<int64_t>(1, options.window) + kBeside);
  if (options.window == 0)
    options.window = context > 0 ? std::min(kWindow, context - kBeside) : kWindow;
  if (context == 0) context = options.window + kBeside;
}

int perplexity(PerplexityOptions& options) {
  log::set_level(log::Level::warn);
  show_progress(options.engine);
  check_model(options.engine.model);
  const Input file(options.file);
  choose_window(options);
  Engine engine(options.engine);
  const std::string_view text = file.text();
  const std::string utf8 = server::to_utf8(text);
  if (utf8 != text) {
    const auto first = std::mismatch(text.begin(), text.end(), utf8.begin(), utf8.end()).first;
    log::warn("{} is not UTF-8 from byte {} on; what is none stays as it is, and surprises a model",
              options.file, first - text.begin());
  }
  // Special tokens count: a corpus that has them separates its documents or turns by them.
  std::vector<int32_t> tokens =
      engine.tokenize(text, /*add_special=*/false, /*parse_special=*/true);
  if (options.tokens > 0 && options.tokens < static_cast<int64_t>(tokens.size())) {
    tokens.resize(static_cast<size_t>(options.tokens));
  }
  if (tokens.size() < 2) {
    fail(ErrorCode::invalid_argument, "{} holds {}; at least 2 are needed", options.file,
         counted(static_cast<int64_t>(tokens.size()), "token"));
  }
  // A model that begins every text with a begin token gets one before every window; without one,
  // a window's first token is context only.
  const std::vector<int32_t> begin = engine.tokenize("");
  const size_t window = static_cast<size_t>(options.window);
  double log_likelihood = 0;
  int64_t predicted = 0;
  ProgressBar bar;
  for (size_t first = begin.empty() ? 1 : 0; first < tokens.size(); first += window) {
    const size_t last = std::min(first + window, tokens.size());
    std::vector<int32_t> prompt =
        begin.empty() ? std::vector<int32_t>{tokens[first - 1]} : std::vector{begin.front()};
    prompt.insert(prompt.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                  tokens.begin() + static_cast<std::ptrdiff_t>(last));
    log_likelihood += prompt_log_likelihood(engine, std::move(prompt));
    predicted += static_cast<int64_t>(last - first);
    bar.show("perplexity", static_cast<double>(last) / static_cast<double>(tokens.size()));
  }
  const double value = std::exp(-log_likelihood / static_cast<double>(predicted));
  if (options.json) {
    fmt::print("{}\n", json_text(json::Object{{"tokens", predicted}, {"perplexity", value}}));
  } else {
    fmt::print("perplexity {:.4f} over {}, in windows of {} with an empty context\n", value,
               counted(predicted, "predicted token"), options.window);
  }
  return 0;
}

}  // namespace

void add_perplexity(Command program) {
  const Command command = program.add("perplexity", "Measure how well a model predicts a text");
  auto options = std::make_shared<PerplexityOptions>();
  add_engine_flags(command, options->engine);
  command.option("--file TEXT", options->file, "The text, UTF-8; -: standard input").required();
  command.option("--window N", options->window, whole_number(1, 1 << 20),
                 "Predicted tokens in each window (default: 512, or what --ctx allows)");
  command.option("--tokens N", options->tokens, whole_number(0),
                 "Use only the text's first N tokens, the first one of which is context "
                 "(default: all)");
  command.flag("--json", options->json, "Print {\"tokens\", \"perplexity\"}");
  command.run([options] { return perplexity(*options); });
}

}  // namespace hasten::cli
