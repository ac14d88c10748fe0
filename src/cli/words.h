// SPDX-License-Identifier: Apache-2.0
// Words for numbers: sizes, counts and rates as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace hasten::cli {

/// "1.5 GiB", "312 MiB", "17 B".
std::string size_text(int64_t bytes);
/// "1.24 B", "494 M", "17".
std::string count_text(int64_t count);

}  // namespace hasten::cli
