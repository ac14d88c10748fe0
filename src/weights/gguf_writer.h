// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files as a stream: what describes the model first, then tensor after tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor.h"
#include "weights/metadata.h"

namespace hasten::weights {

/// One file being written; one thread. Use: `set_…` the metadata, `declare` every tensor, `append`
/// their bytes in the order of declaration, `finish`.
///
/// The file appears under its name only with `finish`; a writer destroyed before leaves nothing.
/// Holds metadata and tensor infos in memory, no tensor bytes. Throws Error{io} when the system
/// refuses; a call out of order, or a second key or tensor of one name, is Error{internal}.
class GgufWriter {
 public:
  explicit GgufWriter(const std::filesystem::path& path);
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  ~GgufWriter();

  void set_u32(std::string_view key, uint32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_i32s(std::string_view key, std::span<const int32_t> values);
  void set_f32s(std::string_view key, std::span<const float> values);

  /// A tensor of `shape` (outermost extent first), whose rows are whole blocks.
  void declare(std::string_view name, DType dtype, const Shape& shape);

  /// The next bytes of tensor data; a call may end inside a tensor, but not span two.
  void append(std::span<const std::byte> bytes);

  /// Completes the file and gives it its name. Every declared tensor must be there in full.
  void finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void begin_entry(std::string_view key, ValueType type);
  void begin_array(std::string_view key, ValueType element, size_t count);
  void write_header();
  void write(std::span<const std::byte> bytes);
  void pad();

  std::filesystem::path path_;
  std::filesystem::path partial_;   // the name until `finish`
  std::unique_ptr<char[]> buffer_;  // of the file, which is closed before
  std::unique_ptr<std::FILE, Close> file_;
  std::string entries_;  // serialised metadata
  std::string infos_;    // serialised tensor infos
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> names_;
  std::vector<int64_t> tensor_bytes_;  // of each declared tensor
  int64_t data_bytes_ = 0;             // declared so far, with padding
  bool header_written_ = false;
  size_t current_ = 0;         // the tensor that `append` continues
  int64_t current_bytes_ = 0;  // of it, already appended
  int64_t position_ = 0;       // in the file
};

}  // namespace hasten::weights
