// SPDX-License-Identifier: Apache-2.0
// Admission: how much may wait, in requests and in tokens, and how much of that for one tenant.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

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

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}
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

  /// Counts and throws: `what` there is too much of, to whoever asks; the log has at times whose it
  /// is, and the flag that allows more.
  [[noreturn]] void refuse(int64_t& count, const std::string& what, std::string_view flag,
                           std::string_view tenant);
  void check_queue(std::string_view tenant, int64_t tokens);
  void check_tenant(std::string_view tenant, const Held& held, int64_t tokens);
  void leave(const std::string& tenant, int64_t tokens);

  const AdmissionLimits limits_;
  mutable std::mutex mutex_;  // guards what follows
  Held all_;
  // Those of which something waits. Names are clients': in a hash table, they could all be chosen
  // to have one hash.
  std::map<std::string, Held, std::less<>> tenants_;
  Refusals refusals_;
  int64_t told_us_ = 0;  // when the log was told last; 0: never
};

}  // namespace hasten::engine
