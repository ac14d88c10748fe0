// SPDX-License-Identifier: Apache-2.0
// The version of this hasten, as numbers for the preprocessor and as text.
#pragma once

#define HASTEN_VERSION_MAJOR 0
#define HASTEN_VERSION_MINOR 1
#define HASTEN_VERSION_PATCH 0

namespace hasten {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace hasten
