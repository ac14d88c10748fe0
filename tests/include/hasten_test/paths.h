// SPDX-License-Identifier: Apache-2.0
// Where tests find real inputs with known answers, and how they say that those are absent.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace hasten::testing {

inline std::filesystem::path source_dir() { return HASTEN_SOURCE_DIR; }

/// The folder of shared inputs: $HASTEN_SHARED, or shared/ beside the checkout. May not exist.
inline std::filesystem::path shared_dir() {
  if (const char* given = std::getenv("HASTEN_SHARED")) return given;
  return source_dir().parent_path() / "shared";
}

/// A path for a temporary file that no other process uses: builds are tested at the same time.
inline std::filesystem::path temp_path(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / (name + "_" + std::to_string(::getpid()));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace hasten::testing

/// Skips the test, saying which shared input is missing.
#define HASTEN_NEED_SHARED(relative)                                                         \
  if (!std::filesystem::exists(::hasten::testing::shared_dir() / (relative)))                \
  GTEST_SKIP() << "shared input " << (::hasten::testing::shared_dir() / (relative)).string() \
               << " is absent"
