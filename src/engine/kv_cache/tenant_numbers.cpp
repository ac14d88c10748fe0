// SPDX-License-Identifier: Apache-2.0
// Handing out the numbers of tenants and taking them back.
#include "engine/kv_cache/tenant_numbers.h"

#include "base/error.h"

namespace hasten::engine {

int32_t TenantNumbers::join(std::string_view name) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) {
    refer(known->second);
    return known->second;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(tenants_.size()));
    tenants_.emplace_back();
  }
  const int32_t number = free_.back();
  free_.pop_back();
  at(number) = {.num_references = 1, .name = &numbers_.emplace(name, number).first->first};
  return number;
}

void TenantNumbers::leave(int32_t number) {
  Tenant& tenant = at(number);
  HASTEN_CHECK(tenant.num_references > 0);
  if (--tenant.num_references > 0) return;
  numbers_.erase(numbers_.find(*tenant.name));
  free_.push_back(number);
}

}  // namespace hasten::engine
