// SPDX-License-Identifier: Apache-2.0
// FileDescriptor: owns an open file.
#pragma once

#include <unistd.h>

#include <utility>

namespace hasten {

/// Closes its file when it goes.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over `fd`; negative: none.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace hasten
