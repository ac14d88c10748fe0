// SPDX-License-Identifier: Apache-2.0
// The bounds of the queue.
#include "engine/admission.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/quantity.h"

namespace hasten::engine {
namespace {

// A flood is told of at its beginning, and not with a line for each request.
constexpr int64_t kTellUs = 60'000'000;

/// A tenant's part of a limit, at least 1.
int64_t share_of(int64_t limit, double share) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(limit) * share));
}

}  // namespace

Admission::Place::Place(Place&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)),
      tenant_(std::move(other.tenant_)),
      tokens_(other.tokens_) {}

Admission::Place& Admission::Place::operator=(Place&& other) noexcept {
  std::swap(admission_, other.admission_);
  std::swap(tenant_, other.tenant_);
  std::swap(tokens_, other.tokens_);
  return *this;
}

Admission::Place::~Place() {
  if (admission_ != nullptr) admission_->leave(tenant_, tokens_);
}

Admission::Place Admission::enter(std::string_view tenant, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  check_queue(tenant, tokens);
  const auto found = tenants_.find(tenant);
  if (found != tenants_.end() && limits_.tenant_share < 1)
    check_tenant(tenant, found->second, tokens);
  Place place(*this, tenant, tokens);
  Held& own = tenants_[std::string(tenant)];
  for (Held* held : {&all_, &own}) {
    ++held->requests;
    held->tokens += tokens;
  }
  return place;
}

void Admission::warn(const std::string& line) { log::warn("{}", line); }

void Admission::refuse(int64_t& count, const Reason& reason, std::string_view flag,
                       std::string_view tenant) {
  ++count;
  const int64_t now_us = now_us_();
  if (!told_us_ || now_us - *told_us_ >= kTellUs) {
    told_us_ = now_us;
    const bool is_named = !tenant.empty();
    tell_(fmt::format("a request{} is refused: {}; {} allows more (told once a minute at most)",
                      is_named ? fmt::format(" of tenant {}", printable(tenant)) : "",
                      reason(is_named ? "its" : "such"), flag));
  }
  fail(ErrorCode::resource_exhausted,
       "{}: wait (over HTTP as long as Retry-After says), and send fewer at a time",
       reason("your"));
}

void Admission::check_queue(std::string_view tenant, int64_t tokens) {
  if (all_.requests >= limits_.requests)
    refuse(
        refusals_.requests,
        [&](std::string_view) {
          return fmt::format("{} {} already, as many as the queue holds",
                             counted(all_.requests, "request"),
                             all_.requests == 1 ? "waits" : "wait");
        },
        "--max-queue", tenant);
  if (limits_.tokens > 0 && all_.requests > 0 && tokens > limits_.tokens - all_.tokens)
    refuse(
        refusals_.tokens,
        [&](std::string_view) {
          return fmt::format(
              "requests of {} tokens wait already and this one has {}; the queue holds {}",
              all_.tokens, tokens, limits_.tokens);
        },
        "--max-queue-tokens", tenant);
}

void Admission::check_tenant(std::string_view tenant, const Held& held, int64_t tokens) {
  if (held.requests >= share_of(limits_.requests, limits_.tenant_share))
    refuse(
        refusals_.tenant,
        [&](std::string_view whose) {
          return fmt::format("{} of {} requests wait already, as many as one key may have there",
                             held.requests, whose);
        },
        "--tenant-share", tenant);
  const int64_t most = share_of(limits_.tokens, limits_.tenant_share);
  if (limits_.tokens > 0 && tokens > most - held.tokens)
    refuse(
        refusals_.tenant,
        [&](std::string_view whose) {
          return fmt::format(
              "{} requests of {} tokens wait already and this one has {}; one key may have {} "
              "there",
              whose, held.tokens, tokens, most);
        },
        "--tenant-share", tenant);
}

void Admission::leave(const std::string& tenant, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  const auto own = tenants_.find(tenant);
  HASTEN_CHECK(own != tenants_.end());
  for (Held* held : {&all_, &own->second}) {
    --held->requests;
    held->tokens -= tokens;
  }
  if (own->second.requests == 0) tenants_.erase(own);
}

int64_t Admission::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return all_.requests;
}

Refusals Admission::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

}  // namespace hasten::engine
