// SPDX-License-Identifier: Apache-2.0
// Reads files and streams.
#include "cli/input.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/quantity.h"

namespace hasten::cli {
namespace {

std::string read_stream(std::istream& stream, const std::string& name) {
  constexpr size_t kChunk = size_t{64} << 10;
  std::string text;
  while (stream && text.size() <= Input::kMaxStreamBytes) {
    const size_t before = text.size();
    text.resize(before + kChunk);
    stream.read(text.data() + before, kChunk);
    text.resize(before + static_cast<size_t>(stream.gcount()));
  }
  if (stream.bad()) fail(ErrorCode::io, "cannot read {}: {}", name, std::strerror(errno));
  if (text.size() > Input::kMaxStreamBytes) {
    fail(ErrorCode::resource_exhausted,
         "{} has more than {}, which is all that is read of a stream; a file may be larger", name,
         size_text(Input::kMaxStreamBytes));
  }
  return text;
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
    stream_ = read_stream(std::cin, "standard input");
  } else if (is_stream(name)) {
    std::ifstream stream(name, std::ios::binary);
    if (!stream) fail(ErrorCode::io, "cannot open '{}': {}", name, std::strerror(errno));
    stream_ = read_stream(stream, name);
  } else {
    file_.emplace(name);
  }
}

std::string_view Input::text() const {
  if (!file_) return stream_;
  return {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
}

}  // namespace hasten::cli
