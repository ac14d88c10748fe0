// SPDX-License-Identifier: Apache-2.0
// hasten::Engine without a model, for tests of the server: the members of the front door, defined
// at link time instead of by the api layer.
#include "fake_engine.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "hasten/engine.h"

namespace hasten {

using testing::fake_controls;
using testing::kFakeContext;
using testing::kFakeEos;
using testing::kFakeVocab;

namespace {

// Marks at the start of a piece, for FakeParser.
constexpr char kReasoning = '\x01';
constexpr char kToolCall = '\x02';
constexpr char kArguments = '\x03';

struct Script {
  std::vector<std::string> pieces{};
  bool forever = false;
  std::string error{};    // after the last piece
  bool vanishes = false;  // ends without a last chunk
  bool is_late = false;   // the error is that of a deadline
};

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// The last line: of a chat, its last message.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Script make_script(const std::string& prompt) {
  if (has(prompt, "count ")) {
    Script script;
    const int count = std::atoi(prompt.c_str() + prompt.find("count ") + 6);
    for (int i = 0; i < count; ++i) script.pieces.push_back(fmt::format("w{} ", i));
    return script;
  }
  if (has(prompt, "tool")) {
    return {{std::string(1, kToolCall) + "get_weather",
             std::string(1, kArguments) + "{\"city\":", std::string(1, kArguments) + "\"Paris\"}"}};
  }
  if (has(prompt, "think")) {
    return {{std::string(1, kReasoning) + "Hmm, ", std::string(1, kReasoning) + "so.", "It is ",
             "42."}};
  }
  if (has(prompt, "refuse")) return {{}, false, "a NaN in layer 3"};
  if (has(prompt, "late")) return {.error = "its deadline of 5 ms cannot be met", .is_late = true};
  if (has(prompt, "break")) return {{"one ", "two "}, false, "a NaN in layer 3"};
  if (has(prompt, "vanish")) return {.pieces = {"one "}, .vanishes = true};
  if (has(prompt, "forever")) return {{"again ", "and "}, true};
  if (has(prompt, "flood")) return {{std::string(1024, 'x')}, true};
  return {{"Hello", ", ", "world", "!"}};
}

class FakeParser : public ChatParser {
 public:
  std::vector<ChatEvent> push(std::string_view text, const std::vector<SpecialToken>&) override {
    if (text.empty()) return {};
    using Kind = ChatEvent::Kind;
    const std::string rest(text.substr(1));
    if (text[0] == kReasoning) return {{Kind::reasoning, 0, "", "", rest}};
    if (text[0] == kToolCall) return {{Kind::tool_call, 0, "call_1", rest, ""}};
    if (text[0] == kArguments) return {{Kind::tool_arguments, 0, "", "", rest}};
    return {{Kind::content, 0, "", "", std::string(text)}};
  }
  std::vector<ChatEvent> finish() override { return {}; }
};

TokenLogprob fake_logprob(int32_t token, int32_t num_top) {
  TokenLogprob result{{token, -0.5F}, {}};
  for (int32_t i = 0; i < num_top; ++i) {
    result.top.push_back({(token + i) % 256, -0.5F - static_cast<float>(i)});
  }
  return result;
}

}  // namespace

struct Generation::State {
  std::mutex mutex;  // held while the sink runs
  std::condition_variable ended_changed;
  Request request;
  Engine::Sink sink;
  Script script;
  std::vector<std::size_t> next_piece;  // of each choice
  Usage usage;
  int64_t due_us = 0;
  bool cancelled = false;
  bool ended = false;

  std::size_t num_open() const {
    return static_cast<std::size_t>(
        std::count_if(next_piece.begin(), next_piece.end(), [](auto i) { return i != SIZE_MAX; }));
  }
  void deliver(Chunk& chunk) {
    chunk.last = num_open() == 0;
    chunk.usage = usage;
    ended = chunk.last;
    if (!ended || !script.vanishes) sink(chunk);
    if (ended) ended_changed.notify_all();
  }
  void end_choice(std::size_t choice) { next_piece[choice] = SIZE_MAX; }

  /// One step of one choice.
  void step(std::size_t choice) {
    Chunk chunk;
    chunk.choice = static_cast<int32_t>(choice);
    std::size_t& next = next_piece[choice];
    if (next == 0 && choice == 0 && request.prompt_logprobs >= 0) {
      for (std::size_t i = 1; i < request.prompt.size(); ++i) {
        chunk.prompt_logprobs.push_back(fake_logprob(request.prompt[i], request.prompt_logprobs));
      }
    }
    if (next < script.pieces.size() || (script.forever && !script.pieces.empty())) {
      chunk.text = script.pieces[next % script.pieces.size()];
      for (const char c : chunk.text) chunk.tokens.push_back(static_cast<unsigned char>(c));
      ++next;
    } else if (!script.error.empty()) {
      chunk.finish = script.is_late ? Finish::deadline : Finish::error;
      chunk.error = script.error;
    } else {
      chunk.tokens = {kFakeEos};
      chunk.finish = Finish::stop;
    }
    // max_tokens counts pieces, which keeps the texts readable.
    if (request.max_tokens > 0 && chunk.finish == Finish::none &&
        static_cast<int64_t>(next) >= request.max_tokens) {
      chunk.finish = Finish::length;
    }
    if (request.logprobs >= 0) {
      for (const int32_t token : chunk.tokens) {
        chunk.logprobs.push_back(fake_logprob(token, request.logprobs));
      }
    }
    usage.completion_tokens += static_cast<int64_t>(chunk.tokens.size());
    if (chunk.finish != Finish::none) end_choice(choice);
    deliver(chunk);
  }
};

struct Engine::Impl {
  ModelInfo info;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::list<std::shared_ptr<Generation::State>> running;
  Stats stats;
  bool draining = false;
  bool stopping = false;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      const auto batch = running;
      lock.unlock();
      for (const auto& state : batch) step(*state);
      lock.lock();
      retire();
      ++stats.steps;
      const auto pause = std::chrono::microseconds(std::max<int64_t>(1, fake_controls().step_us));
      if (!running.empty()) {
        changed.wait_for(lock, pause, [this] { return stopping; });
      } else {
        changed.wait(lock, [this] { return stopping || !running.empty(); });
      }
    }
  }
  static void step(Generation::State& state) {
    const std::lock_guard lock(state.mutex);
    if (state.cancelled && !state.ended) {
      for (std::size_t i = 0; i < state.next_piece.size(); ++i) state.end_choice(i);
      Chunk chunk;
      chunk.finish = Finish::cancelled;
      state.deliver(chunk);
    }
    for (std::size_t i = 0; i < state.next_piece.size() && !state.ended; ++i) {
      if (state.next_piece[i] != SIZE_MAX) state.step(i);
    }
  }
  void retire() {
    running.remove_if([this](const auto& state) {
      const std::lock_guard lock(state->mutex);
      if (!state->ended) return false;
      (state->cancelled ? stats.finished_cancelled : stats.finished_stop) += 1;
      return true;
    });
    stats.running = static_cast<int64_t>(running.size());
    changed.notify_all();
  }
};

Generation::Generation(std::shared_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&& other) noexcept {
  if (state_) cancel();
  state_ = std::move(other.state_);
  return *this;
}
Generation::~Generation() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  if (!state_->ended) state_->cancelled = true;
  state_->sink = [](const Chunk&) {};
}
void Generation::cancel() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->ended) state_->cancelled = true;
}
void Generation::wait() {
  std::unique_lock lock(state_->mutex);
  state_->ended_changed.wait(lock, [this] { return state_->ended; });
}
bool Generation::done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended;
}

Engine::Engine(const EngineOptions&) : impl_(std::make_unique<Impl>()) {
  impl_->info.name = "fake";
  impl_->info.vocab_size = kFakeVocab;
  impl_->info.context = kFakeContext;
  impl_->info.train_context = kFakeContext;
  impl_->info.eos_token = kFakeEos;
  impl_->stats.kv_blocks_total = 100;
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

Generation Engine::submit(Request request, Sink sink) {
  if (request.prompt.empty()) fail_param("prompt", "prompt is empty");
  auto state = std::make_shared<Generation::State>();
  state->script = make_script(last_line(detokenize(request.prompt)));
  state->next_piece.resize(static_cast<std::size_t>(request.n));
  state->usage.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  state->request = std::move(request);
  state->sink = std::move(sink);
  const std::lock_guard lock(impl_->mutex);
  if (impl_->draining) fail(ErrorCode::unavailable, "the engine is shutting down");
  if (static_cast<int64_t>(impl_->running.size()) >= fake_controls().max_queue) {
    ++impl_->stats.rejected;
    ++impl_->stats.rejected_requests;
    fail(ErrorCode::resource_exhausted, "the queue is full");
  }
  impl_->running.push_back(state);
  impl_->stats.running = static_cast<int64_t>(impl_->running.size());
  impl_->stats.prompt_tokens += state->usage.prompt_tokens;
  impl_->changed.notify_all();
  return Generation(state);
}

bool Engine::drain(int64_t timeout_us) {
  std::unique_lock lock(impl_->mutex);
  impl_->draining = true;
  const auto idle = [this] { return impl_->running.empty(); };
  if (impl_->changed.wait_for(lock, std::chrono::microseconds(timeout_us), idle)) return true;
  for (const auto& state : impl_->running) {
    const std::lock_guard state_lock(state->mutex);
    state->cancelled = true;
  }
  impl_->changed.wait(lock, idle);
  return false;
}

const ModelInfo& Engine::model() const { return impl_->info; }
Stats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}
Health Engine::health() const {
  if (fake_controls().ready) return {};
  return {false, "no step for 5 s", 5'000'000};
}

std::vector<int32_t> Engine::tokenize(std::string_view text, bool, bool) const {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}
std::string Engine::detokenize(const std::vector<int32_t>& tokens, bool) const {
  std::string text;
  for (const int32_t token : tokens) text += token_bytes(token);
  return text;
}
std::string Engine::token_bytes(int32_t token) const {
  return token < 256 ? std::string(1, static_cast<char>(token)) : "";
}

RenderedChat Engine::render_chat(const Chat& chat) const {
  RenderedChat result;
  const json::Value messages = json::parse(chat.messages, "messages");
  for (const json::Value& message : messages.as_array()) {
    result.text += json::serialize(message.at("content")) + "\n";
  }
  result.tokens = tokenize(result.text);
  return result;
}
std::unique_ptr<ChatParser> Engine::chat_parser(const RenderedChat&) const {
  return std::make_unique<FakeParser>();
}

namespace testing {
FakeControls& fake_controls() {
  static FakeControls controls;
  return controls;
}
}  // namespace testing

}  // namespace hasten
