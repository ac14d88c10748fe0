// SPDX-License-Identifier: Apache-2.0
// Checks a safetensors header against the bytes that follow it.
#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>

#include "base/checked.h"
#include "base/error.h"
#include "base/fetched_file.h"
#include "base/json.h"
#include "base/printable.h"

namespace hasten::weights {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";  // free text, not a tensor
constexpr int32_t kMaxHeaderDepth = 8;                     // three are used

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t begin;  // of its bytes, from the end of the header
  int64_t end;
};

// Parses the entries of one header.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view file) : file_(file) {}

  Entry parse(std::string_view name, const json::Value& value) {
    name_ = name;
    if (!value.is_object()) fail_entry("is not an object");
    const json::Object& object = value.get_object();
    Entry entry{.name = std::string(name),
                .dtype = parse_dtype(member(object, "dtype")),
                .shape = parse_shape(member(object, "shape")),
                .begin = 0,
                .end = 0};
    const auto offsets = sizes(member(object, "data_offsets"), "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      fail_entry("has data_offsets that are not [begin, end]");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    check_size(entry);
    return entry;
  }

 private:
  [[noreturn]] void fail_entry(std::string_view what) const {
    fail(ErrorCode::invalid_data, "{}: tensor {} {}", file_, printable(name_), what);
  }

  const json::Value& member(const json::Object& object, std::string_view key) const {
    const json::Value* value = object.if_contains(key);
    if (value == nullptr) fail_entry("lacks " + std::string(key));
    return *value;
  }

  std::vector<int64_t> sizes(const json::Value& value, std::string_view key) const {
    std::vector<int64_t> result;
    if (!value.is_array()) fail_entry(std::string(key) + " is not an array");
    for (const json::Value& element : value.get_array()) {
      const int64_t* number = element.if_int64();
      if (number == nullptr || *number < 0)
        fail_entry(std::string(key) + " holds something other than sizes");
      result.push_back(*number);
    }
    return result;
  }

  DType parse_dtype(const json::Value& value) const {
    if (!value.is_string()) fail_entry("has a dtype that is not a string");
    const std::string_view name = value.get_string();
    if (name == "F32") return DType::f32;
    if (name == "F16") return DType::f16;
    if (name == "BF16") return DType::bf16;
    fail(ErrorCode::unsupported, "{}: tensor {} has dtype {}; F32, F16 and BF16 are read", file_,
         printable(name_), printable(name));
  }

  Shape parse_shape(const json::Value& value) const {
    const auto dims = sizes(value, "shape");
    if (dims.size() > Shape::kMaxRank) {
      fail(ErrorCode::unsupported, "{}: tensor {} has {} dimensions; at most {} are read", file_,
           printable(name_), dims.size(), Shape::kMaxRank);
    }
    return Shape(dims);
  }

  void check_size(const Entry& entry) const {
    std::optional<int64_t> bytes = info(entry.dtype).block_bytes;
    for (int axis = 0; axis < entry.shape.rank() && bytes; ++axis)
      bytes = checked_mul(*bytes, entry.shape[axis]);
    if (!bytes || *bytes != entry.end - entry.begin) {
      fail(ErrorCode::invalid_data,
           "{}: tensor {} of shape {} in {} does not have the {} bytes of its data_offsets", file_,
           printable(entry.name), entry.shape.to_string(), info(entry.dtype).name,
           entry.end - entry.begin);
    }
  }

  std::string_view file_;
  std::string_view name_;  // of the entry being parsed
};

// The text of the header.
std::string_view header_of(std::span<const std::byte> bytes, std::string_view file) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    fail(ErrorCode::invalid_data, "{} is truncated: {} bytes are less than its header length", file,
         bytes.size());
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  const uint64_t left = bytes.size() - sizeof length;
  if (length > kMaxSafetensorsHeader || length > left) {
    fail(ErrorCode::invalid_data,
         "{} has a header of {} bytes; the limit is {}, and {} are left in the file", file, length,
         kMaxSafetensorsHeader, left);
  }
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof length, static_cast<size_t>(length)};
}

// Sorts the entries by place and refuses holes and overlaps.
void check_contiguous(std::vector<Entry>& entries, int64_t data_bytes, std::string_view file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  int64_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != position) {
      fail(ErrorCode::invalid_data, "{}: tensor {} begins at byte {} of the data; {} at {}", file,
           printable(entry.name), entry.begin,
           entry.begin < position ? "it overlaps the one that ends" : "the one before it ends",
           position);
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    fail(ErrorCode::invalid_data, "{}: its tensors take {} bytes, {} follow the header", file,
         position, data_bytes);
  }
}

}  // namespace

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, std::string_view name) {
  check_is_fetched(bytes, name);
  const std::string_view header = header_of(bytes, name);
  const json::Value value =
      json::parse(header, name, {.max_bytes = kMaxSafetensorsHeader, .max_depth = kMaxHeaderDepth});
  if (!value.is_object())
    fail(ErrorCode::invalid_data, "{}: its header is not a JSON object", name);

  HeaderParser parser(name);
  std::vector<Entry> entries;
  for (const auto& [key, entry] : value.get_object()) {
    if (key != kMetadataKey) entries.push_back(parser.parse(key, entry));
  }
  const auto data = bytes.subspan(sizeof(uint64_t) + header.size());
  check_contiguous(entries, static_cast<int64_t>(data.size()), name);

  SafetensorsFile file;
  for (Entry& entry : entries) {
    const std::byte* at = data.data() + entry.begin;
    const auto alignment = static_cast<uintptr_t>(info(entry.dtype).block_bytes);
    if (reinterpret_cast<uintptr_t>(at) % alignment != 0) {
      Buffer& copy = file.copies.emplace_back(entry.end - entry.begin);
      std::copy(at, data.data() + entry.end, copy.data());
      at = copy.data();
    }
    file.tensors.push_back(
        {std::move(entry.name), Tensor(static_cast<const void*>(at), entry.dtype, entry.shape)});
  }
  return file;
}

}  // namespace hasten::weights
