// SPDX-License-Identifier: Apache-2.0
// Serialises metadata, tensor infos and tensor bytes.
#include "weights/gguf_writer.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "base/checked.h"
#include "base/error.h"
#include "weights/gguf_format.h"

namespace hasten::weights {
namespace {

// Linux keeps what is written at a time in its cache as one piece, and maps that in one: files that
// lie there in small pieces take up to thirty times as long to map.
constexpr size_t kWrittenTogether = size_t{4} << 20;

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_string(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out.append(text);
}

template <class T>
std::span<const std::byte> bytes_of(const T& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& path)
    : path_(path), partial_(path.string() + ".partial") {
  file_.reset(std::fopen(partial_.c_str(), "wb"));
  if (file_ == nullptr)
    fail(ErrorCode::io, "cannot create {}: {}", partial_.string(), std::strerror(errno));
  buffer_ = std::make_unique_for_overwrite<char[]>(kWrittenTogether);
  // Not worth an error if it is refused.
  static_cast<void>(std::setvbuf(file_.get(), buffer_.get(), _IOFBF, kWrittenTogether));
}

GgufWriter::~GgufWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void GgufWriter::begin_entry(std::string_view key, ValueType type) {
  HASTEN_CHECK(!header_written_);
  HASTEN_CHECK(keys_.emplace(key).second);
  put_string(entries_, key);
  put(entries_, static_cast<uint32_t>(type));
}

void GgufWriter::begin_array(std::string_view key, ValueType element, size_t count) {
  begin_entry(key, ValueType::array);
  put(entries_, static_cast<uint32_t>(element));
  put(entries_, uint64_t{count});
}

void GgufWriter::set_u32(std::string_view key, uint32_t value) {
  begin_entry(key, ValueType::u32);
  put(entries_, value);
}

void GgufWriter::set_f32(std::string_view key, float value) {
  begin_entry(key, ValueType::f32);
  put(entries_, value);
}

void GgufWriter::set_bool(std::string_view key, bool value) {
  begin_entry(key, ValueType::boolean);
  put(entries_, uint8_t{value});
}

void GgufWriter::set_string(std::string_view key, std::string_view value) {
  begin_entry(key, ValueType::string);
  put_string(entries_, value);
}

void GgufWriter::set_strings(std::string_view key, std::span<const std::string> values) {
  begin_array(key, ValueType::string, values.size());
  for (const std::string& value : values) put_string(entries_, value);
}

void GgufWriter::set_i32s(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, ValueType::i32, values.size());
  for (const int32_t value : values) put(entries_, value);
}

void GgufWriter::set_f32s(std::string_view key, std::span<const float> values) {
  begin_array(key, ValueType::f32, values.size());
  for (const float value : values) put(entries_, value);
}

void GgufWriter::declare(std::string_view name, DType dtype, const Shape& shape) {
  HASTEN_CHECK(!header_written_);
  HASTEN_CHECK(names_.emplace(name).second);
  put_string(infos_, name);
  put(infos_, static_cast<uint32_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis)
    put(infos_, static_cast<uint64_t>(shape[axis]));
  put(infos_, ggml_type(dtype));
  put(infos_, static_cast<uint64_t>(data_bytes_));
  tensor_bytes_.push_back(Tensor(static_cast<const void*>(nullptr), dtype, shape).num_bytes());
  data_bytes_ += round_up(tensor_bytes_.back(), kGgufDefaultAlignment);
}

void GgufWriter::write_header() {
  std::string start(kGgufMagic);
  put(start, kGgufVersion);
  put(start, uint64_t{tensor_bytes_.size()});
  put(start, uint64_t{keys_.size()});
  write(bytes_of(start));
  write(bytes_of(entries_));
  write(bytes_of(infos_));
  pad();
  header_written_ = true;
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  if (!header_written_) write_header();
  HASTEN_CHECK(current_ < tensor_bytes_.size());
  const auto count = static_cast<int64_t>(bytes.size());
  HASTEN_CHECK(count <= tensor_bytes_[current_] - current_bytes_);
  write(bytes);
  current_bytes_ += count;
  if (current_bytes_ < tensor_bytes_[current_]) return;
  pad();
  ++current_;
  current_bytes_ = 0;
}

void GgufWriter::finish() {
  if (!header_written_) write_header();
  HASTEN_CHECK(current_ == tensor_bytes_.size());
  std::FILE* file = file_.get();
  if (std::fflush(file) != 0)
    fail(ErrorCode::io, "cannot write {}: {}", partial_.string(), std::strerror(errno));
  std::error_code code;
  std::filesystem::rename(partial_, path_, code);
  if (code) fail(ErrorCode::io, "cannot create {}: {}", path_.string(), code.message());
  file_.reset();
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
    fail(ErrorCode::io, "cannot write {} bytes at byte {} of {}: {}", bytes.size(), position_,
         partial_.string(), std::strerror(errno));
  }
  position_ += static_cast<int64_t>(bytes.size());
}

void GgufWriter::pad() {
  constexpr std::array<std::byte, kGgufDefaultAlignment> kZeros{};
  const int64_t count = round_up(position_, kGgufDefaultAlignment) - position_;
  write(std::span(kZeros).first(static_cast<size_t>(count)));
}

}  // namespace hasten::weights
