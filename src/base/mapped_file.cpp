// SPDX-License-Identifier: Apache-2.0
// Maps files with mmap.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace hasten {
namespace {

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int code = errno;
    fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot open '{}': {}",
         path.string(), std::strerror(code));
  }
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode) || info.st_size == 0) {
    ::close(fd);
    const char* what = "not a regular file";
    if (known && S_ISREG(info.st_mode)) what = "empty";
    if (known && S_ISDIR(info.st_mode)) what = "a folder";
    fail(ErrorCode::invalid_data, "{} is {}; give a file with content", path.string(), what);
  }
  size_ = static_cast<size_t>(info.st_size);
  stamp_ = {.inode = info.st_ino,
            .num_bytes = info.st_size,
            .written_ns = nanoseconds(info.st_mtim),
            .changed_ns = nanoseconds(info.st_ctim)};
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  const int code = errno;
  ::close(fd);
  if (mapping == MAP_FAILED)
    fail(ErrorCode::io, "cannot map {} ({} bytes): {}", path.string(), size_, std::strerror(code));
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      stamp_(other.stamp_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace hasten
