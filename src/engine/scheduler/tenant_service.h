// SPDX-License-Identifier: Apache-2.0
// TenantService: how much service each tenant has had, as virtual token counters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hasten::engine {

/// What a token costs, in units of service. The defaults are those of the virtual token counter
/// (Sheng et al., Fairness in serving large language models, 2024): an output token counts twice.
struct ServiceWeights {
  double input = 1.0;   // of a prompt's token
  double output = 2.0;  // of a generated one
};

/// A counter for each tenant, in units of service (Sheng et al., 2024). A tenant of which nothing
/// has waited is lifted to the smallest counter of those that wait when it comes again, so that
/// nobody saves up service by asking for none.
///
/// A tenant of which nothing waits or runs is forgotten once it would be lifted anyway. When a new
/// one comes and there are `max_idle` others, all but half as many are, those that have had the
/// least, whose debt is the smallest: then names that are made up for each request neither fill
/// memory nor slow the queue down. One thread.
class TenantService {
 public:
  explicit TenantService(const ServiceWeights& weights = {}, size_t max_idle = 1024)
      : weights_(weights), max_idle_(max_idle) {}

  /// A sequence of `tenant` begins to wait for the first time. Returns the tenant's index, which is
  /// its own until the last of its sequences has left.
  int32_t join(std::string_view tenant);
  /// One of those that wait runs.
  void admit(int32_t tenant);
  /// One of those that run waits again.
  void requeue(int32_t tenant);
  /// One of those that wait, or run, goes for good.
  void leave(int32_t tenant, bool waits);
  /// So many tokens of a prompt were computed for a tenant, and so many of an answer.
  void charge(int32_t tenant, int64_t input_tokens, int64_t output_tokens);

  /// Units of service of each tenant, by index. Valid until the next `join`.
  std::span<const double> counters() const { return counters_; }
  /// Tenants that are known, idle ones included.
  size_t num_tenants() const { return indices_.size(); }

 private:
  struct Tenant {
    std::string name;
    int64_t num_waiting = 0;
    int64_t num_running = 0;
    bool is_idle() const { return num_waiting + num_running == 0; }
  };

  Tenant& at(int32_t tenant) { return tenants_[static_cast<size_t>(tenant)]; }
  double& counter(int32_t tenant) { return counters_[static_cast<size_t>(tenant)]; }
  int32_t add(std::string_view name);
  bool is_known(int32_t tenant) const;
  double least() const;
  void stop_waiting(int32_t tenant);
  void forget_idle();
  void forget(int32_t tenant);

  const ServiceWeights weights_;
  const size_t max_idle_;
  std::vector<Tenant> tenants_;  // by index
  std::vector<double> counters_;
  std::vector<int32_t> free_;                            // indices of nobody
  std::map<std::string, int32_t, std::less<>> indices_;  // by name, which clients choose
  std::vector<int32_t> idle_;                            // while some are forgotten
  // The tenant that was the last to have something waiting, or -1, and then what its counter was.
  int32_t last_ = -1;
  double last_counter_ = 0;
};

}  // namespace hasten::engine
