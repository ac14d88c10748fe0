// SPDX-License-Identifier: Apache-2.0
// The state that handlers share, and admission of generations.
#include "server/context.h"

#include <algorithm>
#include <ctime>

#include "base/error.h"

namespace hasten::server {
namespace {

std::vector<std::string> served_names(const Engine& engine, const ServerOptions& options) {
  if (!options.model_names.empty()) return options.model_names;
  return {engine.model().name};
}

}  // namespace

Context::Context(Engine& engine_, const ServerOptions& options_)
    : engine(engine_),
      options(options_),
      access(options_),
      model_names(served_names(engine_, options_)),
      started_s(std::time(nullptr)),
      metrics(model_names.front()) {}

const std::string& Context::served_name(const std::string& model) const {
  if (model.empty()) return model_names.front();
  const auto found = std::find(model_names.begin(), model_names.end(), model);
  if (found == model_names.end()) {
    throw Error(
        ErrorCode::not_found,
        fmt::format("The model \"{}\" is not served here; \"{}\" is.", model, model_names.front()),
        "model");
  }
  return *found;
}

RequestBounds Context::bounds() const {
  return {.limits = options.limits,
          .vocab_size = engine.model().vocab_size,
          .context = engine.model().context};
}

GenerationSlot::GenerationSlot(Context& context) : context_(context) {
  if (context.draining) {
    fail(ErrorCode::unavailable, "The server is shutting down; ask another one.");
  }
  if (context.generations.fetch_add(1) >= context.options.limits.requests) {
    context.generations.fetch_sub(1);
    fail(ErrorCode::resource_exhausted, "{} requests are being answered already; try again soon.",
         context.options.limits.requests);
  }
}

GenerationSlot::~GenerationSlot() { context_.generations.fetch_sub(1); }

BodyShare::~BodyShare() { context_.body_bytes.fetch_sub(bytes_); }

void BodyShare::grow_to(int64_t bytes) {
  const int64_t more = bytes - bytes_;
  const int64_t limit = context_.options.limits.bodies_bytes;
  if (context_.body_bytes.fetch_add(more) + more > limit) {
    context_.body_bytes.fetch_sub(more);
    fail(ErrorCode::resource_exhausted,
         "More than {} bytes of requests and answers are on their way already; try again soon.",
         limit);
  }
  bytes_ = bytes;
}

}  // namespace hasten::server
