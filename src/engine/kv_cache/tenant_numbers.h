// SPDX-License-Identifier: Apache-2.0
// TenantNumbers: small numbers for the tenants that have something in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hasten::engine {

/// A number is its tenant's for as long as anybody refers to it, and then the next newcomer's; so
/// there are never more numbers than references, however many names come and go. One thread.
class TenantNumbers {
 public:
  /// A reference to the number of a tenant.
  [[nodiscard]] int32_t join(std::string_view name);
  /// Another one.
  void refer(int32_t number) { ++at(number).num_references; }
  /// Gives one back.
  void leave(int32_t number);

  /// Tenants that have a number.
  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }

 private:
  struct Tenant {
    int64_t num_references = 0;
    const std::string* name = nullptr;  // in numbers_
  };

  Tenant& at(int32_t number) { return tenants_[static_cast<size_t>(number)]; }

  std::map<std::string, int32_t, std::less<>> numbers_;  // by name, which clients choose
  std::vector<Tenant> tenants_;                          // by number
  std::vector<int32_t> free_;                            // numbers; the last one goes next
};

}  // namespace hasten::engine
