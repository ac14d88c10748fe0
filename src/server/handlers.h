// SPDX-License-Identifier: Apache-2.0
// The handlers that routes.cpp lists; each API family has a file of its own.
#pragma once

#include "server/context.h"
#include "server/http.h"

namespace hasten::server {

// Each answers one request and throws Error or ApiError before it has begun to.
Task<> chat_completions(Context& context, Exchange& exchange);
Task<> completions(Context& context, Exchange& exchange);
Task<> list_models(Context& context, Exchange& exchange);
Task<> show_model(Context& context, Exchange& exchange);
Task<> tokenize(Context& context, Exchange& exchange);
Task<> detokenize(Context& context, Exchange& exchange);
Task<> show_live(Context& context, Exchange& exchange);
Task<> show_ready(Context& context, Exchange& exchange);
Task<> show_version(Context& context, Exchange& exchange);
Task<> show_metrics(Context& context, Exchange& exchange);
Task<> web_page(Context& context, Exchange& exchange);

}  // namespace hasten::server
