// SPDX-License-Identifier: Apache-2.0
// Knows a pointer by its first line, which the specification of Git LFS fixes.
#include "weights/git_lfs.h"

#include "base/error.h"

namespace hasten::weights {

void check_is_fetched(std::string_view bytes, std::string_view name) {
  if (!bytes.starts_with("version https://git-lfs.github.com/")) return;
  fail(ErrorCode::invalid_data,
       "{} is not there yet, only what Git LFS put in its place: git lfs pull fetches it", name);
}

void check_is_fetched(std::span<const std::byte> bytes, std::string_view name) {
  check_is_fetched(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                   name);
}

}  // namespace hasten::weights
