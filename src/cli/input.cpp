// SPDX-License-Identifier: Apache-2.0
// Reads files and streams.
#include "cli/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/quantity.h"

namespace hasten::cli {
namespace {

/// Not by std::istream, which takes what cannot be read for the end.
std::string read_stream(int fd, const std::string& name) {
  constexpr size_t kChunk = size_t{64} << 10;
  std::string text;
  while (text.size() <= Input::kMaxStreamBytes) {
    const size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t count = ::read(fd, text.data() + before, kChunk);
    const int code = errno;
    text.resize(before + static_cast<size_t>(count > 0 ? count : 0));
    if (count == 0) return text;
    if (count < 0 && code != EINTR)
      fail(ErrorCode::io, "cannot read {}: {}", name, std::strerror(code));
  }
  fail(ErrorCode::resource_exhausted,
       "{} has more than {}, which is all that is read of a stream; a file may be larger", name,
       size_text(Input::kMaxStreamBytes));
}

/// Whether there is something at `name` that cannot be mapped but read: a pipe, a device, or a file
/// that says it is empty, as some do whose content is made when they are read.
bool is_stream(const std::string& name) {
  std::error_code error;
  const auto status = std::filesystem::status(name, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) return false;
  return !std::filesystem::is_regular_file(status) ||
         (std::filesystem::file_size(name, error) == 0 && !error);
}

}  // namespace

Input::Input(const std::string& name) {
  if (name == "-") {
    stream_ = read_stream(STDIN_FILENO, "standard input");
  } else if (is_stream(name)) {
    const FileDescriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) fail(ErrorCode::io, "cannot open '{}': {}", name, std::strerror(errno));
    stream_ = read_stream(file.get(), name);
  } else {
    file_.emplace(name);
  }
}

std::string_view Input::text() const {
  if (!file_) return stream_;
  return {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
}

}  // namespace hasten::cli
