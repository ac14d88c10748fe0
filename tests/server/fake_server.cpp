// SPDX-License-Identifier: Apache-2.0
// The server on the fake engine as a program: `fake_server serve --port N` stands in for hasten in
// the tests that need a server of their own process.
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "fake_engine.h"
#include "hasten/engine.h"
#include "server/server.h"

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  hasten::server::ServerOptions options;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--port") {
      options.port = static_cast<uint16_t>(std::atoi(argv[i + 1]));
    }
  }
  hasten::testing::fake_controls().step_us = 20'000;  // slow enough to be watched
  hasten::Engine engine;
  hasten::server::Server server(engine, options);
  server.start();
  int received = 0;
  sigwait(&signals, &received);
  server.shutdown(std::chrono::seconds(2));
  return 0;
}
