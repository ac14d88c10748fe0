// SPDX-License-Identifier: Apache-2.0
// Lifting, charging and forgetting of virtual token counters.
#include "engine/scheduler/tenant_service.h"

#include <algorithm>

#include "base/error.h"

namespace hasten::engine {

int32_t TenantService::join(std::string_view tenant) {
  const auto known = indices_.find(tenant);
  const int32_t index = known != indices_.end() ? known->second : add(tenant);
  if (at(index).num_waiting == 0) counter(index) = std::max(counter(index), least());
  ++at(index).num_waiting;
  return index;
}

void TenantService::admit(int32_t tenant) {
  ++at(tenant).num_running;
  stop_waiting(tenant);
}

void TenantService::requeue(int32_t tenant) {
  HASTEN_CHECK(at(tenant).num_running > 0);
  --at(tenant).num_running;
  ++at(tenant).num_waiting;
}

void TenantService::leave(int32_t tenant, bool waits) {
  if (waits) return stop_waiting(tenant);
  HASTEN_CHECK(at(tenant).num_running > 0);
  --at(tenant).num_running;
}

void TenantService::charge(int32_t tenant, int64_t input_tokens, int64_t output_tokens) {
  counter(tenant) += weights_.input * static_cast<double>(input_tokens) +
                     weights_.output * static_cast<double>(output_tokens);
}

void TenantService::stop_waiting(int32_t tenant) {
  HASTEN_CHECK(at(tenant).num_waiting > 0);
  if (--at(tenant).num_waiting == 0) last_ = tenant;
}

bool TenantService::is_known(int32_t tenant) const {
  const auto found = indices_.find(tenants_[static_cast<size_t>(tenant)].name);
  return found != indices_.end() && found->second == tenant;
}

/// A tenant without service, at a free index.
int32_t TenantService::add(std::string_view name) {
  forget_idle();
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(tenants_.size()));
    tenants_.emplace_back();
    counters_.push_back(0);
  }
  const int32_t index = free_.back();
  free_.pop_back();
  at(index) = {.name = std::string(name)};
  counter(index) = 0;
  indices_.emplace(name, index);
  return index;
}

/// The smallest counter of the tenants that have something waiting. When nothing waits, that of the
/// last one that had.
double TenantService::least() const {
  bool any = false;
  double least = last_ < 0 ? last_counter_ : counters_[static_cast<size_t>(last_)];
  for (size_t i = 0; i < tenants_.size(); ++i) {
    if (tenants_[i].num_waiting == 0) continue;
    least = any ? std::min(least, counters_[i]) : counters_[i];
    any = true;
  }
  return least;
}

/// Forgets the idle tenants that lose nothing by it, and of the others those with the least service
/// that are too many.
void TenantService::forget_idle() {
  const double floor = least();
  idle_.clear();
  for (int32_t i = 0; i < static_cast<int32_t>(tenants_.size()); ++i) {
    if (!at(i).is_idle() || !is_known(i)) continue;
    if (counter(i) <= floor)
      forget(i);
    else
      idle_.push_back(i);
  }
  if (idle_.size() < max_idle_) return;
  // Many at once, so that not every newcomer has to look for one.
  const auto kept = idle_.end() - static_cast<std::ptrdiff_t>(max_idle_ / 2);
  std::ranges::nth_element(idle_, kept, {}, [&](int32_t i) { return counter(i); });
  std::for_each(idle_.begin(), kept, [&](int32_t i) { forget(i); });
}

void TenantService::forget(int32_t tenant) {
  if (last_ == tenant) {
    last_ = -1;
    last_counter_ = counter(tenant);
  }
  indices_.erase(at(tenant).name);
  free_.push_back(tenant);
  at(tenant) = {};
}

}  // namespace hasten::engine
