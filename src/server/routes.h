// SPDX-License-Identifier: Apache-2.0
// The route table: every path that the server answers, who may ask, and who answers.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "server/context.h"
#include "server/http.h"

namespace hasten::server {

enum class Auth {
  open,  // anybody
  key,   // who has an API key, where keys are configured
};

using Handler = Task<> (*)(Context&, Exchange&);

struct Route {
  std::string_view method;  // GET routes answer HEAD too
  std::string_view path;    // exact; or a prefix, when it ends in "/*"
  Auth auth;
  Handler handler;
};

std::span<const Route> routes();
/// The path of the first route that a request's path fits, or "unknown": a label of few values.
std::string_view route_name(const HttpRequest& request);

/// What can be answered from a request's head alone, before its body is read: refusals (wrong
/// host, unknown path or method, no key, foreign origin, wrong type of body) and OPTIONS. Sets
/// `request.tenant`. nullopt: go on.
std::optional<HttpResponse> answer_head(Context& context, HttpRequest& request);

/// The fields that every answer to this request carries: its id, and what browsers need.
HeaderFields common_headers(const Context& context, const HttpRequest& request);

/// Answers a request that `answer_head` let pass; errors become answers. Throws only
/// boost::system::system_error: the client is gone.
Task<> answer(Context& context, Exchange& exchange);

}  // namespace hasten::server
