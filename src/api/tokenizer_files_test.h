// SPDX-License-Identifier: Apache-2.0
// What the tests of tokenizers in GGUF files and in folders, and of templates, have in common.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "hasten/error.h"
#include "hasten/tokenizer.h"
#include "hasten_test/temporary_folder.h"

namespace hasten {

/// A tokenizer in files of a temporary folder.
class TokenizerFiles : public ::testing::Test {
 protected:
  virtual Tokenizer open() = 0;
  void expect_refusal(ErrorCode code, const std::string& words) {
    try {
      (void)open();
      FAIL() << "nothing was thrown: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
    }
  }

  testing::TemporaryFolder folder_;
};

/// One among the files of a folder.
class TokenizerFolder : public TokenizerFiles {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  Tokenizer open() override { return Tokenizer(folder_.path()); }
  /// How messages begin that speak of the template.
  std::string subject(const std::string& place) const {
    return "the chat template of " + folder_.path().filename().string() + " (" + place + ") ";
  }
};

}  // namespace hasten
