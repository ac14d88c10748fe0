// SPDX-License-Identifier: Apache-2.0
// A whole file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace hasten {

/// What tells a file from others, and from itself before and after each change: whoever writes to
/// it may set the time of writing back, but not that of the change. All of it lasts as long as the
/// file does, which the number of its device does not: some file systems get a new one with each
/// mount.
struct FileStamp {
  uint64_t inode = 0;
  int64_t num_bytes = 0;
  int64_t written_ns = 0;  // since 1970: when its contents were written, as far as it says
  int64_t changed_ns = 0;  // when it was written, renamed or given other rights
};

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
  /// Of the file when it was mapped.
  const FileStamp& stamp() const { return stamp_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileStamp stamp_;
};

}  // namespace hasten
