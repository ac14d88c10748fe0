// SPDX-License-Identifier: Apache-2.0
// The bounds of the queue: in requests, in tokens, and for one tenant.
#include "engine/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/names_of_one_hash_test.h"
#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Why a request is refused; empty: it is not, and then its place is kept in `places`.
std::string refusal(Admission& admission, std::vector<Admission::Place>& places,
                    const std::string& tenant, int64_t tokens) {
  try {
    places.push_back(admission.enter(tenant, tokens));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    return error.what();
  }
}

TEST(Admission, BoundsRequests) {
  Admission admission({.requests = 2});
  std::vector<Admission::Place> places;
  EXPECT_EQ(refusal(admission, places, "a", 1'000'000), "");
  EXPECT_EQ(refusal(admission, places, "a", 1), "");
  EXPECT_THAT(refusal(admission, places, "b", 1), HasSubstr("2 requests wait already"));
  EXPECT_EQ(admission.num_waiting(), 2);
  places.pop_back();
  EXPECT_EQ(admission.num_waiting(), 1);
  EXPECT_EQ(refusal(admission, places, "b", 1), "");
  EXPECT_EQ(admission.refusals().requests, 1);
}

TEST(Admission, BoundsTokensButNotWhereNothingWaits) {
  Admission admission({.requests = 100, .tokens = 50});
  std::vector<Admission::Place> places;
  EXPECT_EQ(refusal(admission, places, "a", 60), "");
  EXPECT_THAT(refusal(admission, places, "a", 1),
              HasSubstr("60 tokens wait already and this one has 1; the queue holds 50"));
  places.clear();
  EXPECT_EQ(refusal(admission, places, "a", 20), "");
  EXPECT_EQ(refusal(admission, places, "a", 30), "");
  EXPECT_NE(refusal(admission, places, "b", 1), "");
  EXPECT_EQ(admission.refusals().tokens, 2);
}

TEST(Admission, LeavesRoomForOtherTenants) {
  Admission admission({.requests = 10, .tokens = 100, .tenant_share = 0.3});
  std::vector<Admission::Place> places;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(refusal(admission, places, "many", 5), "");
  const std::string many = refusal(admission, places, "many", 5);
  EXPECT_THAT(many, HasSubstr("3 of your requests wait already"));
  EXPECT_THAT(many, HasSubstr("Retry-After says), and send fewer"));
  EXPECT_THAT(many, Not(HasSubstr("'many'"))) << "a server's name of a key says nothing to clients";
  // In tokens: 30 of them, or one request however large.
  EXPECT_EQ(refusal(admission, places, "long", 25), "");
  EXPECT_THAT(refusal(admission, places, "long", 6), HasSubstr("one key may have 30 there"));
  EXPECT_EQ(refusal(admission, places, "long", 5), "");
  EXPECT_EQ(refusal(admission, places, "large", 40), "");
  EXPECT_EQ(admission.refusals().tenant, 2);
  EXPECT_EQ(admission.refusals().total(), 2);
}

TEST(Admission, TellsTheOperatorInTheThirdPersonOnceAMinute) {
  std::vector<std::string> lines;
  int64_t now_us = 0;
  const auto tell = [&](const std::string& line) { lines.push_back(line); };
  Admission admission({.requests = 10, .tokens = 20, .tenant_share = 0.3}, tell,
                      [&] { return now_us; });
  std::vector<Admission::Place> places;
  for (const char* tenant : {"a\nb", ""}) EXPECT_EQ(refusal(admission, places, tenant, 5), "");
  EXPECT_THAT(refusal(admission, places, "a\nb", 2), HasSubstr("your requests of 5 tokens wait"));
  now_us += 59'999'999;
  EXPECT_NE(refusal(admission, places, "", 2), "");
  EXPECT_EQ(lines.size(), 1U);
  now_us += 1;
  EXPECT_NE(refusal(admission, places, "", 2), "");
  now_us += 60'000'000;
  EXPECT_NE(refusal(admission, places, "b", 11), "");
  EXPECT_THAT(lines,
              ::testing::ElementsAre(
                  HasSubstr("b\" is refused: its requests of 5 tokens wait already and this "
                            "one has 2; one key may have 6 there; --tenant-share allows"),
                  StartsWith("a request is refused: such requests of 5 tokens wait"),
                  StartsWith("a request of tenant \"b\" is refused: requests of 10 tokens")));
  EXPECT_THAT(lines, ::testing::Each(Not(HasSubstr("your"))));
  EXPECT_THAT(lines, ::testing::Each(Not(HasSubstr("\n"))));
}

TEST(Admission, PlacesMoveAndAreGivenBackOnce) {
  Admission admission({.requests = 2});
  Admission::Place first = admission.enter("a", 1);
  Admission::Place second = std::move(first);
  EXPECT_EQ(admission.num_waiting(), 1);
  second = {};
  EXPECT_EQ(admission.num_waiting(), 0);
}

TEST(Admission, TenantsOfOneHashCostNoMore) {
  const auto same = names_of_one_hash(20'000, true), other = names_of_one_hash(20'000, false);
  const auto time = [](const std::vector<std::string>& tenants) {
    Admission admission({.requests = 20'000, .tenant_share = 0.5});
    std::vector<Admission::Place> places;
    places.reserve(tenants.size());
    const std::clock_t start = std::clock();  // of the processor: others may be busy beside
    for (const std::string& tenant : tenants) places.push_back(admission.enter(tenant, 1));
    places.clear();
    return std::clock() - start;
  };
  (void)time(other);
  const auto usual = std::min({time(other), time(other), time(other)});
  EXPECT_LT(std::min({time(same), time(same), time(same)}), 8 * usual);
}

}  // namespace
}  // namespace hasten::engine
