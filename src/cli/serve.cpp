// SPDX-License-Identifier: Apache-2.0
// hasten serve: the API server and the chat page.
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/words.h"
#include "server/server.h"

namespace hasten::cli {
namespace {

struct ServeOptions {
  EngineOptions engine;
  server::ServerOptions server;
  int64_t drain_seconds = 30;
};

/// SIGINT, SIGTERM and, unless it is ignored as under nohup, SIGHUP of a terminal that closes,
/// received by a thread of its own: nothing runs inside a signal handler, and they work for the
/// first process of a container too, to which the defaults do not apply. Until the server serves, a
/// signal ends the process at once; then the first one ends `wait`, and the second the process.
class ShutdownSignals {
 public:
  /// To be made before any other thread, which inherits that the signals are blocked.
  ShutdownSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    struct sigaction hangup = {};
    if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
      sigaddset(&set_, SIGHUP);
    }
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);  // a client that went away is an error code, not a signal
    receiver_ = std::thread([this] { receive(); });
  }
  ~ShutdownSignals() {
    phase_ = Phase::over;
    // Blocked in every thread: it wakes sigwait. NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
    pthread_kill(receiver_.native_handle(), SIGTERM);
    receiver_.join();
  }
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  void begin_serving() { phase_ = Phase::serving; }
  /// Waits for a signal since `begin_serving`.
  void wait() const { phase_.wait(Phase::serving); }

 private:
  enum class Phase { starting, serving, draining, over };

  void receive() {
    for (int received = 0; sigwait(&set_, &received) == 0;) {
      Phase phase = Phase::serving;
      if (phase_.compare_exchange_strong(phase, Phase::draining)) {
        phase_.notify_all();
      } else if (phase == Phase::over) {
        return;
      } else {
        std::_Exit(128 + received);
      }
    }
  }

  sigset_t set_{};
  std::atomic<Phase> phase_ = Phase::starting;
  std::thread receiver_;
};

std::vector<int32_t> story_prompt(const Engine& engine) {
  const ModelInfo& model = engine.model();
  if (!model.template_error.empty() || !model.template_refusal.empty())
    return engine.tokenize("Once upon a time");
  constexpr const char* kQuestion =
      R"([{"role": "user", "content": "Tell me a story about a fox."}])";
  return engine.render_chat({.messages = kQuestion}).tokens;
}

/// Says what will fail of a model whose chat template does not work, or not for every chat, and
/// what to do about it.
void warn_of_template(const Engine& engine) {
  const ModelInfo& model = engine.model();
  if (!model.template_refusal.empty()) {
    log::warn(
        "{}; chats that it refuses, maybe all of the chat page, get 400, and /v1/completions "
        "works; look at it with hasten inspect --chat-template",
        safe_text(model.template_refusal));
  }
  if (!model.template_doubt.empty()) {
    log::warn("{}; look at it with hasten inspect --chat-template",
              safe_text(model.template_doubt));
  }
  if (model.chat_template.empty() && model.template_error.empty()) {
    log::info(
        "the model has no chat template: chats are written as ChatML; --chat-template FILE gives "
        "it one");
  }
  if (model.template_error.empty()) return;
  log::warn(
      "{}: /v1/chat/completions and the chat page will answer 400 with that, /v1/completions "
      "works; look at it with hasten inspect --chat-template, and give one that works with "
      "--chat-template FILE",
      safe_text(model.template_error));
}

/// What a model says, whatever that is, with a space for each run of whitespace.
std::string on_one_line(std::string_view answer) {
  std::string line;
  for (const char c : safe_text(answer, /*keep_newlines=*/true)) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space || (!line.empty() && line.back() != ' ')) line += is_space ? ' ' : c;
  }
  return line;
}

/// Asks the model for a few words: proof that it answers, and a first figure of its speed, taken
/// where the weights are in memory and the machine's pauses do not count. A model that cannot say
/// them may still serve other requests, so what went wrong is told only. Returns lines of the
/// banner.
std::string proof_of_life(Engine& engine) try {
  Request request;
  request.prompt = story_prompt(engine);
  request.sampling.temperature = 0;
  request.max_tokens = 24;
  std::string answer;
  std::string failure;
  std::vector<int64_t> token_us;  // times at which tokens came
  Generation generation = engine.submit(std::move(request), [&](const Chunk& chunk) {
    answer += chunk.text;
    token_us.insert(token_us.end(), chunk.tokens.size(), monotonic_us());
    if (chunk.finish == Finish::error) failure = chunk.error;
  });
  generation.wait();
  if (!failure.empty()) throw Error(ErrorCode::internal, failure);
  std::string lines = fmt::format("  It says:   {}…\n", on_one_line(answer));
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < token_us.size(); ++i) gaps.push_back(token_us[i] - token_us[i - 1]);
  if (gaps.size() >= 8) {
    const auto middle = gaps.begin() + std::ssize(gaps) / 2;
    std::nth_element(gaps.begin(), middle, gaps.end());
    lines +=
        fmt::format("  Speed:     about {:.0f} tokens/s for one user; hasten bench measures it\n",
                    1e6 / static_cast<double>(std::max<int64_t>(*middle, 1)));
  }
  return lines;
} catch (const Error& error) {
  return fmt::format("  It failed to tell a story: {}\n", error.what());
}

/// What other machines may know this one by.
std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return is_known ? safe_text(name.data()) : "ADDRESS-OF-THIS-MACHINE";
}

void check_sharing(const ServeOptions& options) {
  if (!options.server.share_prefixes) return;
  if (options.server.api_keys.empty())
    fail_param(
        "share_prefixes",
        "--share-prefixes is of servers with keys, as without them all share: add --api-key, "
        "or leave it out");
  if (!options.engine.prefix_cache)
    fail_param("share_prefixes",
               "--share-prefixes is of the prefix cache, which --no-prefix-cache turns off: leave "
               "out one of them");
}

int serve(ServeOptions& options) {
  ShutdownSignals signals;
  check_model(options.engine.model);
  check_sharing(options);
  server::check_listening(options.server);  // a real model takes minutes to load
  const bool is_open = !server::is_loopback(options.server.host);
  if (is_open && options.server.api_keys.empty()) {
    log::warn(
        "whoever reaches this machine may use the model: to ask for a key, start with --api-key "
        "KEY or set the variable HASTEN_API_KEY");
  }
  show_progress(options.engine);
  Engine engine(options.engine);
  warn_of_template(engine);
  // The engine's queue refuses what is too much, not a lower limit in front of it.
  const int64_t max_batch = engine.model().max_batch;
  options.server.limits.requests = std::max(
      {options.server.limits.requests, 8 * max_batch, max_batch + options.engine.max_queue});
  server::Server server(engine, options.server);
  const std::string proof = proof_of_life(engine);
  // Its last step is counted a moment after its last token: before the first client's.
  for (int i = 0; i < 1000 && engine.stats().running > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  signals.begin_serving();
  server.start();

  const ModelInfo& model = engine.model();
  fmt::print("\nhasten {} serves {} ({}, {} parameters) on {}\n", kVersion, model.name,
             model.weight_types, count_text(model.num_parameters), model.device);
  fmt::print("  Context:   {} tokens; {} of keys and values in all, kept in {}\n", model.context,
             size_text(model.kv_cache_bytes), model.kv_types);
  fmt::print("{}", proof);
  const bool chats = model.template_error.empty() && model.template_refusal.empty();
  if (chats) fmt::print("  Chat:      {}/\n", server.url());
  if (server::is_unspecified(options.server.host)) {
    fmt::print("  Elsewhere: http://{}:{}/\n", host_name(), server.port());
  }
  // The key itself would end up in logs.
  fmt::print(
      "  Try:       curl {}{} -H 'Content-Type: application/json' \\\n{}"
      "               -d '{}'\n",
      server.url(), chats ? "/v1/chat/completions" : "/v1/completions",
      options.server.api_keys.empty() ? "" : "               -H 'Authorization: Bearer KEY' \\\n",
      chats ? R"({"messages": [{"role": "user", "content": "Tell me a story."}]})"
            : R"({"prompt": "Once upon a time"})");
  fmt::print("  Ctrl-C drains and ends.\n\n");
  std::fflush(stdout);
  std::clearerr(stdout);  // a server whose banner nobody reads serves as well

  signals.wait();
  log::info("draining: running answers may end within {} s; a second signal ends at once",
            options.drain_seconds);
  server.shutdown(std::chrono::seconds(options.drain_seconds));
  log::info("the server has ended");
  return 0;
}

}  // namespace

void add_serve(Command program) {
  const Command command = program.add("serve", "Serve the OpenAI API and a chat page");
  auto options = std::make_shared<ServeOptions>();
  add_engine_flags(command, options->engine);
  add_template_flag(command, options->engine);
  command.option("--host ADDRESS", options->server.host, "Address to listen on (default: {})");
  command.option("--port N", options->server.port, whole_number(0, 65535),
                 "Port to listen on; 0: any free one (default: {})");
  command.option("--model-name NAME", options->server.model_names, not_empty(),
                 "Name that clients ask for (default: the model's own); may be repeated");
  command
      .option("--api-key KEY", options->server.api_keys,
              "Key that clients must send; may be repeated (default: none needed)")
      .or_variable("HASTEN_API_KEY");
  command.flag("--share-prefixes", options->server.share_prefixes,
               "All keys find each other's cached prefixes: faster where many begin alike, but "
               "an asker can tell by the time what others asked");
  command.option("--cors-origin ORIGIN", options->server.cors_origins,
                 "Origin that browsers may call from; may be repeated; *: any");
  command.option("--allowed-host NAME", options->server.allowed_hosts,
                 "Further name that a Host header may have; may be repeated");
  command.option(
      "--max-queue N", options->engine.max_queue, whole_number(0),
      "Requests that may wait; more get 429 (default, and 0: 4 × --max-batch, at least 256)");
  command.option("--max-queue-tokens N", options->engine.max_queue_tokens, whole_number(0),
                 "Tokens of those, prompts and max_tokens, that may wait; more get 429 (default, "
                 "and 0: no limit)");
  command.option(
      "--tenant-share F", options->engine.tenant_share, number_within(0.0001, 1),
      "The part of both that requests with one key may hold; more get 429 (default: {})");
  command.option("--drain-seconds S", options->drain_seconds, whole_number(0),
                 "After SIGTERM, Ctrl-C or the end of its terminal, how long running answers may "
                 "take to end (default: {})");
  command.run([options] { return serve(*options); });
}

}  // namespace hasten::cli
