// SPDX-License-Identifier: Apache-2.0
// GET /metrics, on prometheus-cpp's registry and text serializer.
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "server/handlers.h"

namespace hasten::server {
namespace {

using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Buckets = Histogram::BucketBoundaries;

// Seconds. Tokens take from under a millisecond to seconds, requests from milliseconds to an hour.
const Buckets kTokenBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075,
                               0.1,    0.15,  0.25,   0.5,   1,    2.5,   5,    10};
const Buckets kRequestBuckets = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,   2.5, 5,
                                 10,    20,   40,    60,   120, 240,  480, 960, 1920};

constexpr double seconds(int64_t us) { return static_cast<double>(us) * 1e-6; }

Histogram& add_histogram(prometheus::Registry& registry, const std::string& name,
                         const std::string& help, const std::string& model,
                         const Buckets& buckets) {
  return prometheus::BuildHistogram()
      .Name("vllm:" + name)
      .Help(help)
      .Register(registry)
      .Add({{"model_name", model}}, buckets);
}

}  // namespace

struct Metrics::Families {
  explicit Families(const std::string& model)
      : time_to_first_token(add_histogram(registry, "time_to_first_token_seconds",
                                          "From arrival to the first token.", model,
                                          kRequestBuckets)),
        inter_token_latency(add_histogram(registry, "inter_token_latency_seconds",
                                          "Between two tokens of an answer.", model,
                                          kTokenBuckets)),
        e2e_latency(add_histogram(registry, "e2e_request_latency_seconds",
                                  "From arrival to the last token.", model, kRequestBuckets)),
        queue_time(add_histogram(registry, "request_queue_time_seconds",
                                 "Waiting before the first step.", model, kRequestBuckets)),
        prefill_time(add_histogram(registry, "request_prefill_time_seconds",
                                   "From the first step to the first token.", model,
                                   kRequestBuckets)),
        decode_time(add_histogram(registry, "request_decode_time_seconds",
                                  "From the first token to the last.", model, kRequestBuckets)),
        rejections(prometheus::BuildCounter()
                       .Name("hasten:rejections_total")
                       .Help("Requests and connections refused or cut, by reason.")
                       .Register(registry)),
        responses(prometheus::BuildCounter()
                      .Name("hasten:http_responses_total")
                      .Help("Answers by route and status.")
                      .Register(registry)) {}

  prometheus::Registry registry;
  Histogram& time_to_first_token;
  Histogram& inter_token_latency;
  Histogram& e2e_latency;
  Histogram& queue_time;
  Histogram& prefill_time;
  Histogram& decode_time;
  prometheus::Family<prometheus::Counter>& rejections;
  prometheus::Family<prometheus::Counter>& responses;
};

Metrics::Metrics(const std::string& model_name)
    : model_name_(model_name), families_(std::make_unique<Families>(model_name)) {}

Metrics::~Metrics() = default;

void Metrics::first_token(int64_t us) { families_->time_to_first_token.Observe(seconds(us)); }

void Metrics::more_tokens(int64_t us, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) {
    families_->inter_token_latency.Observe(seconds(us) / static_cast<double>(tokens));
  }
}

void Metrics::finished(int64_t us, const Usage& usage) {
  families_->e2e_latency.Observe(seconds(us));
  families_->queue_time.Observe(seconds(usage.queue_us));
  families_->prefill_time.Observe(seconds(usage.prefill_us));
  families_->decode_time.Observe(seconds(usage.decode_us));
}

void Metrics::rejected(std::string_view reason) {
  families_->rejections.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::answered(std::string_view route, int status) {
  families_->responses.Add({{"route", std::string(route)}, {"status", std::to_string(status)}})
      .Increment();
}

std::string Metrics::text(const Stats& stats) const {
  std::vector<MetricFamily> families = families_->registry.Collect();
  using Label = prometheus::ClientMetric::Label;
  const auto add = [&](const std::string& name, const std::string& help, MetricType type,
                       const std::vector<std::pair<Label, double>>& values) {
    MetricFamily family{name, help, type, {}};
    for (const auto& [label, value] : values) {
      prometheus::ClientMetric metric;
      metric.label.push_back({"model_name", model_name_});
      if (!label.name.empty()) metric.label.push_back(label);
      metric.counter.value = value;
      metric.gauge.value = value;
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  };
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const auto gauge = [&](const std::string& name, const std::string& help, double value) {
    add("vllm:" + name, help, MetricType::Gauge, {{{}, value}});
  };
  const auto counter = [&](const std::string& name, const std::string& help, int64_t value) {
    add("vllm:" + name, help, MetricType::Counter, {{{}, number(value)}});
  };
  gauge("num_requests_running", "Sequences in the batch.", number(stats.running));
  gauge("num_requests_waiting", "Requests in the queue.", number(stats.waiting));
  gauge(
      "kv_cache_usage_perc", "Used part of the KV cache; 1 is full.",
      stats.kv_blocks_total > 0 ? number(stats.kv_blocks_used) / number(stats.kv_blocks_total) : 0);
  counter("prompt_tokens_total", "Prompt tokens processed.", stats.prompt_tokens);
  counter("generation_tokens_total", "Tokens generated.", stats.generated_tokens);
  counter("num_preemptions_total", "Preemptions by the scheduler.", stats.preemptions);
  counter("prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache.",
          stats.prefix_cache_queries);
  counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
          stats.prefix_cache_hits);
  counter("external_prefix_cache_queries_total",
          "Tokens looked for on disk, as the prefix cache had not got them.",
          stats.kv_disk_queries);
  counter("external_prefix_cache_hits_total", "Tokens that came from disk.", stats.kv_disk_hits);
  add("hasten:kv_disk_blocks", "Blocks of keys and values on disk.", MetricType::Gauge,
      {{{}, number(stats.kv_disk_blocks)}});
  add("hasten:kv_disk_bytes_total", "Bytes of keys and values, read from disk and written.",
      MetricType::Counter,
      {{{"direction", "read"}, number(stats.kv_disk_read_bytes)},
       {{"direction", "written"}, number(stats.kv_disk_written_bytes)}});
  add("hasten:kv_disk_lost_blocks_total",
      "Blocks that were damaged on disk, and those that came faster than they could be written.",
      MetricType::Counter,
      {{{"reason", "corrupt"}, number(stats.kv_disk_corrupt_blocks)},
       {{"reason", "dropped"}, number(stats.kv_disk_dropped_blocks)}});
  add("vllm:request_success_total", "Ended generations by reason.", MetricType::Counter,
      {{{"finished_reason", "stop"}, number(stats.finished_stop)},
       {{"finished_reason", "length"}, number(stats.finished_length)},
       {{"finished_reason", "abort"}, number(stats.finished_cancelled)},
       {{"finished_reason", "deadline"}, number(stats.finished_deadline)},
       {{"finished_reason", "error"}, number(stats.finished_error)}});
  add("hasten:engine_steps_total", "Steps of the engine.", MetricType::Counter,
      {{{}, number(stats.steps)}});
  add("hasten:preempted_tokens_total", "Computed tokens of preempted sequences.",
      MetricType::Counter, {{{}, number(stats.preempted_tokens)}});
  add("hasten:resumed_tokens_total",
      "Tokens in the cache, whoever computed them, when those went on.", MetricType::Counter,
      {{{}, number(stats.resumed_tokens)}});
  add("hasten:engine_rejections_total", "Requests that the engine refused, by reason.",
      MetricType::Counter,
      {{{"reason", "queue_requests"}, number(stats.rejected_requests)},
       {{"reason", "queue_tokens"}, number(stats.rejected_tokens)},
       {{"reason", "tenant_share"}, number(stats.rejected_tenant)},
       {{"reason", "other"},
        number(stats.rejected - stats.rejected_requests - stats.rejected_tokens -
               stats.rejected_tenant)}});
  return prometheus::TextSerializer().Serialize(families);
}

namespace {

/// Counts since the server started: what the engine was asked before is no traffic.
Stats since(const Stats& start, Stats now) {
  now.steps -= start.steps;
  now.preemptions -= start.preemptions;
  now.preempted_tokens -= start.preempted_tokens;
  now.resumed_tokens -= start.resumed_tokens;
  now.prefix_cache_queries -= start.prefix_cache_queries;
  now.prefix_cache_hits -= start.prefix_cache_hits;
  now.kv_disk_queries -= start.kv_disk_queries;
  now.kv_disk_hits -= start.kv_disk_hits;
  now.kv_disk_read_bytes -= start.kv_disk_read_bytes;
  now.kv_disk_written_bytes -= start.kv_disk_written_bytes;
  now.kv_disk_corrupt_blocks -= start.kv_disk_corrupt_blocks;
  now.kv_disk_dropped_blocks -= start.kv_disk_dropped_blocks;
  now.prompt_tokens -= start.prompt_tokens;
  now.generated_tokens -= start.generated_tokens;
  now.finished_stop -= start.finished_stop;
  now.finished_length -= start.finished_length;
  now.finished_cancelled -= start.finished_cancelled;
  now.finished_deadline -= start.finished_deadline;
  now.finished_error -= start.finished_error;
  now.rejected -= start.rejected;
  now.rejected_requests -= start.rejected_requests;
  now.rejected_tokens -= start.rejected_tokens;
  now.rejected_tenant -= start.rejected_tenant;
  return now;
}

}  // namespace

Task<> show_metrics(Context& context, Exchange& exchange) {
  HttpResponse response{
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .body = context.metrics.text(since(context.stats_at_start, context.engine.stats()))};
  co_await exchange.respond(std::move(response));
}

}  // namespace hasten::server
