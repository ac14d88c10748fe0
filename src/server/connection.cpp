// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 on Boost.Beast: the only file that parses or writes it.
#include "server/connection.h"

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <ctime>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "hasten/version.h"
#include "server/ascii.h"
#include "server/routes.h"

namespace hasten::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

namespace {

// Requests sent ahead while one is answered. A client that sends more is cut: unread, it could not
// be seen to leave.
constexpr std::size_t kReadAheadBytes = 16 << 10;
constexpr std::size_t kLingerBytes = 8 << 20;
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::size_t kClientIdBytes = 128;
constexpr std::size_t kPieceBytes = 64 << 10;  // that a write may stall on

/// 32 hexadecimal digits from the operating system's generator, so that ids cannot be guessed.
std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  const std::size_t size =
      std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

http::response<http::empty_body> make_head(const HttpResponse& response,
                                           const HeaderFields& common) {
  http::response<http::empty_body> head(static_cast<http::status>(response.status), 11);
  head.set(http::field::server, std::string("hasten/") + kVersion);
  head.set(http::field::date, http_date());
  if (!response.content_type.empty()) head.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : common) head.set(name, value);
  for (const auto& [name, value] : response.headers) head.set(name, value);
  return head;
}

/// What to say about bytes that are no request; nullopt: nothing, the client is gone.
std::optional<ApiError> describe(const error_code& error, const Limits& limits) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return ApiError{
        .status = 431,
        .message = fmt::format("The header is larger than {} bytes.", limits.header_bytes),
        .code = "header_too_large"};
  }
  if (error == http::error::body_limit) {
    return ApiError{.status = 413,
                    .message = fmt::format("The body is larger than {} bytes.", limits.body_bytes),
                    .code = "body_too_large"};
  }
  const bool http_error =
      error.category() == http::make_error_code(http::error::bad_method).category();
  if (!http_error || error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  return ApiError{.status = 400,
                  .message = fmt::format("This is not HTTP/1.1: {}.", error.message()),
                  .code = "bad_http"};
}

/// What a head must be beyond its grammar, so that no proxy reads it differently from us.
std::optional<ApiError> check_head(const Parser::value_type& head, const Limits& limits) {
  const auto bad = [](std::string message) {
    return ApiError{.status = 400, .message = std::move(message), .code = "bad_http"};
  };
  int64_t num_fields = 0;
  int64_t num_hosts = 0;
  int64_t num_encodings = 0;
  int64_t num_lengths = 0;
  for (const auto& field : head) {
    ++num_fields;
    num_hosts += field.name() == http::field::host;
    if (field.name() == http::field::content_length) {
      ++num_lengths;
      if (field.value().find_first_not_of("0123456789") != std::string_view::npos) {
        return bad("Content-Length must be a number.");
      }
    }
    if (field.name() != http::field::transfer_encoding) continue;
    ++num_encodings;
    if (!boost::beast::iequals(field.value(), "chunked")) {
      return bad("The only Transfer-Encoding known here is chunked.");
    }
  }
  if (num_fields > limits.header_fields) {
    return ApiError{.status = 431,
                    .message = fmt::format("The header has {} fields; the limit is {}.", num_fields,
                                           limits.header_fields),
                    .code = "header_too_large"};
  }
  if (num_lengths + num_encodings > 1 || (num_encodings == 1 && head.version() < 11)) {
    return bad("There must be one Content-Length, or one Transfer-Encoding in HTTP/1.1.");
  }
  if (num_hosts > 1 || (num_hosts == 0 && head.version() >= 11)) {
    return bad("There must be one Host field.");
  }
  return std::nullopt;
}

/// The request of a head that passed; its body is still to come. nullopt: its target is no path.
std::optional<HttpRequest> make_request(const Parser::value_type& head) {
  HttpRequest request;
  request.method = std::string(head.method_string());
  const std::string_view target(head.target().data(), head.target().size());
  const auto path = percent_decode(target.substr(0, target.find('?')));
  if (!path || !path->starts_with('/')) return std::nullopt;
  request.path = *path;
  for (const auto& field : head) {
    const auto name = field.name_string();
    request.headers.emplace_back(to_lower({name.data(), name.size()}), std::string(field.value()));
  }
  request.id = random_id();
  const std::string_view client_id = request.header("x-request-id");
  if (client_id.size() <= kClientIdBytes && is_visible(client_id)) request.client_id = client_id;
  return request;
}

/// One line per answer, without anything of its content; GETs are for those who debug.
void log_answer(const Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const log::Level level = request.method == "POST" ? log::Level::info : log::Level::debug;
  if (!log::enabled(level)) return;
  log::write(level, fmt::format("{} {} {} {} {:.1f} ms", request.id, request.method,
                                is_visible(request.path) ? request.path : "?", exchange.status(),
                                static_cast<double>(monotonic_us() - request.arrival_us) * 1e-3));
}

}  // namespace

/// While it lives, the socket is closed as soon as the time has passed. One at a time.
class Connection::Deadline {
 public:
  Deadline(Connection& connection, std::chrono::milliseconds time) : connection_(connection) {
    connection_.deadline_.expires_after(time);
    connection_.deadline_.async_wait([self = connection.shared_from_this(),
                                      index = ++connection.deadline_index_](error_code error) {
      // The timer may have expired just before it was cancelled: then the index has moved on.
      if (error || index != self->deadline_index_) return;
      if (!self->idle_) self->context_.metrics.rejected("too_slow");
      self->socket_.close(error);
    });
  }
  ~Deadline() {
    ++connection_.deadline_index_;
    connection_.deadline_.cancel();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  Connection& connection_;
};

Connection::Connection(asio::ip::tcp::socket socket, Context& context)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      buffer_(static_cast<std::size_t>(context.options.limits.header_bytes) + (64 << 10)),
      context_(context) {}

Task<> Connection::run() {
  try {
    // One request even of a connection that is made during a drain: the probe of a balancer.
    do {
      co_await serve_one();
      // A stream may have promised another answer before the drain began.
    } while (keep_alive_ && !context_.draining);
    if (unread_) co_await linger();
  } catch (const std::exception& error) {
    // The socket's own failures are how clients leave.
    if (dynamic_cast<const boost::system::system_error*>(&error) == nullptr) {
      log::error("connection: {}", error.what());
    }
  }
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Connection::close() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    error_code ignored;
    self->socket_.close(ignored);
  });
}

void Connection::close_if_idle() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    error_code ignored;
    if (self->idle_) self->socket_.close(ignored);
  });
}

Task<> Connection::serve_one() {
  if (!co_await wait_for_bytes()) {
    keep_alive_ = false;
    co_return;
  }
  auto request = co_await read_request();
  if (request) co_await answer_watched(std::move(*request));
}

Task<bool> Connection::wait_for_bytes() {
  if (buffer_.size() > 0) co_return true;
  const Deadline deadline(*this, context_.options.limits.idle_timeout);
  idle_ = true;
  error_code error;
  const std::size_t size =
      co_await socket_.async_read_some(buffer_.prepare(4096), redirect_error(use_awaitable, error));
  idle_ = false;
  buffer_.commit(size);
  co_return !error;
}

Task<std::optional<HttpRequest>> Connection::read_request() {
  const Limits& limits = context_.options.limits;
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser.body_limit(static_cast<uint64_t>(limits.body_bytes));
  error_code error;
  {
    const Deadline deadline(*this, limits.header_deadline);
    co_await http::async_read_header(socket_, buffer_, parser,
                                     redirect_error(use_awaitable, error));
  }
  std::optional<ApiError> refusal = error ? describe(error, limits) : std::nullopt;
  if (error && !refusal) keep_alive_ = false;
  if (!error) refusal = check_head(parser.get(), limits);
  std::optional<HttpRequest> request;
  if (!error && !refusal) {
    request = make_request(parser.get());
    if (!request) {
      refusal =
          ApiError{.status = 400, .message = "The target must be a path.", .code = "bad_http"};
    }
  }
  if (refusal) co_await refuse(*refusal);
  if (!request) co_return std::nullopt;

  keep_alive_ = parser.keep_alive();
  http_1_0_ = parser.get().version() < 11;
  if (const auto early = answer_head(context_, *request)) {
    unread_ = !parser.is_done();
    keep_alive_ = keep_alive_ && !unread_;
    const HeaderFields common = common_headers(context_, *request);
    co_await send(*request, *early, common);
    co_return std::nullopt;
  }
  if (!parser.is_done()) {
    const Deadline deadline(*this, limits.body_deadline);
    if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(socket_, asio::buffer(kContinue), use_awaitable);
    }
    BodyShare share(context_);
    parser.eager(true);
    while (!error && !refusal && !parser.is_done()) {
      co_await http::async_read_some(socket_, buffer_, parser,
                                     redirect_error(use_awaitable, error));
      try {
        share.grow_to(std::ssize(parser.get().body()));
      } catch (const Error& overload) {
        refusal = to_api_error(overload);
      }
    }
  }
  if (refusal) {
    co_await refuse(*refusal);
    co_return std::nullopt;
  }
  if (error) {
    keep_alive_ = false;
    if (const auto reason = describe(error, limits)) co_await refuse(*reason);
    co_return std::nullopt;
  }
  request->body = std::move(parser.get().body());
  request->arrival_us = monotonic_us();
  co_return request;
}

Task<> Connection::refuse(const ApiError& error) {
  keep_alive_ = false;
  unread_ = true;
  context_.metrics.rejected(error.code);
  const HttpRequest nobody;
  const HttpResponse response = error_response(error);
  const HeaderFields none;
  co_await send(nobody, response, none);
}

Task<> Connection::answer_watched(HttpRequest request) {
  using asio::experimental::awaitable_operators::operator||;
  HeaderFields common = common_headers(context_, request);
  Exchange exchange(*this, std::move(request), std::move(common));
  co_await (answer_guarded(exchange) || watch_client());
  log_answer(exchange);
  if (exchange.streaming() || exchange.status() == 0) keep_alive_ = false;
}

Task<> Connection::answer_guarded(Exchange& exchange) {
  try {
    co_await answer(context_, exchange);
  } catch (const boost::system::system_error&) {
    keep_alive_ = false;
  }
}

Task<> Connection::watch_client() {
  error_code error;
  while (!error && buffer_.size() < kReadAheadBytes) {
    const std::size_t size = co_await socket_.async_read_some(buffer_.prepare(4096),
                                                              redirect_error(use_awaitable, error));
    buffer_.commit(size);
  }
  if (!error) context_.metrics.rejected("sent_ahead");
  // Aborted: the answer is complete. Anything else: the client has left, and reading again would
  // wait for an end of the stream that Asio reports once only.
  if (error != asio::error::operation_aborted) keep_alive_ = false;
}

Task<> Connection::linger() {
  const Deadline deadline(*this, kLingerTime);
  error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  std::array<char, 16 << 10> sink;
  for (std::size_t total = 0; !error && total < kLingerBytes;) {
    total +=
        co_await socket_.async_read_some(asio::buffer(sink), redirect_error(use_awaitable, error));
  }
}

Task<> Connection::send(const HttpRequest& request, const HttpResponse& response,
                        const HeaderFields& common) {
  context_.metrics.answered(route_name(request), response.status);
  keep_alive_ = keep_alive_ && !context_.draining;
  http::response<http::empty_body> head = make_head(response, common);
  head.keep_alive(keep_alive_);
  const bool has_body = response.status != 204;
  if (has_body) head.content_length(response.body.size());
  {
    const Deadline deadline(*this, context_.options.limits.write_stall);
    http::response_serializer<http::empty_body> serializer(head);
    co_await http::async_write_header(socket_, serializer, use_awaitable);
  }
  if (!has_body || request.method == "HEAD") co_return;
  for (std::string_view rest = response.body; !rest.empty();) {
    const std::string_view piece = rest.substr(0, kPieceBytes);
    rest.remove_prefix(piece.size());
    const Deadline deadline(*this, context_.options.limits.write_stall);
    co_await asio::async_write(socket_, asio::buffer(piece), use_awaitable);
  }
}

Task<> Connection::send_stream_head(const HttpRequest& request, const HttpResponse& response,
                                    const HeaderFields& common) {
  context_.metrics.answered(route_name(request), response.status);
  keep_alive_ = keep_alive_ && !context_.draining && !http_1_0_;
  http::response<http::empty_body> head = make_head(response, common);
  head.keep_alive(keep_alive_);
  if (!http_1_0_) head.chunked(true);
  const Deadline deadline(*this, context_.options.limits.write_stall);
  http::response_serializer<http::empty_body> serializer(head);
  co_await http::async_write_header(socket_, serializer, use_awaitable);
}

Task<> Connection::send_chunk(std::string_view bytes) {
  while (!bytes.empty()) {  // an empty chunk would end the body
    const asio::const_buffer piece = asio::buffer(bytes.substr(0, kPieceBytes));
    bytes.remove_prefix(piece.size());
    const Deadline deadline(*this, context_.options.limits.write_stall);
    if (http_1_0_) {
      co_await asio::async_write(socket_, piece, use_awaitable);
    } else {
      const auto chunk = http::make_chunk(piece);
      co_await asio::async_write(socket_, chunk, use_awaitable);
    }
  }
}

Task<> Connection::send_last_chunk() {
  if (http_1_0_) co_return;
  const Deadline deadline(*this, context_.options.limits.write_stall);
  const auto chunk = http::make_chunk_last();
  co_await asio::async_write(socket_, chunk, use_awaitable);
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (field == name) return value;
  }
  return {};
}

Exchange::Exchange(Connection& connection, HttpRequest request, HeaderFields common_headers)
    : connection_(connection),
      request_(std::move(request)),
      common_headers_(std::move(common_headers)) {}

Task<> Exchange::respond(HttpResponse response) {
  HASTEN_CHECK(status_ == 0);
  BodyShare share(connection_.context_);
  try {
    share.grow_to(std::ssize(response.body));
  } catch (const Error& overload) {
    const ApiError error = to_api_error(overload);
    connection_.context_.metrics.rejected(error.code);
    response = error_response(error);
  }
  status_ = response.status;
  co_await connection_.send(request_, response, common_headers_);
}

Task<> Exchange::start_stream(HttpResponse head) {
  HASTEN_CHECK(status_ == 0);
  status_ = head.status;
  streaming_ = true;
  co_await connection_.send_stream_head(request_, head, common_headers_);
}

std::function<void()> Exchange::cutter() {
  return [connection = connection_.shared_from_this()] {
    connection->context_.metrics.rejected("slow_reader");
    connection->close();
  };
}

Task<> Exchange::write(std::string_view bytes) { return connection_.send_chunk(bytes); }

Task<> Exchange::end_stream() {
  co_await connection_.send_last_chunk();
  streaming_ = false;
}

}  // namespace hasten::server
