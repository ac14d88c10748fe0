// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP client for tests, so plain that it can also send what no client should.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hasten::testing {

struct HttpReply {
  int status = 0;                              // 0: the connection ended before a whole reply
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without the framing of chunks
  bool complete = false;                       // its framing says that it ended
};

/// One connection to 127.0.0.1. Reads give up after five seconds.
class HttpClient {
 public:
  /// `receive_bytes`: the socket's buffer, for clients that read slowly; 0: the system's default.
  explicit HttpClient(uint16_t port, int receive_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// False when the server has closed the connection.
  bool send(std::string_view bytes);
  HttpReply read_reply(bool head_only = false);
  /// Sends a request with Host, and Content-Type and Content-Length when there is a body; returns
  /// the reply.
  HttpReply request(std::string_view method, std::string_view path, std::string_view body = "",
                    std::string_view more_headers = "");
  /// Reads until `text` has been seen in this call's bytes; false when the connection ended.
  bool read_until(std::string_view text);
  /// Whether the server closes the connection within `seconds`; reads and drops what it sends.
  bool closed_within(double seconds);
  void close();

 private:
  bool fill();  // reads some bytes; false: none will come

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace hasten::testing
