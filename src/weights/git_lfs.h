// SPDX-License-Identifier: Apache-2.0
// Tells the files that Git LFS has not fetched from those that are there.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hasten::weights {

/// Throws Error{invalid_data} where `bytes` are the pointer that Git LFS leaves in the place of a
/// large file. `name` stands for the file in the error.
void check_is_fetched(std::string_view bytes, std::string_view name);
void check_is_fetched(std::span<const std::byte> bytes, std::string_view name);

}  // namespace hasten::weights
