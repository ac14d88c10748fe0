// SPDX-License-Identifier: Apache-2.0
// Whose the folder is, who has it, and its secret.
#include "engine/kv_cache/store_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace hasten::engine {
namespace {

constexpr const char* kLock = "lock";
constexpr const char* kSecret = "secret";
constexpr const char* kNewSecret = "secret.new";
constexpr const char* kOfFileSystems = "lost+found";  // in the top folder of one

/// The secret and what tells that it is whole.
struct SecretFile {
  Hash128 secret;
  Hash128 check;
};

Hash128 check_of(const Hash128& secret) { return siphash("hasten kv secret", secret); }

[[noreturn]] void fail_io(std::string_view what, const std::filesystem::path& path) {
  const int code = errno;
  fail(ErrorCode::io, "cannot {} {}: {}", what, path.string(), std::strerror(code));
}

}  // namespace

StoreDirectory::StoreDirectory(std::filesystem::path path) : path_(std::move(path)) {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) fail_io("make the folder", path_);
  folder_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder_) fail_io("open the folder", path_);
  struct stat info {};
  if (::fstat(folder_.get(), &info) != 0) fail_io("look at", path_);
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail_param("kv_disk",
               "{} belongs to another user, or others may write to it: give --kv-disk a folder of "
               "your own (chmod 700)",
               path_.string());
  check_ours();
  lock();
  read_secret();
}

FileDescriptor StoreDirectory::open_file(const std::string& name) const {
  FileDescriptor file(::openat(folder_.get(), name.c_str(),
                               O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!file) fail_io("open", path_ / name);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_io("look at", path_ / name);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || info.st_nlink != 1 ||
      ::fchmod(file.get(), 0600) != 0)
    fail(ErrorCode::invalid_data,
         "{} is no plain file of yours under that name alone: remove it, or give --kv-disk another "
         "folder",
         (path_ / name).string());
  return file;
}

std::vector<std::string> StoreDirectory::files(
    const std::function<bool(std::string_view)>& is_wanted) const {
  std::vector<std::string> names;
  std::error_code code;
  for (std::filesystem::directory_iterator at(path_, code), end; !code && at != end;
       at.increment(code))
    if (std::string name = at->path().filename(); is_wanted(name)) names.push_back(std::move(name));
  if (code) fail(ErrorCode::io, "cannot list the folder {}: {}", path_.string(), code.message());
  return names;
}

/// A folder of ours has a secret, or nothing but what a process makes before that.
void StoreDirectory::check_ours() const {
  bool has_secret = false;
  const std::vector<std::string> others = files([&](std::string_view name) {
    has_secret = has_secret || name == kSecret;
    return name != kLock && name != kNewSecret && name != kSecret && name != kOfFileSystems;
  });
  if (has_secret || others.empty()) return;
  fail_param("kv_disk",
             "{} has files that are not hasten's, such as {}: give --kv-disk a name that is not "
             "there yet, or an empty folder",
             path_.string(), others.front());
}

int64_t StoreDirectory::remove_files(
    const std::function<bool(std::string_view)>& is_unwanted) const {
  const std::vector<std::string> names = files(is_unwanted);
  for (const std::string& name : names)
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) fail_io("remove", path_ / name);
  return std::ssize(names);
}

void StoreDirectory::lock() {
  lock_ = open_file(kLock);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) fail_io("lock", path_);
  fail(ErrorCode::unavailable,
       "another process keeps its blocks in {}: give each its own folder with --kv-disk",
       path_.string());
}

void StoreDirectory::read_secret() {
  const FileDescriptor file = open_file(kSecret);
  SecretFile content;
  const bool is_whole = ::pread(file.get(), &content, sizeof content, 0) == sizeof content &&
                        content.check == check_of(content.secret);
  if (is_whole)
    secret_ = content.secret;
  else
    make_secret();
}

/// Under another name first, so that one that was written half is never read.
void StoreDirectory::make_secret() {
  const FileDescriptor file = open_file(kNewSecret);
  const Hash128 secret = random_key();
  const SecretFile content = {.secret = secret, .check = check_of(secret)};
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), &content, sizeof content, 0) != sizeof content ||
      ::fsync(file.get()) != 0 ||
      ::renameat(folder_.get(), kNewSecret, folder_.get(), kSecret) != 0)
    fail_io("write to", path_ / kSecret);
  secret_ = secret;
}

}  // namespace hasten::engine
