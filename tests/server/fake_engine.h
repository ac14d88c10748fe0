// SPDX-License-Identifier: Apache-2.0
// Controls of the fake engine: hasten::Engine defined anew by fake_engine.cpp, so that the server
// is tested without a model. A token is a byte; what is "generated" depends on words in the
// prompt's last line.
//
//   count N      N words "w0 w1 …"            tool       a tool call get_weather({"city":"Paris"})
//   think        reasoning, then an answer    refuse     fails before the first token
//   break        fails after two words        forever    never ends
//   flood        never ends, 1 KiB at a time, as fast as it can
//   vanish       ends after a word, without a last chunk      late       cannot meet its deadline
//   anything else: "Hello, world!"
#pragma once

#include <atomic>
#include <cstdint>

namespace hasten::testing {

struct FakeControls {
  std::atomic<bool> ready = true;           // Engine::health
  std::atomic<int64_t> step_us = 200;       // between two tokens
  std::atomic<int64_t> max_queue = 10'000;  // running requests; more are refused
};

FakeControls& fake_controls();

inline constexpr int32_t kFakeEos = 256;
inline constexpr int64_t kFakeVocab = 258;
inline constexpr int64_t kFakeContext = 4096;

}  // namespace hasten::testing
