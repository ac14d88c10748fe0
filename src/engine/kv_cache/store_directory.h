// SPDX-License-Identifier: Apache-2.0
// StoreDirectory: a folder of ours alone, whose files one process at a time keeps blocks in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/siphash.h"

namespace hasten::engine {

/// Holds a lock on the folder as long as it lives, however the process ends. Any thread.
class StoreDirectory {
 public:
  /// Makes the folder if need be, for this user alone. Throws Error{invalid_argument} when it is
  /// another user's, others may write to it, or it has files and no secret of ours;
  /// Error{unavailable} when another process has it, Error{io}.
  explicit StoreDirectory(std::filesystem::path path);

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

 private:
  std::vector<std::string> files(const std::function<bool(std::string_view)>& is_wanted) const;
  void check_ours() const;
  void lock();
  void read_secret();
  void make_secret();

  std::filesystem::path path_;
  FileDescriptor folder_;
  FileDescriptor lock_;
  Hash128 secret_;
};

}  // namespace hasten::engine
