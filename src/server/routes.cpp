// SPDX-License-Identifier: Apache-2.0
// The route table and the checks that every request passes on its way to a handler.
#include "server/routes.h"

#include <algorithm>
#include <array>
#include <boost/system/system_error.hpp>

#include "base/error.h"
#include "base/log.h"
#include "server/ascii.h"
#include "server/errors.h"
#include "server/handlers.h"

namespace hasten::server {
namespace {

constexpr std::array kRoutes = {
    Route{"POST", "/v1/chat/completions", Auth::key, chat_completions},
    Route{"POST", "/v1/completions", Auth::key, completions},
    Route{"GET", "/v1/models", Auth::key, list_models},
    Route{"GET", "/v1/models/*", Auth::key, show_model},
    Route{"POST", "/tokenize", Auth::key, tokenize},
    Route{"POST", "/detokenize", Auth::key, detokenize},
    Route{"GET", "/metrics", Auth::key, show_metrics},
    Route{"GET", "/version", Auth::key, show_version},
    Route{"GET", "/health", Auth::open, show_ready},
    Route{"GET", "/health/ready", Auth::open, show_ready},
    Route{"GET", "/health/live", Auth::open, show_live},
    Route{"GET", "/", Auth::open, web_page},
    Route{"GET", "/style.css", Auth::open, web_page},
    Route{"GET", "/app.js", Auth::open, web_page},
    Route{"GET", "/api.js", Auth::open, web_page},
    Route{"GET", "/markdown.js", Auth::open, web_page},
    Route{"GET", "/icon.svg", Auth::open, web_page},
};

bool matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with("/*")) return route.path == path;
  const std::string_view prefix = route.path.substr(0, route.path.size() - 1);
  return path.size() > prefix.size() && path.starts_with(prefix);
}

std::string_view route_method(const HttpRequest& request) {
  return request.method == "HEAD" ? "GET" : std::string_view(request.method);
}

const Route* find_route(const HttpRequest& request) {
  const auto found = std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& route) {
    return route.method == route_method(request) && matches(route, request.path);
  });
  return found == kRoutes.end() ? nullptr : &*found;
}

/// "GET, HEAD, OPTIONS"; empty when no route has the path.
std::string allowed_methods(std::string_view path) {
  std::string methods;
  for (const Route& route : kRoutes) {
    if (!matches(route, path)) continue;
    methods += std::string(route.method) + (route.method == "GET" ? ", HEAD, " : ", ");
  }
  return methods.empty() ? methods : methods + "OPTIONS";
}

/// "/v1/models, /version", for one who asked for something else; the page's files are no interface.
std::string known_paths() {
  std::string paths;
  for (const Route& route : kRoutes) {
    if (route.handler == web_page) continue;
    paths += (paths.empty() ? "" : ", ") + std::string(route.path);
  }
  return paths;
}

HttpResponse preflight(std::string methods, std::string_view wanted_headers) {
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers = {{"Allow", methods},
                      {"Access-Control-Allow-Methods", methods},
                      {"Access-Control-Max-Age", "3600"}};
  if (!wanted_headers.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Headers", wanted_headers);
  }
  return response;
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::size_t end = type.find_last_not_of(" \t");
  const std::string bare = to_lower(type.substr(0, end == std::string_view::npos ? 0 : end + 1));
  return bare.empty() || bare == "application/json" || bare.ends_with("+json");
}

std::optional<ApiError> refusal(Context& context, HttpRequest& request, const Route& route) {
  const std::string_view origin = request.header("origin");
  // A page of another site could make a browser inside our network ask; without keys, only its
  // origin tells it apart.
  if (context.options.api_keys.empty() && route.method != "GET" && !origin.empty() &&
      !context.access.origin_allowed(origin, request.header("host"))) {
    return ApiError{
        .status = 403,
        .message = fmt::format("Pages of {0} may not call this server, unless it is started "
                               "with --cors-origin {0}.",
                               origin),
        .code = "origin_not_allowed"};
  }
  if (route.auth == Auth::key) {
    const auto tenant = context.access.authenticate(request.header("authorization"));
    if (!tenant) {
      return ApiError{.status = 401,
                      .message = is_bearer(request.header("authorization"))
                                     ? "This API key is none of this server's."
                                     : "This server needs an API key: Authorization: Bearer KEY.",
                      .type = "authentication_error",
                      .code = "invalid_api_key"};
    }
    request.tenant = *tenant;
  }
  if (route.method == "POST" && !is_json(request.header("content-type"))) {
    return ApiError{.status = 415,
                    .message = fmt::format("The body is {}; it must be application/json, as "
                                           "-H 'Content-Type: application/json' says with curl.",
                                           request.header("content-type")),
                    .code = "unsupported_media_type"};
  }
  return std::nullopt;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

std::string_view route_name(const HttpRequest& request) {
  const auto found = std::find_if(kRoutes.begin(), kRoutes.end(),
                                  [&](const Route& route) { return matches(route, request.path); });
  return found == kRoutes.end() ? "unknown" : found->path;
}

std::optional<HttpResponse> answer_head(Context& context, HttpRequest& request) {
  const auto refuse = [&context](const ApiError& error) {
    context.metrics.rejected(error.code);
    return error_response(error);
  };
  if (!context.access.host_allowed(request.header("host"))) {
    return refuse({.status = 403,
                   .message = fmt::format("This server is not called {}, unless it is started with "
                                          "--allowed-host and that name.",
                                          request.header("host")),
                   .code = "host_not_allowed"});
  }
  const std::string methods = allowed_methods(request.path);
  if (methods.empty()) {
    return refuse(
        {.status = 404,
         .message = fmt::format("There is no {} here. There are {}.", request.path, known_paths()),
         .code = "unknown_path"});
  }
  if (request.method == "OPTIONS") {
    return preflight(methods, request.header("access-control-request-headers"));
  }
  const Route* route = find_route(request);
  if (route == nullptr) {
    HttpResponse response = refuse({.status = 405,
                                    .message = fmt::format("{} does not answer {}, only {}.",
                                                           request.path, request.method, methods),
                                    .code = "method_not_allowed"});
    response.headers.emplace_back("Allow", methods);
    return response;
  }
  if (const auto error = refusal(context, request, *route)) return refuse(*error);
  if (context.draining && route->method == "POST") return refuse(shutting_down());
  return std::nullopt;
}

HeaderFields common_headers(const Context& context, const HttpRequest& request) {
  HeaderFields headers = {
      {"X-Request-Id", request.client_id.empty() ? request.id : request.client_id},
      {"X-Content-Type-Options", "nosniff"}};
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && context.access.origin_allowed(origin, request.header("host"))) {
    headers.emplace_back("Access-Control-Allow-Origin", origin);
    headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    headers.emplace_back("Vary", "Origin");
  }
  return headers;
}

Task<> answer(Context& context, Exchange& exchange) {
  const Route& route = *find_route(exchange.request());
  std::optional<ApiError> error;
  try {
    co_await route.handler(context, exchange);
  } catch (const boost::system::system_error&) {
    throw;
  } catch (const ApiError& thrown) {
    error = thrown;
  } catch (const Error& thrown) {
    error = to_api_error(thrown);
    if (error->status == 500) log::error("{} {}: {}", route.method, route.path, thrown.what());
  } catch (const std::exception& thrown) {
    error = internal_error();
    log::error("{} {}: {}", route.method, route.path, thrown.what());
  }
  if (error) context.metrics.rejected(error->code.empty() ? "invalid_request" : error->code);
  if (error && exchange.status() == 0) co_await exchange.respond(error_response(*error));
}

}  // namespace hasten::server
