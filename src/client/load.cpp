// SPDX-License-Identifier: Apache-2.0
// Connections, deadlines and streams on Boost.Beast: the only file of the client that moves bytes.
#include "client/load.h"

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "client/sse_reader.h"
#include "hasten/version.h"

namespace hasten::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using Endpoints = tcp::resolver::results_type;
template <class T = void>
using Task = asio::awaitable<T>;

/// Why an answer did not come whole; one of few texts, so that they can be counted.
struct Failure {
  std::string kind;
  std::string detail = {};  // in the server's words, and what to do; may be empty
};

constexpr size_t kMostWords = 300;        // bytes of what a server says of an error
constexpr size_t kMostErrorBytes = 8192;  // read of its body

/// What a server says in the body of an error: its message, where it is JSON as OpenAI's.
std::string words_of(std::string_view body) {
  std::string words(body);
  try {
    const json::Value value = json::parse(body, "an error");
    const json::Object* object = value.if_object();
    for (const std::string_view field : {"error", "message"}) {
      const json::Value* inner = object != nullptr ? object->if_contains(field) : nullptr;
      if (inner != nullptr && inner->is_string()) words = inner->get_string();
      if (inner != nullptr && inner->is_object()) object = &inner->get_object();
    }
  } catch (const Error&) {  // then as it is
  }
  // On one line, and cut between characters of UTF-8.
  std::ranges::replace_if(
      words, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  if (words.size() <= kMostWords) return words;
  size_t end = kMostWords;
  while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xC0U) == 0x80U) --end;
  return words.substr(0, end) + "...";
}

Endpoints resolve(const Url& url) {
  asio::io_context io;
  tcp::resolver resolver(io);
  error_code error;
  Endpoints endpoints = resolver.resolve(url.host, url.port, error);
  if (error)
    fail(ErrorCode::unavailable, "the name {} cannot be resolved: {}", url.host, error.message());
  return endpoints;
}

/// One request and its answer on a connection of their own.
class Exchange {
 public:
  Exchange(const asio::any_io_executor& executor, const ServerAddress& server)
      : server_(server),
        stream_(executor),
        deadline_(std::chrono::steady_clock::now() + server.request_timeout) {
    parser_.header_limit(static_cast<std::uint32_t>(server.header_bytes));
    parser_.body_limit(server.body_bytes);
  }

  /// Sends it and reads the answer's head. Throws Failure.
  Task<> begin(const Endpoints& endpoints, http::verb method, std::string_view path,
               std::string body) {
    error_code error;
    stream_.expires_after(server_.connect_timeout);
    co_await stream_.async_connect(endpoints, redirect_error(use_awaitable, error));
    if (error == beast::error::timeout) throw Failure{"no connection in time"};
    if (error) throw Failure{"no connection: " + error.message()};
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);

    http::request<http::string_body> request(method, server_.url.prefix + std::string(path), 11);
    request.set(http::field::host, server_.url.authority());
    request.set(http::field::user_agent, std::string("hasten/") + kVersion);
    request.set(http::field::connection, "close");
    if (!server_.api_key.empty())
      request.set(http::field::authorization, "Bearer " + server_.api_key);
    if (method == http::verb::post) request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
    request.prepare_payload();
    arm();
    co_await http::async_write(stream_, request, redirect_error(use_awaitable, error));
    check(error);
    arm();
    co_await http::async_read_header(stream_, buffer_, parser_,
                                     redirect_error(use_awaitable, error));
    check(error);
    const unsigned status = parser_.get().result_int();
    if (status == 200) co_return;
    std::string detail = co_await read_words();
    if (status == 401) {
      detail += detail.empty() ? "" : " ";
      detail += "(give the server's key with --api-key KEY or in the variable HASTEN_API_KEY)";
    }
    throw Failure{"HTTP " + std::to_string(status), std::move(detail)};
  }

  std::string_view content_type() const {
    const auto value = parser_.get()[http::field::content_type];
    return {value.data(), value.size()};
  }

  /// The next bytes of the body as soon as they are there; empty: it has ended. Throws Failure.
  Task<std::string_view> read() {
    while (!parser_.is_done()) {
      http::buffer_body::value_type& body = parser_.get().body();
      body.data = piece_.data();
      body.size = piece_.size();
      error_code error;
      arm();
      co_await http::async_read_some(stream_, buffer_, parser_,
                                     redirect_error(use_awaitable, error));
      if (error != http::error::need_buffer) check(error);
      const size_t size = piece_.size() - body.size;
      if (size > 0) co_return std::string_view(piece_.data(), size);
    }
    co_return std::string_view();
  }

 private:
  /// What the body of an error says, as far as it comes in time.
  Task<std::string> read_words() {
    deadline_ = std::min(deadline_, std::chrono::steady_clock::now() + server_.error_timeout);
    std::string body;
    try {
      while (body.size() < kMostErrorBytes) {
        const std::string_view bytes = co_await read();
        if (bytes.empty()) break;
        body += bytes;
      }
    } catch (const Failure&) {  // the status says enough
    }
    co_return words_of(body);
  }

  /// Sets the time limit of the next operation.
  void arm() {
    stream_.expires_at(
        std::min(std::chrono::steady_clock::now() + server_.stall_timeout, deadline_));
  }

  void check(const error_code& error) const {
    if (!error) return;
    if (error == beast::error::timeout) {
      throw Failure{std::chrono::steady_clock::now() >= deadline_ ? "took too long" : "stalled"};
    }
    if (error == http::error::body_limit) throw Failure{"too much data"};
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      throw Failure{"its header is too long"};
    const bool is_cut = error == http::error::end_of_stream ||
                        error == http::error::partial_message || error == asio::error::eof ||
                        error == asio::error::connection_reset || error == asio::error::broken_pipe;
    if (is_cut) throw Failure{"cut short"};
    const bool is_http = error.category() == make_error_code(http::error::bad_method).category();
    throw Failure{is_http ? "no HTTP" : "lost: " + error.message()};
  }

  const ServerAddress& server_;
  beast::tcp_stream stream_;
  std::chrono::steady_clock::time_point deadline_;
  beast::flat_buffer buffer_{64 << 10};
  http::response_parser<http::buffer_body> parser_;
  std::array<char, 16 << 10> piece_{};
};

/// A whole number of `object`, where it has that field; else `otherwise`.
int64_t number_at(const json::Object& object, std::string_view field, int64_t otherwise) {
  const json::Value* value = object.if_contains(field);
  const int64_t* number = value != nullptr ? value->if_int64() : nullptr;
  return number != nullptr ? *number : otherwise;
}

bool has_text(const json::Object& object, std::string_view field) {
  const json::Value* value = object.if_contains(field);
  if (value == nullptr) return false;
  if (value->is_string()) return !value->get_string().empty();
  return value->is_array() && !value->get_array().empty();  // tool_calls
}

/// Whether the event of a completion or a chat brings a piece of the answer.
bool brings_text(const json::Object& event) {
  const json::Value* choices = event.if_contains("choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return false;
  const json::Object* choice = choices->get_array()[0].if_object();
  if (choice == nullptr) return false;
  if (has_text(*choice, "text")) return true;
  const json::Value* delta = choice->if_contains("delta");
  const json::Object* piece = delta != nullptr ? delta->if_object() : nullptr;
  if (piece == nullptr) return false;
  for (const std::string_view field : {"content", "reasoning_content", "reasoning", "tool_calls"})
    if (has_text(*piece, field)) return true;
  return false;
}

void read_usage(const json::Object& event, Ending& ending) {
  const json::Value* value = event.if_contains("usage");
  const json::Object* usage = value != nullptr ? value->if_object() : nullptr;
  if (usage == nullptr) return;
  ending.prompt_tokens = number_at(*usage, "prompt_tokens", -1);
  ending.completion_tokens = number_at(*usage, "completion_tokens", -1);
  const json::Value* details = usage->if_contains("prompt_tokens_details");
  if (details != nullptr && details->is_object())
    ending.cached_tokens = number_at(details->get_object(), "cached_tokens", 0);
}

/// Runs a load on one thread.
class Runner {
 public:
  Runner(const ServerAddress& server, const Load& load)
      : server_(server), load_(load), endpoints_(resolve(server.url)) {}

  void run() {
    start_ = std::chrono::steady_clock::now();
    start_us_ = monotonic_us();
    if (load_.times_us.empty()) {
      for (int64_t i = 0; i < load_.users; ++i) spawn(ask_in_turn());
    } else {
      spawn(ask_when_due());
    }
    io_.run();
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  /// What a callback throws ends the run.
  void spawn(Task<> task) {
    asio::co_spawn(io_, std::move(task), [this](const std::exception_ptr& thrown) {
      if (!thrown) return;
      if (!thrown_) thrown_ = thrown;
      io_.stop();
    });
  }

  Task<> ask_in_turn() {
    while (next_ < load_.num_requests) co_await ask(next_++, std::nullopt);
  }

  Task<> ask_when_due() {
    std::vector<bool> follows(load_.num_requests);
    for (const auto& followers : load_.followers)
      for (const auto& [index, pause_us] : followers) follows[index] = true;
    asio::steady_timer timer(io_);
    for (size_t i = 0; i < load_.num_requests; ++i) {
      if (follows[i]) continue;
      timer.expires_at(start_ + std::chrono::microseconds(load_.times_us[i]));
      co_await timer.async_wait(use_awaitable);
      spawn(ask(i, start_us_ + load_.times_us[i]));
    }
  }

  Task<> ask_after(size_t index, int64_t pause_us) {
    const int64_t due_us = monotonic_us() + pause_us;
    asio::steady_timer timer(io_, std::chrono::microseconds(pause_us));
    co_await timer.async_wait(use_awaitable);
    co_await ask(index, due_us);
  }

  Task<> ask(size_t index, std::optional<int64_t> due_us) {
    std::string body = load_.body(index);
    const int64_t now = monotonic_us();
    load_.on_send(index, due_us.value_or(now), now);
    Ending ending;
    try {
      co_await converse(index, std::move(body), ending);
    } catch (const Failure& failure) {
      ending.failure = failure.kind;
      ending.detail = failure.detail;
    }
    load_.on_end(index, monotonic_us(), ending);
    if (load_.followers.empty() || !ending.failure.empty()) co_return;
    for (const auto& [next, pause_us] : load_.followers[index]) spawn(ask_after(next, pause_us));
  }

  Task<> converse(size_t index, std::string body, Ending& ending) {
    const auto exchange = std::make_unique<Exchange>(io_.get_executor(), server_);
    co_await exchange->begin(endpoints_, http::verb::post, load_.path, std::move(body));
    if (!exchange->content_type().starts_with("text/event-stream"))
      throw Failure{"no event stream"};
    SseReader reader(server_.event_bytes);
    bool done = false;
    std::optional<std::string> failed;  // in the server's words
    while (!done) {
      const std::string_view bytes = co_await exchange->read();
      if (bytes.empty()) throw Failure{"cut short"};
      const int64_t now = monotonic_us();
      try {
        reader.feed(bytes, [&](std::string_view data) {
          if (data == "[DONE]") {
            done = true;
            return;
          }
          const json::Value event = json::parse(data, "an event");
          if (!event.is_object()) fail(ErrorCode::invalid_data, "an event is no object");
          if (!failed && event.get_object().contains("error")) failed = words_of(data);
          read_usage(event.get_object(), ending);
          if (!done && brings_text(event.get_object())) load_.on_text(index, now);
        });
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_data) throw;
        throw Failure{"malformed event"};
      }
      if (failed) throw Failure{"error event", *failed};
    }
  }

  const ServerAddress& server_;
  const Load& load_;
  const Endpoints endpoints_;
  asio::io_context io_{1};
  std::chrono::steady_clock::time_point start_;
  int64_t start_us_ = 0;
  size_t next_ = 0;  // request of a closed loop
  std::exception_ptr thrown_;
};

Task<std::string> fetch(const ServerAddress& server, const Endpoints& endpoints, std::string path) {
  Exchange exchange(co_await asio::this_coro::executor, server);
  co_await exchange.begin(endpoints, http::verb::get, path, {});
  std::string body;
  for (;;) {
    const std::string_view bytes = co_await exchange.read();
    if (bytes.empty()) co_return body;
    body += bytes;
  }
}

}  // namespace

void run_load(const ServerAddress& server, const Load& load) {
  HASTEN_CHECK(load.times_us.empty() || load.times_us.size() == load.num_requests);
  Runner(server, load).run();
}

std::string get(const ServerAddress& server, std::string_view path) {
  const Endpoints endpoints = resolve(server.url);
  asio::io_context io{1};
  std::string body;
  std::optional<Failure> failure;
  asio::co_spawn(
      io,
      [&]() -> Task<> {
        try {
          body = co_await fetch(server, endpoints, std::string(path));
        } catch (const Failure& thrown) {
          failure = thrown;
        }
      },
      asio::detached);
  io.run();
  if (failure)
    fail(ErrorCode::unavailable, "GET http://{}{}{}: {}{}{}", server.url.authority(),
         server.url.prefix, path, failure->kind, failure->detail.empty() ? "" : ": ",
         failure->detail.empty() ? "; is a server running there?" : failure->detail);
  return body;
}

}  // namespace hasten::client
