// SPDX-License-Identifier: Apache-2.0
// Listening, threads, and the drain at the end.
#include "server/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "server/ascii.h"
#include "server/connection.h"
#include "server/context.h"

namespace hasten::server {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{50};   // when descriptors have run out
constexpr std::chrono::milliseconds kLastWrites{1000};  // at least, for answers to leave

constexpr std::string_view kTooManyConnections =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n";

tcp::endpoint endpoint_of(const ServerOptions& options) {
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    fail_param("host", "host is \"{}\"; it must be an IP address or localhost", options.host);
  }
  return {address, options.port};
}

void check_keys(const ServerOptions& options) {
  for (const std::string& key : options.api_keys) {
    // Such as an empty variable of the shell: no client could send it.
    if (!is_visible(key) || key.empty()) {
      fail_param("api_key", "an API key is empty or not of visible ASCII; no client could send it");
    }
  }
}

/// Makes `acceptor` listen, or throws Error and says what to choose instead.
void open(tcp::acceptor& acceptor, const ServerOptions& options) {
  check_keys(options);
  const tcp::endpoint wanted = endpoint_of(options);
  error_code error;
  acceptor.open(wanted.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(wanted, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    const std::string_view advice =
        error == boost::system::errc::address_not_available
            ? "choose an address of this machine, or 0.0.0.0 for all"
        : error == boost::system::errc::permission_denied
            ? "choose a port from 1024 on with --port N"
            : "choose another port with --port N, or 0 for any free one";
    fail(ErrorCode::io, "cannot listen on {} port {}: {}; {}", options.host, options.port,
         error.message(), advice);
  }
}

}  // namespace

void check_listening(const ServerOptions& options) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  open(acceptor, options);
}

bool is_loopback(const std::string& host) {
  error_code error;
  return host == "localhost" || asio::ip::make_address(host, error).is_loopback();
}

bool is_unspecified(const std::string& host) {
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  return !error && address.is_unspecified();
}

struct Server::Impl {
  Impl(Engine& engine, ServerOptions given)
      : options(std::move(given)), context(engine, options), acceptor(asio::make_strand(io)) {}

  void listen();
  Task<> accept_connections();
  void add(tcp::socket socket);
  void for_each_connection(const std::function<void(Connection&)>& visit);
  bool wait_for_connections(std::chrono::milliseconds time);
  void stop_accepting();
  void drain(std::chrono::milliseconds grace);

  const ServerOptions options;
  Context context;
  asio::io_context io;
  tcp::acceptor acceptor;
  std::vector<std::thread> threads;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  bool accepting = true;
  enum class State { made, serving, draining, ended } state = State::made;
  tcp::endpoint endpoint;
};

void Server::Impl::listen() {
  open(acceptor, options);
  endpoint = acceptor.local_endpoint();
}

Task<> Server::Impl::accept_connections() {
  while (acceptor.is_open()) {
    error_code error;
    tcp::socket socket =
        co_await acceptor.async_accept(asio::make_strand(io), redirect_error(use_awaitable, error));
    std::string problem = error ? error.message() : "";
    try {
      if (!error) add(std::move(socket));
    } catch (const std::exception& thrown) {  // memory has run out, and will be there again
      problem = thrown.what();
    }
    if (!problem.empty() && acceptor.is_open()) {
      log::warn("accept: {}", problem);
      asio::steady_timer pause(acceptor.get_executor(), kAcceptPause);
      co_await pause.async_wait(use_awaitable);
    }
  }
}

void Server::Impl::add(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const std::lock_guard lock(mutex);
  if (!accepting) return;
  if (static_cast<int64_t>(connections.size()) >= options.limits.connections) {
    context.metrics.rejected("too_many_connections");
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(kTooManyConnections), ignored);
    return;
  }
  const auto executor = socket.get_executor();
  const auto connection = std::make_shared<Connection>(std::move(socket), context);
  connections.emplace(connection.get(), connection);
  asio::co_spawn(executor, connection->run(), [this, connection](const std::exception_ptr&) {
    const std::lock_guard inner(mutex);
    connections.erase(connection.get());
    changed.notify_all();
  });
}

void Server::Impl::for_each_connection(const std::function<void(Connection&)>& visit) {
  const std::lock_guard lock(mutex);
  for (const auto& entry : connections) visit(*entry.second);
}

bool Server::Impl::wait_for_connections(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, time, [this] { return connections.empty(); });
}

void Server::Impl::stop_accepting() {
  {
    const std::lock_guard lock(mutex);
    accepting = false;
  }
  asio::post(acceptor.get_executor(), [this] {
    error_code ignored;
    acceptor.close(ignored);
  });
}

void Server::Impl::drain(std::chrono::milliseconds grace) {
  context.draining = true;  // probes are told so on new connections, too
  const auto end = std::chrono::steady_clock::now() + grace;
  const int64_t grace_us = std::chrono::microseconds(grace).count();
  if (!context.engine.drain(grace_us))
    log::warn("drain: requests were cancelled after {} ms", grace.count());
  stop_accepting();
  for_each_connection([](Connection& connection) { connection.close_if_idle(); });
  const auto rest =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  if (!wait_for_connections(std::max(kLastWrites, rest))) {
    for_each_connection([](Connection& connection) { connection.close(); });
    wait_for_connections(kLastWrites);
  }
  io.stop();
  for (std::thread& thread : threads) thread.join();
}

Server::Server(Engine& engine, ServerOptions options)
    : impl_(std::make_unique<Impl>(engine, std::move(options))) {}

Server::~Server() { shutdown(std::chrono::milliseconds(0)); }

void Server::start() {
  const std::lock_guard lock(impl_->mutex);
  HASTEN_CHECK(impl_->state == Impl::State::made);
  impl_->listen();
  impl_->context.stats_at_start = impl_->context.engine.stats();
  asio::co_spawn(impl_->acceptor.get_executor(), impl_->accept_connections(), asio::detached);
  for (int32_t i = 0; i < std::max(1, impl_->options.threads); ++i) {
    impl_->threads.emplace_back([impl = impl_.get()] { impl->io.run(); });
  }
  impl_->state = Impl::State::serving;
}

uint16_t Server::port() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->endpoint.port();
}

std::string Server::url() const {
  std::string host = impl_->options.host;
  if (is_unspecified(host)) host = host.find(':') == std::string::npos ? "127.0.0.1" : "::1";
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port());
}

void Server::shutdown(std::chrono::milliseconds grace) {
  {
    std::unique_lock lock(impl_->mutex);
    if (impl_->state == Impl::State::made) {
      impl_->state = Impl::State::ended;
      impl_->changed.notify_all();
    }
    if (impl_->state != Impl::State::serving) {
      impl_->changed.wait(lock, [this] { return impl_->state == Impl::State::ended; });
      return;
    }
    impl_->state = Impl::State::draining;
  }
  impl_->drain(grace);
  const std::lock_guard lock(impl_->mutex);
  impl_->state = Impl::State::ended;
  impl_->changed.notify_all();
}

void Server::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->state == Impl::State::ended; });
}

}  // namespace hasten::server
