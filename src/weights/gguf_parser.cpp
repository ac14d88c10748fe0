// SPDX-License-Identifier: Apache-2.0
// Parses GGUF headers. Every number is checked against the bytes that are left before it is used,
// so that memory grows with what the file really holds.
#include "weights/gguf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/fetched_file.h"
#include "base/printable.h"
#include "weights/gguf_format.h"

namespace hasten::weights {
namespace {

constexpr uint64_t kMaxNameBytes = 65535;  // the specification's limit for keys

// The largest file that an offset or a size can belong to: more is no file cut short, but nonsense.
constexpr int64_t kMaxFileBytes = int64_t{1} << 50;

// The least bytes that one of each can take, which bounds their counts.
constexpr int64_t kLeastEntryBytes = 8 + 4 + 1;           // key length, type, value
constexpr int64_t kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;  // name length, rank, extent, type, offset

// Reads little-endian values one after another; errors name file, position and what was wanted.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  [[nodiscard]] int64_t position() const { return position_; }
  [[nodiscard]] int64_t remaining() const {
    return static_cast<int64_t>(bytes_.size()) - position_;
  }

  std::span<const std::byte> take(int64_t count, std::string_view what) {
    if (count > remaining()) {
      fail(ErrorCode::invalid_data, "{} is truncated: {} at byte {} needs {} bytes, {} are left",
           file_, printable(what), position_, count, remaining());
    }
    const auto taken = bytes_.subspan(static_cast<size_t>(position_), static_cast<size_t>(count));
    position_ += count;
    return taken;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view string(std::string_view what) {
    const auto length = number<uint64_t>(what);
    if (length > static_cast<uint64_t>(remaining())) {
      fail(ErrorCode::invalid_data, "{}: {} at byte {} is {} bytes long, {} are left", file_,
           printable(what), position_, length, remaining());
    }
    const auto text = take(static_cast<int64_t>(length), what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  /// A count of things that take at least `least_bytes` each.
  int64_t count(std::string_view what, int64_t least_bytes) {
    const auto value = number<uint64_t>(what);
    const int64_t most = remaining() / least_bytes;
    if (value > static_cast<uint64_t>(most)) {
      fail(ErrorCode::invalid_data, "{}: {} is {}; the {} bytes left have room for {}", file_,
           printable(what), value, remaining(), most);
    }
    return static_cast<int64_t>(value);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
  int64_t position_ = 0;
};

// Where a tensor's bytes lie, from the start of the file.
struct Extent {
  int64_t begin;
  int64_t end;
  size_t tensor_index;
};

// Parses one file (one shard). Borrows its bytes.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), file_(name), cursor_(bytes, name) {}

  GgufFile parse() {
    parse_magic();
    const int64_t num_tensors = cursor_.count("number of tensors", kLeastTensorBytes);
    const int64_t num_entries = cursor_.count("number of metadata keys", kLeastEntryBytes);
    for (int64_t i = 0; i < num_entries; ++i) parse_entry();
    alignment_ = parse_alignment();
    for (int64_t i = 0; i < num_tensors; ++i) parse_tensor_info();
    place_tensors();
    return std::move(result_);
  }

 private:
  void parse_magic() {
    check_is_fetched(bytes_, file_);
    const auto magic = cursor_.take(static_cast<int64_t>(kGgufMagic.size()), "magic");
    const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
    if (found != kGgufMagic) {
      fail(ErrorCode::invalid_data, "{} is not a GGUF file: it starts with {}", file_,
           printable(found));
    }
    const auto version = cursor_.number<uint32_t>("version");
    if (version == 2 || version == kGgufVersion) return;
    // A small number written by a big-endian machine has its low half empty here.
    if ((version & 0xffffU) == 0 && version != 0)
      fail(ErrorCode::unsupported, "{} is big-endian; only little-endian GGUF is read", file_);
    fail(ErrorCode::unsupported, "{} has GGUF version {}; versions 2 and 3 are read", file_,
         version);
  }

  std::string_view parse_name(std::string_view what) {
    const std::string_view name = cursor_.string(what);
    if (name.empty() || name.size() > kMaxNameBytes) {
      fail(ErrorCode::invalid_data, "{}: {} before byte {} has {} bytes; wanted 1 to {}", file_,
           what, cursor_.position(), name.size(), kMaxNameBytes);
    }
    return name;
  }

  ValueType parse_type(std::string_view key) {
    const auto number = cursor_.number<uint32_t>("value type");
    if (number > static_cast<uint32_t>(ValueType::f64)) {
      fail(ErrorCode::invalid_data, "{}: metadata key {} has unknown type {}; the last is 12",
           file_, printable(key), number);
    }
    return static_cast<ValueType>(number);
  }

  void parse_entry() {
    const std::string_view key = parse_name("metadata key");
    Value value;
    value.type = parse_type(key);
    value.data = parse_value(value.type, key);
    if (!result_.metadata.add(key, std::move(value)))
      fail(ErrorCode::invalid_data, "{}: metadata key {} appears twice", file_, printable(key));
  }

  decltype(Value::data) parse_value(ValueType type, std::string_view key) {
    switch (type) {
      case ValueType::u8:
        return uint64_t{cursor_.number<uint8_t>(key)};
      case ValueType::u16:
        return uint64_t{cursor_.number<uint16_t>(key)};
      case ValueType::u32:
        return uint64_t{cursor_.number<uint32_t>(key)};
      case ValueType::u64:
        return cursor_.number<uint64_t>(key);
      case ValueType::i8:
        return int64_t{cursor_.number<int8_t>(key)};
      case ValueType::i16:
        return int64_t{cursor_.number<int16_t>(key)};
      case ValueType::i32:
        return int64_t{cursor_.number<int32_t>(key)};
      case ValueType::i64:
        return cursor_.number<int64_t>(key);
      case ValueType::f32:
        return double{cursor_.number<float>(key)};
      case ValueType::f64:
        return cursor_.number<double>(key);
      case ValueType::string:
        return cursor_.string(key);
      case ValueType::boolean:
        return parse_boolean(key);
      case ValueType::array:
        break;
    }
    return parse_array(key);
  }

  bool parse_boolean(std::string_view key) {
    const auto byte = cursor_.number<uint8_t>(key);
    if (byte > 1) {
      fail(ErrorCode::invalid_data, "{}: metadata key {} is a boolean of value {}; wanted 0 or 1",
           file_, printable(key), byte);
    }
    return byte == 1;
  }

  decltype(Value::data) parse_array(std::string_view key) {
    const ValueType element = parse_type(key);
    if (element == ValueType::array) {
      fail(ErrorCode::unsupported, "{}: metadata key {} is an array of arrays", file_,
           printable(key));
    }
    const std::string what = fmt::format("length of array {}", key);
    if (element == ValueType::string) {
      std::vector<std::string_view> strings;
      const int64_t count = cursor_.count(what, sizeof(uint64_t));
      for (int64_t i = 0; i < count; ++i) strings.push_back(cursor_.string(key));
      return strings;
    }
    const int64_t count = cursor_.count(what, value_type_bytes(element));
    return NumberArray{element, cursor_.take(count * value_type_bytes(element), key)};
  }

  int64_t parse_alignment() {
    if (!result_.metadata.contains(kGgufAlignmentKey)) return kGgufDefaultAlignment;
    const uint64_t value = result_.metadata.get_u64(kGgufAlignmentKey);
    if (!std::has_single_bit(value) || value < kGgufMinAlignment || value > kGgufMaxAlignment) {
      fail(ErrorCode::invalid_data, "{}: {} is {}; wanted a power of two from {} to {}", file_,
           kGgufAlignmentKey, value, kGgufMinAlignment, kGgufMaxAlignment);
    }
    return static_cast<int64_t>(value);
  }

  // Until place_tensors knows where the data begins, an extent counts from there.
  void parse_tensor_info() {
    const std::string_view name = parse_name("tensor name");
    if (!names_.insert(name).second)
      fail(ErrorCode::invalid_data, "{}: tensor {} appears twice", file_, printable(name));
    const Shape shape = parse_shape(name);
    const DType dtype = parse_dtype(name);
    if (shape.back() % info(dtype).block_size != 0) {
      fail(ErrorCode::invalid_data,
           "{}: tensor {} has rows of {} elements; {} needs a multiple of {}", file_,
           printable(name), shape.back(), info(dtype).name, info(dtype).block_size);
    }
    const int64_t size = checked_tensor_bytes(name, shape, dtype);
    const auto offset = cursor_.number<uint64_t>("tensor offset");
    const auto begin = checked_size(offset);
    if (!begin || *begin % alignment_ != 0 || *begin > kMaxFileBytes) {
      fail(ErrorCode::invalid_data,
           "{}: tensor {} has offset {}; wanted a multiple of {}, at most {}", file_,
           printable(name), offset, alignment_, kMaxFileBytes);
    }
    extents_.push_back({*begin, *begin + size, result_.tensors.size()});
    result_.tensors.push_back(
        {std::string(name), Tensor(static_cast<const void*>(nullptr), dtype, shape)});
  }

  Shape parse_shape(std::string_view name) {
    const auto rank = cursor_.number<uint32_t>("tensor rank");
    if (rank < 1 || rank > Shape::kMaxRank) {
      fail(ErrorCode::invalid_data, "{}: tensor {} has {} dimensions; wanted 1 to {}", file_,
           printable(name), rank, Shape::kMaxRank);
    }
    std::array<int64_t, Shape::kMaxRank> dims{};
    for (uint32_t axis = 0; axis < rank; ++axis) {
      const auto extent = cursor_.number<uint64_t>("tensor extent");
      if (extent == 0 || !checked_size(extent)) {
        fail(ErrorCode::invalid_data, "{}: tensor {} has extent {} in dimension {}", file_,
             printable(name), extent, axis);
      }
      dims[rank - 1 - axis] = static_cast<int64_t>(extent);  // the file has the innermost first
    }
    return Shape(std::span<const int64_t>(dims.data(), rank));
  }

  DType parse_dtype(std::string_view name) {
    const auto number = cursor_.number<uint32_t>("tensor type");
    const auto dtype = dtype_of_ggml_type(number);
    if (!dtype) {
      fail(ErrorCode::unsupported, "{}: tensor {} has type {}; known are {}", file_,
           printable(name), unread_ggml_type(number), known_ggml_types());
    }
    return *dtype;
  }

  // At most kMaxFileBytes, else an error.
  int64_t checked_tensor_bytes(std::string_view name, const Shape& shape, DType dtype) {
    std::optional<int64_t> count = shape.back() / info(dtype).block_size;
    for (int axis = 0; axis + 1 < shape.rank() && count; ++axis)
      count = checked_mul(*count, shape[axis]);
    if (count) count = checked_mul(*count, info(dtype).block_bytes);
    if (!count || *count > kMaxFileBytes) {
      fail(ErrorCode::invalid_data, "{}: tensor {} of shape {} in {} is larger than any file",
           file_, printable(name), shape.to_string(), info(dtype).name);
    }
    return *count;
  }

  void place_tensors() {
    if (result_.tensors.empty()) return;
    const int64_t data_begin = round_up(cursor_.position(), alignment_);
    const auto file_bytes = static_cast<int64_t>(bytes_.size());
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    const auto last =
        std::max_element(extents_.begin(), extents_.end(),
                         [](const Extent& a, const Extent& b) { return a.end < b.end; });
    if (last->end > file_bytes - data_begin) {
      fail(ErrorCode::invalid_data,
           "{} is cut short: it has {} bytes, and its tensors reach to byte {} ({} ends there); "
           "download it again",
           file_, file_bytes, data_begin + last->end,
           printable(result_.tensors[last->tensor_index].name));
    }
    const Extent* previous = nullptr;
    for (const Extent& extent : extents_) {
      NamedTensor& named = result_.tensors[extent.tensor_index];
      if (previous != nullptr && extent.begin < previous->end) {
        fail(ErrorCode::invalid_data, "{}: tensors {} and {} overlap", file_,
             printable(result_.tensors[previous->tensor_index].name), printable(named.name));
      }
      named.tensor = Tensor(static_cast<const void*>(bytes_.data() + data_begin + extent.begin),
                            named.tensor.dtype(), named.tensor.shape());
      previous = &extent;
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  Cursor cursor_;
  GgufFile result_;
  int64_t alignment_ = kGgufDefaultAlignment;
  std::vector<Extent> extents_;
  std::set<std::string_view> names_;  // of tensors; a file could aim at a hash
};

}  // namespace

GgufFile parse_gguf(std::span<const std::byte> bytes, std::string_view name) {
  return GgufParser(bytes, name).parse();
}

}  // namespace hasten::weights
