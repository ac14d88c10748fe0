// SPDX-License-Identifier: Apache-2.0
// Admission: how much may wait, in requests and in tokens, and how much of that for one tenant.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace hasten::engine {

struct AdmissionLimits {
  int64_t requests = 256;   // that wait
  int64_t tokens = 0;       // of those; 0: any number
  double tenant_share = 1;  // (0, 1], of both for one tenant
};

/// Requests refused so far, by what there was too much of.
struct Refusals {
  int64_t requests = 0;
  int64_t tokens = 0;
  int64_t tenant = 0;  // of one tenant's

  int64_t total() const { return requests + tokens + tenant; }
};

/// Counts what waits. Any thread.
class Admission {
 public:
  /// What one request takes of the queue, given back when it goes. Must not outlive its Admission.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) noexcept;
    ~Place();

   private:
    friend class Admission;
    Place(Admission& admission, std::string_view tenant, int64_t tokens)
        : admission_(&admission), tenant_(tenant), tokens_(tokens) {}

    Admission* admission_ = nullptr;
    std::string tenant_;
    int64_t tokens_ = 0;
  };

  /// `tell` gets a line for the operator at the first refusal and once a minute at most after it,
  /// by default the log; `now_us` is the time.
  using Tell = std::function<void(const std::string& line)>;
  using Now = std::function<int64_t()>;
  explicit Admission(const AdmissionLimits& limits, Tell tell = warn, Now now_us = monotonic_us)
      : limits_(limits), tell_(std::move(tell)), now_us_(std::move(now_us)) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// A place for a request of so many tokens. Throws Error{resource_exhausted} that says what of
  /// the queue is used up. Where nothing waits, any request has a place, and a tenant of which
  /// nothing waits always has its share: what is larger than a limit would never be answered.
  [[nodiscard]] Place enter(std::string_view tenant, int64_t tokens);

  int64_t num_waiting() const;
  Refusals refusals() const;

 private:
  struct Held {
    int64_t requests = 0;
    int64_t tokens = 0;
  };

  /// What there is too much of; `whose` stands before "requests".
  using Reason = std::function<std::string(std::string_view whose)>;

  static void warn(const std::string& line);
  /// Counts and throws, with the reason for whoever asks; the operator is told at times, and of
  /// the tenant and the flag that allows more.
  [[noreturn]] void refuse(int64_t& count, const Reason& reason, std::string_view flag,
                           std::string_view tenant);
  void check_queue(std::string_view tenant, int64_t tokens);
  void check_tenant(std::string_view tenant, const Held& held, int64_t tokens);
  void leave(const std::string& tenant, int64_t tokens);

  const AdmissionLimits limits_;
  const Tell tell_;
  const Now now_us_;
  mutable std::mutex mutex_;  // guards what follows
  Held all_;
  // Those of which something waits. Names are clients': in a hash table, they could all be chosen
  // to have one hash.
  std::map<std::string, Held, std::less<>> tenants_;
  Refusals refusals_;
  std::optional<int64_t> told_us_ = {};  // when the operator was told last
};

}  // namespace hasten::engine
