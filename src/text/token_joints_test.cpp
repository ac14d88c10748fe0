// SPDX-License-Identifier: Apache-2.0
// Joints against the definition: every place that some token reaches across must say so.
#include "text/token_joints.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hasten::text {
namespace {

std::string random_bytes(std::mt19937& random, size_t length) {
  static constexpr std::string_view kAlphabet = "ab\xE4\xB8\xAD";
  std::string bytes;
  for (size_t i = 0; i < length; ++i) bytes.push_back(kAlphabet[random() % kAlphabet.size()]);
  return bytes;
}

bool reaches_across(const std::vector<std::string>& tokens, const std::string& word, size_t at) {
  for (const std::string& token : tokens) {
    for (size_t begin = 0; begin < at; ++begin) {
      if (begin + token.size() > at && word.compare(begin, token.size(), token) == 0) return true;
    }
  }
  return false;
}

TEST(TokenJoints, NeverPartWhatATokenHolds) {
  std::mt19937 random(5);
  int parted = 0;
  for (int round = 0; round < 200; ++round) {
    TokenJoints joints;
    std::vector<std::string> tokens;
    for (int i = 0; i < 6; ++i) {
      tokens.push_back(random_bytes(random, 1 + random() % 6));
      joints.add(tokens.back());
    }
    for (int i = 0; i < 50; ++i) {
      const std::string word = random_bytes(random, 2 + random() % 12);
      for (size_t at = 1; at < word.size(); ++at) {
        if (joints.may_join(word, at)) continue;
        ASSERT_FALSE(reaches_across(tokens, word, at)) << word << " at " << at;
        ++parted;
      }
    }
  }
  EXPECT_GT(parted, 10000);  // or it would be no use
}

}  // namespace
}  // namespace hasten::text
