// SPDX-License-Identifier: Apache-2.0
// The counters of tenants: charged, lifted on return, and forgotten when that changes nothing.
#include "engine/scheduler/tenant_service.h"

#include <gtest/gtest.h>

#include <string>

#include "hasten/error.h"

namespace hasten::engine {
namespace {

double counter(const TenantService& service, int32_t tenant) {
  return service.counters()[static_cast<size_t>(tenant)];
}

/// A sequence of a tenant that waits, runs, takes so much input, and goes.
int32_t serve(TenantService& service, const std::string& tenant, int64_t input_tokens) {
  const int32_t index = service.join(tenant);
  service.admit(index);
  service.charge(index, input_tokens, 0);
  service.leave(index, false);
  return index;
}

TEST(TenantService, ChargesByTheWeights) {
  TenantService service({.input = 1, .output = 2});
  const int32_t a = service.join("a");
  const int32_t b = service.join("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(service.join("a"), a);
  service.charge(a, 10, 3);
  service.charge(b, 0, 1);
  EXPECT_EQ(counter(service, a), 16);
  EXPECT_EQ(counter(service, b), 2);
}

TEST(TenantService, LiftsWhoReturnsToTheLeastOfThoseThatWait) {
  TenantService service;
  const int32_t a = service.join("a");
  const int32_t b = service.join("b");
  service.charge(a, 100, 0);
  service.charge(b, 70, 0);
  const int32_t c = service.join("c");
  EXPECT_EQ(counter(service, c), 70);
  // More of the same who wait already changes nothing.
  service.charge(a, 100, 0);
  service.charge(b, 100, 0);
  service.join("c");
  EXPECT_EQ(counter(service, c), 70);
  // Nor does a return of one who has had more.
  service.admit(a);
  service.join("a");
  EXPECT_EQ(counter(service, a), 200);
}

TEST(TenantService, LiftsToTheLastThatWaitedWhenNothingWaits) {
  TenantService service;
  const int32_t a = service.join("a");
  service.admit(a);
  service.charge(a, 50, 0);  // while it runs
  const int32_t b = service.join("b");
  EXPECT_EQ(counter(service, b), 50);
  service.leave(b, true);
  service.leave(a, false);
  const int32_t c = service.join("c");  // both are forgotten by then
  EXPECT_EQ(service.num_tenants(), 1);
  EXPECT_EQ(counter(service, c), 50);
}

TEST(TenantService, WhatIsPreemptedIsNotLifted) {
  TenantService service;
  const int32_t a = service.join("a");
  const int32_t b = service.join("b");
  service.admit(a);
  service.charge(b, 30, 0);
  service.requeue(a);
  EXPECT_EQ(counter(service, a), 0);
}

TEST(TenantService, ForgetsWhoWouldBeLiftedAnyway) {
  TenantService service;
  const int32_t waiting = service.join("waiting");
  service.charge(waiting, 10, 0);
  serve(service, "rich", 1000);
  for (int i = 0; i < 100; ++i) {
    serve(service, "t" + std::to_string(i), 1);
    service.charge(waiting, 1, 0);
  }
  EXPECT_LE(service.num_tenants(), 4);
  EXPECT_EQ(counter(service, service.join("rich")), 1010);
}

TEST(TenantService, RemembersABoundedNumberOfDebtors) {
  TenantService service({}, 8);
  service.join("");  // waits at 0, so that whoever was served stands above the least
  const int32_t richest = serve(service, "richest", 1'000'000);
  for (int i = 0; i < 1000; ++i) serve(service, "t" + std::to_string(i), 1000 + i);
  EXPECT_LE(service.num_tenants(), 8 + 2 + 1);
  EXPECT_EQ(service.join("richest"), richest);
  EXPECT_EQ(counter(service, richest), 1'000'000);
  EXPECT_EQ(counter(service, service.join("t0")), 0);  // had the least
  EXPECT_EQ(counter(service, service.join("t999")), 1999);
}

TEST(TenantService, ForgetsWhatManyThatLeftTogetherLeaveBehind) {
  TenantService service({}, 8);
  service.join("");  // waits at 0, so that whoever was served stands above the least
  std::vector<int32_t> crowd;
  for (int i = 0; i < 3000; ++i) crowd.push_back(service.join("t" + std::to_string(i)));
  for (const int32_t tenant : crowd) {
    service.admit(tenant);
    service.charge(tenant, 100, 0);
    service.leave(tenant, false);
  }
  service.join("newcomer");
  EXPECT_LE(service.num_tenants(), 8 / 2 + 2);
}

TEST(TenantService, RefusesToCountBelowNothing) {
  TenantService service;
  const int32_t a = service.join("a");
  EXPECT_THROW(service.leave(a, false), Error);
  service.admit(a);
  EXPECT_THROW(service.admit(a), Error);
}

}  // namespace
}  // namespace hasten::engine
