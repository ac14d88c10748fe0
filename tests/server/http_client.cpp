// SPDX-License-Identifier: Apache-2.0
// The test client, on plain sockets.
#include "http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace hasten::testing {
namespace {

void set_timeout(int socket, double seconds) {
  timeval time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(time.tv_sec)) * 1e6);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

HttpClient::HttpClient(uint16_t port, int receive_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    throw std::runtime_error("cannot connect");
  }
  set_timeout(socket_, 5);
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::fill() {
  std::array<char, 65536> bytes;
  const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
  if (size <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(size));
  return true;
}

HttpReply HttpClient::read_reply(bool head_only) {
  HttpReply reply;
  std::size_t head_end = 0;
  while ((head_end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return reply;
  }
  const std::string head = buffer_.substr(0, head_end + 2);
  buffer_.erase(0, head_end + 4);
  std::size_t line = head.find("\r\n") + 2;
  while (line < head.size()) {
    const std::size_t end = head.find("\r\n", line);
    const std::size_t colon = head.find(": ", line);
    reply.headers[lower(head.substr(line, colon - line))] = head.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  reply.status = std::atoi(head.c_str() + 9);
  if (reply.status == 100) return read_reply(head_only);
  const bool chunked = reply.headers["transfer-encoding"] == "chunked";
  if (!chunked) {
    const auto length =
        static_cast<std::size_t>(std::atol(reply.headers["content-length"].c_str()));
    while (!head_only && buffer_.size() < length) {
      if (!fill()) return reply;
    }
    if (!head_only) {
      reply.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    }
    reply.complete = true;
    return reply;
  }
  for (;;) {
    std::size_t size_end = 0;
    while ((size_end = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill()) return reply;
    }
    const std::size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
    while (buffer_.size() < size_end + 2 + size + 2) {
      if (!fill()) return reply;
    }
    reply.body += buffer_.substr(size_end + 2, size);
    buffer_.erase(0, size_end + 2 + size + 2);
    if (size == 0) break;
  }
  reply.complete = true;
  return reply;
}

HttpReply HttpClient::request(std::string_view method, std::string_view path, std::string_view body,
                              std::string_view more_headers) {
  std::string head =
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, path, more_headers);
  if (!body.empty()) {
    head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    if (more_headers.find("Content-Type") == std::string_view::npos) {
      head += "Content-Type: application/json\r\n";
    }
  }
  send(head + "\r\n" + std::string(body));
  return read_reply(method == "HEAD");
}

bool HttpClient::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos) {
    if (!fill()) return false;
  }
  return true;
}

bool HttpClient::closed_within(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::array<char, 4096> bytes;
  for (;;) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0) return false;
    set_timeout(socket_, std::max(left, 0.001));
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
    if (size == 0 || (size < 0 && errno == ECONNRESET)) return true;
    if (size < 0 && errno != EAGAIN && errno != EINTR) return true;
  }
}

}  // namespace hasten::testing
