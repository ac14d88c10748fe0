// SPDX-License-Identifier: Apache-2.0
// GET /health/live, /health/ready (and /health, which vLLM's probes ask for), /version.
#include <utility>

#include "base/json.h"
#include "hasten/version.h"
#include "server/handlers.h"

namespace hasten::server {
namespace {

HttpResponse health_response(int status, std::string_view state, std::string_view reason) {
  json::Object body{{"status", state}};
  if (!reason.empty()) body["reason"] = reason;
  return {
      .status = status, .headers = {{"Cache-Control", "no-store"}}, .body = json::serialize(body)};
}

}  // namespace

/// The process answers.
Task<> show_live(Context&, Exchange& exchange) {
  HttpResponse response = health_response(200, "live", "");
  co_await exchange.respond(std::move(response));
}

/// The engine makes progress and accepts requests: 503 while it does not.
Task<> show_ready(Context& context, Exchange& exchange) {
  const Health health = context.engine.health();
  HttpResponse response = health_response(200, "ready", "");
  if (context.draining) {
    response = health_response(503, "draining", "the server is shutting down");
  } else if (!health.ready) {
    response = health_response(503, "stalled", health.reason);
  }
  co_await exchange.respond(std::move(response));
}

Task<> show_version(Context&, Exchange& exchange) {
  HttpResponse response{.body = json::serialize(json::Object{{"version", kVersion}})};
  co_await exchange.respond(std::move(response));
}

}  // namespace hasten::server
