// SPDX-License-Identifier: Apache-2.0
// The HTTP server: OpenAI's API, metrics, health and the chat page in front of one Engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hasten/engine.h"

namespace hasten::server {

/// What one client, one connection or one request may use. Whoever asks for more is told which
/// limit it was, and what the limit is.
struct Limits {
  int64_t header_bytes = 16 << 10;  // request line and header fields together; HTTP 431
  int64_t header_fields = 100;      // HTTP 431
  int64_t body_bytes = 4 << 20;     // HTTP 413
  int32_t json_depth = 128;         // nested arrays and objects of a body
  int64_t messages = 4096;          // of a conversation
  int64_t tools = 512;              // offered in a conversation
  int64_t stop_strings = 16;        // of a request
  int64_t stop_bytes = 256;         // of each stop string
  int64_t stop_tokens = 128;        // of a request
  int64_t logit_biases = 1024;      // of a request
  int64_t salt_bytes = 256;         // of cache_salt
  int64_t choices = 16;             // n
  int64_t prompts = 64;             // of one /v1/completions request
  int64_t top_logprobs = 20;        // alternatives per token
  int64_t logprobs = 100'000;       // entries that one answer gathers, alternatives included
  int64_t connections = 4096;       // open at once; more are answered 503 and closed
  int64_t requests = 1024;          // generations at once, waiting ones too; HTTP 429
  int64_t output_bytes = 1 << 20;   // generated, but not yet read by the client: then it is cut
  // Bodies of requests on their way in and of whole answers on their way out, all connections
  // together; HTTP 429.
  int64_t bodies_bytes = 512 << 20;
  std::chrono::milliseconds header_deadline{10'000};  // from a request's first byte to its body
  std::chrono::milliseconds body_deadline{60'000};    // for the whole body
  std::chrono::milliseconds idle_timeout{75'000};     // between two requests of a connection
  std::chrono::milliseconds write_stall{30'000};      // for 64 KiB at most; then the client is cut
  std::chrono::milliseconds stream_ping{15'000};      // silence before a stream sends a comment
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // address to listen on: an IPv4 or IPv6 literal, or "localhost"
  uint16_t port = 8080;            // 0: any free one, see Server::port
  int32_t threads = 2;             // for connections; the engine has its own
  std::vector<std::string> model_names;  // that clients may ask for, the first is the one shown;
                                         // empty: the model's own name
  std::vector<std::string> api_keys;     // a Bearer token must be one of them; empty: no key needed
  bool share_prefixes = false;           // all keys find cached beginnings of each other's requests
  std::vector<std::string> cors_origins;   // that browsers may call from besides this server's own
                                           // page and pages of this machine; "*": any
  std::vector<std::string> allowed_hosts;  // names in Host: that are right besides those of this
                                           // machine; only asked for when bound to loopback
  Limits limits;
};

/// Throws what Server::start would because of `options`: it listens for a moment. For whoever does
/// something long before that.
void check_listening(const ServerOptions& options);
/// Whether only this machine reaches a server whose ServerOptions::host is `host`.
bool is_loopback(const std::string& host);
/// Whether `host` stands for all addresses of the machine: 0.0.0.0 or ::.
bool is_unspecified(const std::string& host);

/// Serves one engine, which must outlive it. All members are safe from any thread; none may be
/// called from an engine's sink.
class Server {
 public:
  Server(Engine& engine, ServerOptions options);
  ~Server();  // shutdown without grace
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens, and returns when connections are accepted. Throws Error{invalid_argument} for a host
  /// that is not an address of this machine and for a key that no client could send, Error{io} when
  /// the port is taken.
  void start();
  /// The port that is listened on, once started.
  uint16_t port() const;
  /// "http://127.0.0.1:8080": where a browser of this machine finds it, also when it listens on all
  /// addresses.
  std::string url() const;

  /// Drains: accepts no POST any more, turns /health/ready to 503, lets the running generations end
  /// for `grace` at most (what remains is cancelled, and its client told), then closes the port and
  /// every connection. Returns when all is closed; a second call waits for the
  /// first one. Not from a signal handler: wait for the signal in a thread (sigwait).
  void shutdown(std::chrono::milliseconds grace);
  /// Waits until a shutdown has ended.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hasten::server
