// SPDX-License-Identifier: Apache-2.0
// The bounds of the queue.
#include "engine/admission.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hasten::engine {
namespace {

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
  check_queue(tokens);
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

void Admission::check_queue(int64_t tokens) {
  if (all_.requests >= limits_.requests) {
    ++refusals_.requests;
    fail(ErrorCode::resource_exhausted,
         "{} requests wait already, as many as the queue holds: try again later or raise "
         "--max-queue",
         all_.requests);
  }
  if (limits_.tokens > 0 && all_.requests > 0 && tokens > limits_.tokens - all_.tokens) {
    ++refusals_.tokens;
    fail(ErrorCode::resource_exhausted,
         "requests of {} tokens wait already and this one has {}; the queue holds {}: try again "
         "later or raise --max-queue-tokens",
         all_.tokens, tokens, limits_.tokens);
  }
}

void Admission::check_tenant(std::string_view tenant, const Held& held, int64_t tokens) {
  const int64_t requests = share_of(limits_.requests, limits_.tenant_share);
  if (held.requests >= requests) {
    ++refusals_.tenant;
    fail(ErrorCode::resource_exhausted,
         "{} requests of tenant '{}' wait already, as many as one tenant may have there: try again "
         "later or raise --tenant-share",
         held.requests, tenant);
  }
  const int64_t most = share_of(limits_.tokens, limits_.tenant_share);
  if (limits_.tokens > 0 && tokens > most - held.tokens) {
    ++refusals_.tenant;
    fail(ErrorCode::resource_exhausted,
         "requests of {} tokens of tenant '{}' wait already and this one has {}; one tenant may "
         "have {} there: try again later or raise --tenant-share",
         held.tokens, tenant, tokens, most);
  }
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
