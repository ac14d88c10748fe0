// SPDX-License-Identifier: Apache-2.0
// How many random inputs a test tries, and which ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace hasten::testing {

/// The number in an environment variable, or `usual` where it is not set.
inline uint64_t number_from_environment(const char* name, uint64_t usual) {
  const char* given = std::getenv(name);
  if (given == nullptr) return usual;
  char* end = nullptr;
  const uint64_t number = std::strtoull(given, &end, 10);
  if (end == given || *end != '\0') {
    throw std::runtime_error(std::string(name) + " is no number: " + given);
  }
  return number;
}

/// Sanitizers find what they look for in few inputs and are slow: they get some of what others try.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// HASTEN_TEST_TEXTS, or the number that takes seconds; under sanitizers an eighth.
inline size_t num_random_texts(size_t usual) {
  return number_from_environment("HASTEN_TEST_TEXTS", kSanitized ? usual / 8 : usual);
}

/// HASTEN_TEST_SEED, or the seed whose inputs every run sees.
inline uint64_t random_seed(uint64_t usual) {
  return number_from_environment("HASTEN_TEST_SEED", usual);
}

}  // namespace hasten::testing
