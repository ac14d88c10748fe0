// SPDX-License-Identifier: Apache-2.0
// The arithmetic of latency and throughput, and how they are printed.
#include "workload/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/quantity.h"

namespace hasten::workload {
namespace {

// A workload may have any number of tenants: those beyond are told of together.
constexpr size_t kMaxTenants = 8;
constexpr std::string_view kOtherTenants = "(others)";

double to_ms(double us) { return us * 1e-3; }
double to_ms(int64_t us) { return static_cast<double>(us) * 1e-3; }

json::Object summary(const Distribution& values) {
  return {{"p50", to_ms(values.quantile(0.5))},  {"p90", to_ms(values.quantile(0.9))},
          {"p99", to_ms(values.quantile(0.99))}, {"mean", to_ms(values.mean())},
          {"max", to_ms(values.max())},          {"count", values.count()}};
}

/// Some four digits: "0.482", "48.2", "4820".
std::string ms_text(double ms) {
  return fmt::format("{:.{}f}", ms, ms < 9.9995 ? 3 : ms < 999.95 ? 1 : 0);
}

std::string row(std::string_view name, const Distribution& values, double best_ms) {
  return fmt::format("{:<14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", name,
                     ms_text(to_ms(values.quantile(0.5))), ms_text(to_ms(values.quantile(0.9))),
                     ms_text(to_ms(values.quantile(0.99))), ms_text(to_ms(values.mean())),
                     ms_text(to_ms(values.max())), best_ms > 0 ? ms_text(best_ms) : "");
}

}  // namespace

void Statistics::deliver(Answer& answer, int64_t now_us, int64_t count) {
  HASTEN_CHECK(count > 0);
  if (answer.first_us < 0) {
    answer.first_us = now_us;
  } else {
    answer.gaps_us.push_back(std::max<int64_t>(0, now_us - answer.last_us));
  }
  answer.last_us = now_us;
  answer.output_tokens += count;
}

void Statistics::span(const Answer& answer, int64_t now_us) {
  begin_us_ = begin_us_ < 0 ? answer.arrival_us : std::min(begin_us_, answer.arrival_us);
  end_us_ = std::max(end_us_, now_us);
}

void Statistics::finish(Answer& answer, int64_t now_us) {
  HASTEN_CHECK(answer.first_us >= 0 && answer.output_tokens > 0);
  span(answer, now_us);
  const int64_t ttft = std::max<int64_t>(0, answer.first_us - answer.arrival_us);
  const int64_t e2e = std::max<int64_t>(0, now_us - answer.arrival_us);
  ttft_.add(ttft);
  for (const int64_t gap : std::exchange(answer.gaps_us, {})) tbt_.add(gap);
  e2e_.add(e2e);
  if (!answer.tenant.empty()) e2e_of(answer.tenant).add(e2e);
  normalized_.add(e2e / answer.output_tokens);
  int64_t tpot = 0;
  if (answer.output_tokens > 1) {
    tpot = (answer.last_us - answer.first_us) / (answer.output_tokens - 1);
    tpot_.add(tpot);
  }
  if (answer.program_us >= 0) program_.add(now_us - answer.program_us);
  num_due_ += answer.deadline_us > 0 ? 1 : 0;
  num_met_ += answer.deadline_us > 0 && e2e <= answer.deadline_us ? 1 : 0;
  prompt_tokens_ += answer.prompt_tokens;
  cached_tokens_ += answer.cached_tokens;
  output_tokens_ += answer.output_tokens;
  const auto keeps = [](int64_t us, double target_ms) {
    return target_ms <= 0 || to_ms(us) <= target_ms;
  };
  if (keeps(ttft, targets_.ttft_ms) && keeps(tpot, targets_.tpot_ms) && keeps(e2e, targets_.e2e_ms))
    ++num_good_;
}

Distribution& Statistics::e2e_of(std::string_view tenant) {
  const auto found = tenants_.find(tenant);
  if (found != tenants_.end()) return found->second;
  return tenants_[std::string(tenants_.size() < kMaxTenants ? tenant : kOtherTenants)];
}

void Statistics::fail(const Answer& answer, int64_t now_us, std::string_view kind) {
  span(answer, now_us);
  ++num_failed_;
  num_due_ += answer.deadline_us > 0 ? 1 : 0;
  const auto found = failures_.find(kind);
  if (found != failures_.end()) {
    ++found->second;
  } else {
    failures_.emplace(kind, 1);
  }
}

double Statistics::seconds() const {
  return begin_us_ < 0 ? 0 : static_cast<double>(std::max<int64_t>(1, end_us_ - begin_us_)) * 1e-6;
}

double Statistics::per_second(int64_t count) const {
  return begin_us_ < 0 ? 0 : static_cast<double>(count) / seconds();
}

double Statistics::output_tokens_per_second() const { return per_second(output_tokens_); }

double Statistics::per_answer(int64_t count) const {
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, num_finished()));
}

double Statistics::mean_prompt_tokens() const { return per_answer(prompt_tokens_); }

double Statistics::mean_cached_tokens() const { return per_answer(cached_tokens_); }

double Statistics::mean_output_tokens() const { return per_answer(output_tokens_); }

json::Object Statistics::to_json(const BestCase& best) const {
  json::Object failures;
  for (const auto& [kind, count] : failures_) failures[kind] = count;
  json::Object object = {{"requests", num_finished() + num_failed_},
                         {"finished", num_finished()},
                         {"failed", num_failed_},
                         {"failures", std::move(failures)},
                         {"duration_seconds", seconds()},
                         {"requests_per_second", per_second(num_finished())},
                         {"prompt_tokens", prompt_tokens_},
                         {"cached_tokens", cached_tokens_},
                         {"output_tokens", output_tokens_},
                         {"prompt_tokens_per_second", per_second(prompt_tokens_)},
                         {"output_tokens_per_second", output_tokens_per_second()},
                         {"ttft_ms", summary(ttft_)},
                         {"tbt_ms", summary(tbt_)},
                         {"tpot_ms", summary(tpot_)},
                         {"normalized_latency_ms", summary(normalized_)},
                         {"e2e_ms", summary(e2e_)}};
  if (targets_.any()) {
    object["targets"] = json::Object{
        {"ttft_ms", targets_.ttft_ms}, {"tpot_ms", targets_.tpot_ms}, {"e2e_ms", targets_.e2e_ms}};
    object["good"] = num_good_;
    object["goodput_requests_per_second"] = per_second(num_good_);
  }
  if (num_due_ > 0) object["deadlines"] = json::Object{{"asked", num_due_}, {"met", num_met_}};
  if (tenants_.size() > 1) {
    json::Object& tenants = object["tenants"].emplace_object();
    for (const auto& [name, e2e] : tenants_) tenants[name] = json::Object{{"e2e_ms", summary(e2e)}};
  }
  if (program_.count() > 0)
    object["programs"] = json::Object{{"finished", program_.count()}, {"ms", summary(program_)}};
  if (lateness_.count() > 0) object["sent_late_ms"] = summary(lateness_);
  if (best.output_tokens_per_second > 0) {
    object["limits"] = json::Object{{"ttft_ms", best.ttft_ms},
                                    {"tpot_ms", best.tpot_ms},
                                    {"output_tokens_per_second", best.output_tokens_per_second}};
    object["fraction"] = output_tokens_per_second() / best.output_tokens_per_second;
  }
  return object;
}

std::string Statistics::to_text(const BestCase& best) const {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} answered in {:.1f} s: {:.2f} a second\n",
                 counted(num_finished(), "request"), seconds(), per_second(num_finished()));
  if (num_failed_ > 0) {
    fmt::format_to(out, "{} failed:", num_failed_);
    const char* comma = "";
    for (const auto& [kind, count] : failures_) {
      fmt::format_to(out, "{} {} ({})", comma, kind, count);
      comma = ",";
    }
    text += '\n';
  }
  if (num_finished() > 0) {
    fmt::format_to(out, "{} in, {} of them from the cache; {} out\n",
                   counted(prompt_tokens_, "token"), cached_tokens_, output_tokens_);
    fmt::format_to(out, "{:.1f} prompt and {:.1f} output tokens/s", per_second(prompt_tokens_),
                   output_tokens_per_second());
    if (best.output_tokens_per_second > 0) {
      fmt::format_to(out, " (limit of output tokens for this work {:.1f}: {:.0f} %{})",
                     best.output_tokens_per_second,
                     100 * output_tokens_per_second() / best.output_tokens_per_second,
                     best.is_open_loop ? "; an open loop answers no more than arrives" : "");
    }
    text += '\n';
  }
  if (targets_.any()) {
    fmt::format_to(out, "{} kept the targets: goodput {:.2f} requests/s\n", num_good_,
                   per_second(num_good_));
  }
  if (num_due_ > 0) fmt::format_to(out, "{} of {} deadlines met\n", num_met_, num_due_);
  if (lateness_.count() > 0 && lateness_.quantile(0.99) > 5000) {
    fmt::format_to(out,
                   "1 % of the requests were sent more than {} ms late: this side is too slow, "
                   "and the latencies below include it\n",
                   ms_text(to_ms(lateness_.quantile(0.99))));
  }
  if (num_finished() == 0) return text;
  fmt::format_to(out, "\n{:<14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "ms", "p50", "p90",
                 "p99", "mean", "max", best.ttft_ms > 0 ? "limit" : "");
  text += row("TTFT", ttft_, best.ttft_ms);
  text += row("TBT", tbt_, best.tpot_ms);
  text += row("TPOT", tpot_, best.tpot_ms);
  text += row("per token", normalized_, 0);
  text += row("end to end", e2e_, 0);
  if (tenants_.size() > 1)
    for (const auto& [name, e2e] : tenants_)
      text += row(fmt::format("  of {}", printable(name, 8)), e2e, 0);
  if (program_.count() > 0) text += row("program", program_, 0);
  return text;
}

}  // namespace hasten::workload
