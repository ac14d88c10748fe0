// SPDX-License-Identifier: Apache-2.0
// Typed key-value metadata of a GGUF file: views over its bytes, converted and checked on access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hasten::weights {

/// Value types with the numbers that GGUF gives them.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
/// "u32", "string", …
[[nodiscard]] std::string_view value_type_name(ValueType type);
/// Bytes of one value in a file; 0 for strings and arrays, whose size varies.
[[nodiscard]] int64_t value_type_bytes(ValueType type);

/// Numbers or booleans as they lie in the file: little-endian, without alignment.
struct NumberArray {
  ValueType element = ValueType::u8;
  std::span<const std::byte> bytes;
};

/// One value. Integers are held in 64 bits, floats as double; `type` is what the file says.
struct Value {
  ValueType type = ValueType::u8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<std::string_view>,
               NumberArray>
      data;
  /// "u32", "array of 512 string", …
  [[nodiscard]] std::string type_name() const;
};

/// Keys and values in file order; const after open, any thread. Strings borrow the file's bytes.
///
/// Every getter exists twice: `get_x(key)` throws Error{invalid_data} when the key is absent,
/// `get_x(key, fallback)` answers the fallback. Both throw Error{invalid_data} naming key, type
/// found and type wanted when the value has another type; integers of any width convert when the
/// value is in range, and an integer is a valid f64.
class Metadata {
 public:
  struct Entry {
    std::string_view key;
    Value value;
  };

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// The value, or null.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }

  [[nodiscard]] uint64_t get_u64(std::string_view key) const;
  [[nodiscard]] uint64_t get_u64(std::string_view key, uint64_t fallback) const;
  [[nodiscard]] int64_t get_i64(std::string_view key) const;
  [[nodiscard]] int64_t get_i64(std::string_view key, int64_t fallback) const;
  [[nodiscard]] double get_f64(std::string_view key) const;
  [[nodiscard]] double get_f64(std::string_view key, double fallback) const;
  [[nodiscard]] bool get_bool(std::string_view key) const;
  [[nodiscard]] bool get_bool(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string_view get_string(std::string_view key) const;
  [[nodiscard]] std::string_view get_string(std::string_view key, std::string_view fallback) const;

  /// Arrays; the key must be there (ask `contains` first). Elements convert as scalars do, and a
  /// boolean is a valid i64 (0 or 1); an f64 must fit an f32. More than `max_count` elements are
  /// Error{invalid_data} before anything is allocated for them.
  [[nodiscard]] std::span<const std::string_view> get_strings(std::string_view key) const;
  [[nodiscard]] std::vector<int64_t> get_i64s(std::string_view key, int64_t max_count) const;
  [[nodiscard]] std::vector<float> get_f32s(std::string_view key, int64_t max_count) const;

  /// Adds a key. False, and nothing changes, when it is there already. Key and strings are
  /// borrowed.
  bool add(std::string_view key, Value value);

 private:
  const Value& require(std::string_view key) const;

  std::vector<Entry> entries_;
  // Key -> position in entries_. Keys are the file's, which could aim at a hash.
  std::map<std::string_view, size_t> index_;
};

}  // namespace hasten::weights
