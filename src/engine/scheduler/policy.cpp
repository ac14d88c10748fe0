// SPDX-License-Identifier: Apache-2.0
// The table of policies.
#include "engine/scheduler/policy.h"

#include <array>
#include <string>

#include "base/error.h"

namespace hasten::engine {

const Policy& find_policy(std::string_view name) {
  static constexpr std::array kPolicies = {&kFcfsPolicy};
  std::string known;
  for (const Policy* policy : kPolicies) {
    if (policy->name == name) return *policy;
    known += (known.empty() ? "" : ", ") + std::string(policy->name);
  }
  fail_param("policy", "unknown policy '{}'; known: {}", name, known);
}

}  // namespace hasten::engine
