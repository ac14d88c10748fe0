// SPDX-License-Identifier: Apache-2.0
// Which types keys and values may be kept in, and how users write them.
#pragma once

#include <string_view>
#include <utility>

#include "tensor/dtype.h"

namespace hasten {

[[nodiscard]] bool is_kv_type(DType type);

/// The types of keys and of values: "TYPE" for both, or "TYPE/TYPE"; "auto" is `automatic`. Throws
/// Error{invalid_argument} that lists the known; `flag` is what the user typed.
[[nodiscard]] std::pair<DType, DType> kv_types_from_name(std::string_view names, DType automatic,
                                                         std::string_view flag = "--kv-type");

}  // namespace hasten
