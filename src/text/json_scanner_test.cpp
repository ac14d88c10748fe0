// SPDX-License-Identifier: Apache-2.0
// Tests of the scanner that finds the end of a JSON value as it comes.
#include "text/json_scanner.h"

#include <gtest/gtest.h>

#include <string>

namespace hasten::text {
namespace {

/// "done", "broken" or "more" after the whole text.
std::string scanned(std::string_view text) {
  JsonScanner scanner;
  auto status = JsonScanner::Status::more;
  for (const char c : text) status = scanner.feed(c);
  return status == JsonScanner::Status::done     ? "done"
         : status == JsonScanner::Status::broken ? "broken"
                                                 : "more";
}

TEST(JsonScanner, FollowsTheGrammar) {
  for (const char* text : {"{}", "[]", "{\"a\": [1, -2.5e+3, true, null, \"\\u00e9\\n\"]}", "\"x\"",
                           " [ [ ] , { } ] "})
    EXPECT_NE(scanned(text), "broken") << text;
  EXPECT_EQ(scanned("{\"a\": {\"b\": [0]}}"), "done");
  for (const char* text : {"{", "[1", "{\"a\"", "{\"a\":", "[1,", "\"x"})
    EXPECT_EQ(scanned(text), "more") << text;
  for (const char* text : {"{a", "[1,]", "{\"a\" 1", "{\"a\": 1,}", "[01]", "[1.]", "[+1]", "[tru]",
                           "[\"\\x", "[\"\\u00g", "[\"\n", "{]", "[}", "[1 2", "{,", "[1e]", "}"})
    EXPECT_EQ(scanned(text), "broken") << text;
  EXPECT_EQ(scanned(std::string(JsonScanner::kMaxDepth, '[')), "more");
  EXPECT_EQ(scanned(std::string(JsonScanner::kMaxDepth + 1, '[')), "broken");
}

}  // namespace
}  // namespace hasten::text
