// SPDX-License-Identifier: Apache-2.0
// GET /v1/models and /v1/models/{id}: what is served, and how long its context is.
#include <utility>

#include "base/json.h"
#include "server/handlers.h"

namespace hasten::server {
namespace {

constexpr std::string_view kPrefix = "/v1/models/";

json::Object model_json(const Context& context, const std::string& name) {
  const ModelInfo& model = context.engine.model();
  // The context goes by a different name in each client.
  return {{"id", name},
          {"object", "model"},
          {"created", context.started_s},
          {"owned_by", "hasten"},
          {"root", model.name},
          {"parent", nullptr},
          {"max_model_len", model.context},
          {"context_length", model.context},
          {"max_input_tokens", model.context},
          {"meta",
           {{"n_ctx_train", model.train_context},
            {"n_params", model.num_parameters},
            {"n_vocab", model.vocab_size},
            {"size", model.weight_bytes}}}};
}

}  // namespace

Task<> list_models(Context& context, Exchange& exchange) {
  json::Array models;
  for (const std::string& name : context.model_names) models.push_back(model_json(context, name));
  HttpResponse response{
      .body = json::serialize(json::Object{{"object", "list"}, {"data", std::move(models)}})};
  co_await exchange.respond(std::move(response));
}

Task<> show_model(Context& context, Exchange& exchange) {
  const std::string id = exchange.request().path.substr(kPrefix.size());
  HttpResponse response{.body = json::serialize(model_json(context, context.served_name(id)))};
  co_await exchange.respond(std::move(response));
}

}  // namespace hasten::server
