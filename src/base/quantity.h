// SPDX-License-Identifier: Apache-2.0
// Sizes and counts as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hasten {

/// "17 B", "1.5 KiB", "312.0 MiB", "2.0 GiB", "9.0 TiB".
std::string size_text(int64_t bytes);

/// "1 token", "2 tokens".
std::string counted(int64_t count, std::string_view noun);

}  // namespace hasten
