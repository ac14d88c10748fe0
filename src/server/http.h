// SPDX-License-Identifier: Apache-2.0
// A request and its answer as handlers see them, without the library that moves the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/task.h"

namespace hasten::server {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;    // "GET"
  std::string path;      // percent-decoded, without the query
  HeaderFields headers;  // names in lower case, in the order of arrival
  std::string body;
  std::string id;          // server-made, unguessable; 32 hexadecimal digits
  std::string client_id;   // the client's X-Request-Id, when it is fit to be echoed
  std::string tenant;      // who asks, found by authentication
  int64_t arrival_us = 0;  // monotonic, when the whole request was there

  /// The first field of that name (lower case), or empty.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HeaderFields headers{};  // further ones
  std::string body{};
};

class Connection;

/// One request being answered: either `respond` once, or `start_stream`, `write` and `end_stream`.
/// Lives on its connection's strand. All tasks throw boost::system::system_error when the client
/// is gone or does not read; handlers let that pass.
class Exchange {
 public:
  Exchange(Connection& connection, HttpRequest request, HeaderFields common_headers);

  const HttpRequest& request() const { return request_; }
  HttpRequest& request() { return request_; }
  /// The body, which need not be kept while it is answered.
  std::string take_body() { return std::exchange(request_.body, {}); }
  Task<> respond(HttpResponse response);
  /// Sends the head; the body is written in pieces. `head.body` is not sent.
  Task<> start_stream(HttpResponse head);
  Task<> write(std::string_view bytes);
  Task<> end_stream();
  /// A function that closes the connection; to be called on its strand, at any time.
  std::function<void()> cutter();
  /// The status that was sent; 0: none yet.
  int status() const { return status_; }
  /// A stream has begun and not ended, so the connection cannot carry another answer.
  bool streaming() const { return streaming_; }

 private:
  Connection& connection_;
  HttpRequest request_;
  HeaderFields common_headers_;  // that every answer to this request carries
  int status_ = 0;
  bool streaming_ = false;
};

}  // namespace hasten::server
