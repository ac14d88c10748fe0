// SPDX-License-Identifier: Apache-2.0
// Whose the folder is, who has it, and its secret.
#include "engine/kv_cache/store_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace hasten::engine {
namespace {

constexpr const char* kLock = "lock";
constexpr const char* kSecret = "secret";
constexpr const char* kNewSecret = "secret.new";
constexpr const char* kLostSecret = "secret.lost";  // one that was not whole
// What nobody puts there: in the top folder of a file system, and where somebody looked on a Mac.
constexpr std::array<std::string_view, 2> kIgnored = {"lost+found", ".DS_Store"};
constexpr std::string_view kBlocks = "blocks.";  // then the number of the cache group

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

/// What a file of that name has at most where a process of ours made it; -1: none does.
int64_t most_bytes(std::string_view name) {
  if (name == kLock) return 0;
  if (name == kSecret || name == kNewSecret || name == kLostSecret) return sizeof(SecretFile);
  return group_of_block_file(name) >= 0 ? std::numeric_limits<int64_t>::max() : -1;
}

/// Whether it is a plain file of ours under one name.
bool is_own(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && info.st_nlink == 1;
}

/// A name with "/" behind it would lead through a symbolic link.
std::filesystem::path without_slashes(const std::filesystem::path& path) {
  std::string name = path.string();
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

}  // namespace

std::string block_file_name(int64_t group) { return fmt::format("{}{}", kBlocks, group); }

int64_t group_of_block_file(std::string_view name) {
  if (!name.starts_with(kBlocks)) return -1;
  const std::string_view number = name.substr(kBlocks.size());
  int64_t group = -1;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), group);
  return code == std::errc() && group >= 0 && block_file_name(group) == name ? group : -1;
}

StoreDirectory::StoreDirectory(const std::filesystem::path& path) : path_(without_slashes(path)) {
  struct stat link {};
  if (::lstat(path_.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
    fail_param("kv_disk", "{} is a symbolic link: give --kv-disk the folder itself",
               path_.string());
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
  (void)look();  // nothing is made or changed in a folder of somebody else
  lock();
  const Found found = look();
  if (found.has_blocks && !found.secret)
    log::warn(
        "{}: its secret is lost or damaged; a new one is made, and what earlier runs left "
        "there cannot be used",
        path_.string());
  secret_ = found.secret ? *found.secret : make_secret();
}

FileDescriptor StoreDirectory::open_file(const std::string& name) const {
  FileDescriptor file(::openat(folder_.get(), name.c_str(),
                               O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!file) fail_io("open", path_ / name);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_io("look at", path_ / name);
  if (!is_own(info) || ::fchmod(file.get(), 0600) != 0)
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

/// With a whole secret the folder is ours, whatever else is in it. Without one, only files may be
/// there that a process makes, none larger than its own, and its lock, which comes first.
StoreDirectory::Found StoreDirectory::look() const {
  constexpr const char* kWayOut = "give --kv-disk a name that is not there yet, or an empty folder";
  const std::vector<std::string> names = files(
      [](std::string_view name) { return std::ranges::find(kIgnored, name) == kIgnored.end(); });
  if (size_of(kSecret) == sizeof(SecretFile)) {
    if (const auto secret = read_secret()) return {.secret = secret};
  }
  Found found;
  std::string with_contents;  // one of the files that are not empty
  for (const std::string& name : names) {
    const int64_t most = most_bytes(name);
    const int64_t size = size_of(name);
    if (most < 0)
      fail_param("kv_disk", "{} has files that are not hasten's, such as {}: {}", path_.string(),
                 name, kWayOut);
    if (size < 0 || size > most)
      fail_param("kv_disk", "{}: {} is there and not hasten's: {}", path_.string(), name, kWayOut);
    if (size > 0) with_contents = name;
    found.has_blocks = found.has_blocks || (size > 0 && name != kNewSecret);
  }
  const bool has_lock = std::ranges::find(names, kLock) != names.end();
  if (!with_contents.empty() && !has_lock)
    fail_param("kv_disk",
               "{}: {} is there and neither a lock nor a whole secret of hasten, so it may be "
               "somebody else's: {}",
               path_.string(), with_contents, kWayOut);
  return found;
}

/// Of what is there under that name; -1: it is no plain file of ours under that name alone.
int64_t StoreDirectory::size_of(const std::string& name) const {
  struct stat info {};
  if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return 0;
    fail_io("look at", path_ / name);
  }
  return is_own(info) ? info.st_size : -1;
}

int64_t StoreDirectory::remove_files(
    const std::function<bool(std::string_view)>& is_unwanted) const {
  const std::vector<std::string> names = files(is_unwanted);
  for (const std::string& name : names)
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) fail_io("remove", path_ / name);
  return std::ssize(names);
}

bool StoreDirectory::has_secret() const { return size_of(kSecret) == sizeof(SecretFile); }

void StoreDirectory::lock() {
  lock_ = open_file(kLock);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) fail_io("lock", path_);
  fail(ErrorCode::unavailable,
       "another process keeps its blocks in {}: give each its own folder with --kv-disk",
       path_.string());
}

/// Nothing: what is there is none of ours, or damaged.
std::optional<Hash128> StoreDirectory::read_secret() const {
  const FileDescriptor file(
      ::openat(folder_.get(), kSecret, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_io("open", path_ / kSecret);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_io("look at", path_ / kSecret);
  SecretFile content;
  if (!is_own(info) || ::pread(file.get(), &content, sizeof content, 0) != sizeof content ||
      content.check != check_of(content.secret))
    return std::nullopt;
  if (::fchmod(file.get(), 0600) != 0) fail_io("hide from others", path_ / kSecret);
  return content.secret;
}

/// Under another name first, so that one that was written half is never read. What is there in its
/// place is kept under a third.
Hash128 StoreDirectory::make_secret() const {
  if (size_of(kSecret) > 0 && ::renameat(folder_.get(), kSecret, folder_.get(), kLostSecret) != 0)
    fail_io("rename", path_ / kSecret);
  const FileDescriptor file = open_file(kNewSecret);
  const Hash128 secret = random_key();
  const SecretFile content = {.secret = secret, .check = check_of(secret)};
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), &content, sizeof content, 0) != sizeof content ||
      ::fsync(file.get()) != 0 ||
      ::renameat(folder_.get(), kNewSecret, folder_.get(), kSecret) != 0)
    fail_io("write to", path_ / kSecret);
  return secret;
}

}  // namespace hasten::engine
