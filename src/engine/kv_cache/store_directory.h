// SPDX-License-Identifier: Apache-2.0
// StoreDirectory: a folder of ours alone, whose files one process at a time keeps blocks in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/siphash.h"

namespace hasten::engine {

/// The file with the blocks of a cache group.
std::string block_file_name(int64_t group);
/// And back; -1: a file of that name is none.
int64_t group_of_block_file(std::string_view name);

/// Holds a lock on the folder as long as it lives, however the process ends. Any thread.
class StoreDirectory {
 public:
  /// Makes the folder if need be, for this user alone. Throws Error{invalid_argument} when it is a
  /// symbolic link or another user's, others may write to it, or it has no whole secret of ours and
  /// files that are not ours, which stay as they are; Error{unavailable} when another process has
  /// it, Error{io}.
  explicit StoreDirectory(const std::filesystem::path& path);

  /// What the keys of the blocks in here are hashed with. It stays the same from process to
  /// process, as long as its file does, and no one else can read it.
  const Hash128& secret() const { return secret_; }
  /// Opens or makes a file to read and write, readable for this user alone. Throws Error{io}, and
  /// Error{invalid_data} for what is no plain file of this user under that name alone.
  FileDescriptor open_file(const std::string& name) const;
  /// Removes the files whose names are wanted no more; links, not what they lead to. Returns how
  /// many there were. Throws Error{io}.
  int64_t remove_files(const std::function<bool(std::string_view)>& is_unwanted) const;
  const std::filesystem::path& path() const { return path_; }
  /// Whether what the next process needs to read anything is still there.
  bool has_secret() const;

 private:
  struct Found {
    std::optional<Hash128> secret = {};  // whole
    bool has_blocks = false;             // or a damaged secret, without a whole one
  };

  std::vector<std::string> files(const std::function<bool(std::string_view)>& is_wanted) const;
  Found look() const;
  int64_t size_of(const std::string& name) const;
  std::optional<Hash128> read_secret() const;
  void lock();
  Hash128 make_secret() const;

  std::filesystem::path path_;
  FileDescriptor folder_;
  FileDescriptor lock_;
  Hash128 secret_;
};

}  // namespace hasten::engine
