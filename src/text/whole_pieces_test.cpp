// SPDX-License-Identifier: Apache-2.0
// Tests of the set of pieces that no step cuts.
#include "text/whole_pieces.h"

#include <gtest/gtest.h>

namespace hasten::text {
namespace {

// Clearing 8 KiB for each stretch of a few bytes would cost more than cutting those.
TEST(WholePieces, ShortTextsDoWithoutTheSet) {
  WholePieces pieces;
  const uint64_t key = WholePieces::key_of(2, "ab");
  for (int i = 0; i < 63; ++i) {
    pieces.add(key);
    ASSERT_FALSE(pieces.has(key)) << i;
  }
  pieces.add(key);
  EXPECT_TRUE(pieces.has(key));
  EXPECT_FALSE(pieces.has(WholePieces::key_of(1, "ab")));
}

}  // namespace
}  // namespace hasten::text
