// SPDX-License-Identifier: Apache-2.0
// A whole file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace hasten {

/// Owns one read-only mapping; const after construction, so any thread may read it.
class MappedFile {
 public:
  /// Maps `path`. Throws Error{not_found, io}; Error{invalid_data} for an empty file and for what
  /// is no regular file, such as a folder or a pipe.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hasten
