// SPDX-License-Identifier: Apache-2.0
// hasten run: answers once, or chats in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/words.h"
#include "server/openai_json.h"

namespace hasten::cli {
namespace {

struct RunOptions {
  EngineOptions engine;
  Request request;
  std::optional<std::string> prompt;
  std::string system;
  bool raw = false;
  bool special = false;
  bool json = false;
};

json::Object message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

/// Generates from `prompt` and hands the text to `show` while it comes. Returns the last chunk.
template <class Show>
Chunk generate(Engine& engine, Request request, std::vector<int32_t> prompt, Show show) {
  request.prompt = std::move(prompt);
  Chunk last;
  Generation generation = engine.submit(std::move(request), [&](const Chunk& chunk) {
    show(chunk.text);
    if (chunk.last) last = chunk;
  });
  generation.wait();
  if (last.finish == Finish::error) throw Error(ErrorCode::internal, last.error);
  if (!last.last) throw Error(ErrorCode::internal, "the answer ended before it was complete");
  return last;
}

void print_now(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

/// Chats are JSON, which has no room for other bytes.
void check_utf8(std::string_view text, std::string_view what) {
  const std::string utf8 = server::to_utf8(text);
  if (utf8 == text) return;
  const auto first = std::mismatch(text.begin(), text.end(), utf8.begin(), utf8.end()).first;
  fail(ErrorCode::invalid_argument,
       "{} is not UTF-8: byte {} at {}; convert it, or complete it as it is with --raw", what,
       escaped_bytes(std::string_view(first, first + 1)), first - text.begin());
}

int answer_once(Engine& engine, const RunOptions& options) {
  check_utf8(options.system, "the system prompt");
  if (!options.raw) check_utf8(*options.prompt, "the prompt");
  json::Array messages;
  if (!options.system.empty()) messages.push_back(message("system", options.system));
  messages.push_back(message("user", *options.prompt));
  std::vector<int32_t> prompt =
      options.raw ? engine.tokenize(*options.prompt, /*add_special=*/true, options.special)
                  : engine.render_chat({.messages = json::serialize(messages)}).tokens;
  std::string text;
  const Chunk last =
      generate(engine, options.request, std::move(prompt), [&](const std::string& piece) {
        text += piece;
        if (!options.json) print_now(piece);
      });
  if (!options.json) {
    fmt::print("\n");
    return 0;
  }
  const Usage& usage = last.usage;
  fmt::print("{}\n", json_text(json::Object{
                         {"text", text},
                         {"prompt_tokens", usage.prompt_tokens},
                         {"cached_tokens", usage.cached_tokens},
                         {"completion_tokens", usage.completion_tokens},
                         {"prefill_seconds", static_cast<double>(usage.prefill_us) / 1e6},
                         {"decode_seconds", static_cast<double>(usage.decode_us) / 1e6},
                         {"finish", last.finish == Finish::length ? "length" : "stop"}}));
  return 0;
}

int chat(Engine& engine, const RunOptions& options) {
  fmt::print("Chatting with {}. /help tells more; an empty line or Ctrl-D ends.\n",
             engine.model().name);
  json::Array start;
  if (!options.system.empty()) start.push_back(message("system", options.system));
  json::Array messages = start;
  for (std::string line;;) {
    print_now("\n> ");
    if (!std::getline(std::cin, line) || line.empty() || line == "/exit" || line == "/quit") break;
    if (line == "/clear") {
      messages = start;
      fmt::print("Forgotten; what shall we talk about?\n");
      continue;
    }
    if (line == "/help") {
      fmt::print("/clear begins another conversation; /exit, an empty line or Ctrl-D ends.\n");
      continue;
    }
    messages.push_back(message("user", line));
    std::string answer;
    try {
      const Chunk last =
          generate(engine, options.request,
                   engine.render_chat({.messages = json::serialize(messages)}).tokens,
                   [&](const std::string& piece) {
                     answer += piece;
                     print_now(piece);
                   });
      const double seconds = static_cast<double>(last.usage.decode_us) * 1e-6;
      const auto later_tokens = static_cast<double>(last.usage.completion_tokens - 1);
      fmt::print("\n");
      if (seconds > 0 && later_tokens > 0) {
        fmt::print(stderr, "({}, {:.1f} tokens/s)\n",
                   counted(last.usage.completion_tokens, "token"), later_tokens / seconds);
      }
      messages.push_back(message("assistant", answer));
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      messages.pop_back();
    }
  }
  return 0;
}

int run(RunOptions& options) {
  log::set_level(log::Level::warn);  // the answer is all that a reader wants to see
  check_model(options.engine.model, ModelUse::weights_and_prompt);
  const bool is_terminal = ::isatty(STDIN_FILENO) != 0;
  if (!options.prompt && is_terminal && options.raw) {
    fail_param(
        "raw",
        "a chat in the terminal goes by the chat template: for --raw, give a prompt with -p or on "
        "standard input");
  }
  if (!options.prompt && !is_terminal) {
    options.prompt.emplace(Input("-").text());
    if (options.prompt->empty()) {
      fail(ErrorCode::invalid_argument,
           "standard input is empty: give a prompt there or with -p; -p \"\" is an empty one");
    }
  }
  show_progress(options.engine);
  options.engine.max_batch = options.engine.max_batch == 0 ? 1 : options.engine.max_batch;
  Engine engine(options.engine);
  if (!options.raw && !engine.model().template_doubt.empty())
    log::warn("{}", safe_text(engine.model().template_doubt));
  if (!options.prompt) return chat(engine, options);
  return answer_once(engine, options);
}

}  // namespace

void add_run(Command program) {
  const Command command = program.add("run", "Answer once (-p), or chat in the terminal");
  auto options = std::make_shared<RunOptions>();
  options->request.sampling.temperature = 0.7F;
  add_engine_flags(command, options->engine);
  add_template_flag(command, options->engine);
  command.option("-p,--prompt TEXT", options->prompt,
                 "What to say to the model; left out: standard input, or a chat in a terminal");
  const Option system = command.option("--system TEXT", options->system, "A system message");
  const Option raw = command
                         .flag("--raw", options->raw,
                               "Continue the prompt as it is, without the chat template or "
                               "--system")
                         .never_with(system);
  command
      .flag("--special", options->special,
            "Special tokens written in a --raw prompt count, as in a template's own output; else "
            "they are text, so that what others wrote cannot end a turn")
      .only_with(raw);
  command.flag("--json", options->json, "Print the answer and its numbers as JSON");
  add_sampling_flags(command, options->request);
  command.run([options] { return run(*options); });
}

}  // namespace hasten::cli
