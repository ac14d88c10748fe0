// SPDX-License-Identifier: Apache-2.0
// One TCP connection: reads requests within limits, writes answers, notices when the client leaves.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/context.h"
#include "server/errors.h"
#include "server/http.h"

namespace hasten::server {

/// HTTP/1.1 with keep-alive, one request at a time. Everything runs on the socket's strand, except
/// what says otherwise. What goes wrong here ends this connection and nothing else.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// `socket` must have a strand of its own as its executor.
  Connection(boost::asio::ip::tcp::socket socket, Context& context);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Serves requests until either side ends the connection. Does not throw.
  Task<> run();
  /// Closes the socket. Any thread; it happens on the strand, a little later.
  void close();
  /// Closes the socket if no request is being read or answered. Any thread, likewise.
  void close_if_idle();

 private:
  friend class Exchange;
  class Deadline;

  Task<> serve_one();
  /// The next request, or nullopt when there is none or its head was enough to answer it.
  Task<std::optional<HttpRequest>> read_request();
  Task<bool> wait_for_bytes();
  /// Answers and, meanwhile, watches the client; ends the answer when the client goes away.
  Task<> answer_watched(HttpRequest request);
  Task<> answer_guarded(Exchange& exchange);
  Task<> watch_client();
  /// Answers what is not a request. The connection ends after it.
  Task<> refuse(const ApiError& error);
  /// Lets the last answer arrive although the client still sends.
  Task<> linger();

  Task<> send(const HttpRequest& request, const HttpResponse& response, const HeaderFields& common);
  Task<> send_stream_head(const HttpRequest& request, const HttpResponse& response,
                          const HeaderFields& common);
  Task<> send_chunk(std::string_view bytes);
  Task<> send_last_chunk();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;
  uint64_t deadline_index_ = 0;       // of the deadline that is armed
  boost::beast::flat_buffer buffer_;  // bytes that were read and not yet parsed
  Context& context_;
  bool keep_alive_ = true;  // the connection may carry another request
  bool http_1_0_ = false;   // the client knows no chunks
  bool idle_ = true;        // between two requests
  bool unread_ = false;     // the client may be sending a body that nobody reads
};

}  // namespace hasten::server
