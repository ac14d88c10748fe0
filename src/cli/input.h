// SPDX-License-Identifier: Apache-2.0
// The texts that commands read: files, pipes, standard input.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace hasten::cli {

/// One whole text. A file is mapped, whatever its size; what has no size, such as a pipe, is read
/// to its end and may have kMaxStreamBytes.
class Input {
 public:
  static constexpr size_t kMaxStreamBytes = size_t{256} << 20;

  /// "-": standard input. Throws Error{not_found, io}, Error{invalid_data} for a folder,
  /// Error{resource_exhausted} for a stream that is too long.
  explicit Input(const std::string& name);

  std::string_view text() const;

 private:
  std::optional<MappedFile> file_;
  std::string stream_;
};

}  // namespace hasten::cli
