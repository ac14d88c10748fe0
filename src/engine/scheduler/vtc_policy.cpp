// SPDX-License-Identifier: Apache-2.0
// Fair shares by virtual token counters (Sheng et al., Fairness in serving large language models,
// 2024): the tenant that has had the least service is next.
#include "base/error.h"
#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// What a tenant has had; equal ranks, such as those of one tenant, go by order of arrival. None
/// starves for another one, as counters only grow, and a tenant that comes again begins at the
/// smallest of them. But for an endless stream of new tenants it would: each is entitled to as much
/// as one that waits has had already.
double service_of_tenant(const Sequence& sequence, const QueueView& view) {
  const auto tenant = static_cast<size_t>(sequence.tenant_index);
  HASTEN_CHECK(tenant < view.tenant_service.size());
  return view.tenant_service[tenant];
}

}  // namespace

const Policy kVtcPolicy = {
    .name = "vtc",
    .summary = "fair shares: the tenant that has had the least service first",
    .rank = service_of_tenant,
    .displaces = nullptr,
    .by_tenant = true,
    .ages = false};

}  // namespace hasten::engine
