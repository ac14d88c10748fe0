// SPDX-License-Identifier: Apache-2.0
// Whether a request is within the limits that its fields promise.
#pragma once

#include <cstdint>

#include "hasten/request.h"

namespace hasten::engine {

inline constexpr int32_t kMaxChoices = 128;
inline constexpr int32_t kMaxLogprobs = 20;  // as OpenAI's API
inline constexpr int64_t kMaxStopStrings = 16;
inline constexpr int64_t kMaxStopBytes = 256;  // of one stop string
inline constexpr int64_t kMaxStopTokens = 256;
inline constexpr int64_t kMaxCacheNameBytes = 256;
inline constexpr int32_t kMaxCallsLeft = 1'000'000;
inline constexpr int64_t kMaxDeadlineUs = int64_t{7} * 24 * 3600 * 1'000'000;  // a week

/// Throws Error{invalid_argument} with `param` naming the first field at fault, its value and its
/// limit. `context`: tokens one sequence may reach. Any thread.
void validate(const Request& request, int64_t vocab_size, int64_t context);

}  // namespace hasten::engine
