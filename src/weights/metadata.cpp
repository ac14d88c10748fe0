// SPDX-License-Identifier: Apache-2.0
// Conversions and errors of typed metadata.
#include "weights/metadata.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace hasten::weights {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are read from GGUF bytes in place");

struct TypeInfo {
  std::string_view name;
  int64_t bytes;
};
// Indexed by ValueType.
constexpr std::array<TypeInfo, 13> kTypes = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"boolean", 1},
                                              {"string", 0},
                                              {"array", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};

[[noreturn]] void wrong_type(std::string_view key, const Value& value, std::string_view wanted) {
  fail(ErrorCode::invalid_data, "metadata key {} is {}; wanted {}", key, value.type_name(), wanted);
}

int64_t count(const NumberArray& array) {
  return static_cast<int64_t>(array.bytes.size()) / value_type_bytes(array.element);
}

// Conversion makes elements up to eight times as large, so their number is bounded before.
void check_count(std::string_view key, const NumberArray& array, int64_t max_count) {
  if (count(array) <= max_count) return;
  fail(ErrorCode::invalid_data, "metadata key {} has {} elements; wanted at most {}", key,
       count(array), max_count);
}

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Calls `visit` with each number of the array as its own type; booleans as uint8_t.
template <class Visit>
void for_each_number(const NumberArray& array, Visit visit) {
  const auto each = [&]<class T>(T) {
    const std::byte* end = array.bytes.data() + array.bytes.size();
    for (const std::byte* at = array.bytes.data(); at != end; at += sizeof(T)) visit(load<T>(at));
  };
  switch (array.element) {
    case ValueType::boolean:
    case ValueType::u8:
      return each(uint8_t{});
    case ValueType::i8:
      return each(int8_t{});
    case ValueType::u16:
      return each(uint16_t{});
    case ValueType::i16:
      return each(int16_t{});
    case ValueType::u32:
      return each(uint32_t{});
    case ValueType::i32:
      return each(int32_t{});
    case ValueType::f32:
      return each(float{});
    case ValueType::u64:
      return each(uint64_t{});
    case ValueType::i64:
      return each(int64_t{});
    case ValueType::f64:
      return each(double{});
    case ValueType::string:
    case ValueType::array:
      break;
  }
  HASTEN_CHECK(false);
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  return kTypes.at(static_cast<size_t>(type)).name;
}

int64_t value_type_bytes(ValueType type) { return kTypes.at(static_cast<size_t>(type)).bytes; }

std::string Value::type_name() const {
  if (const auto* strings = std::get_if<std::vector<std::string_view>>(&data))
    return fmt::format("array of {} string", strings->size());
  if (const auto* numbers = std::get_if<NumberArray>(&data))
    return fmt::format("array of {} {}", count(*numbers), value_type_name(numbers->element));
  return std::string(value_type_name(type));
}

const Value* Metadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

const Value& Metadata::require(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) fail(ErrorCode::invalid_data, "metadata key {} is missing", key);
  return *value;
}

bool Metadata::add(std::string_view key, Value value) {
  if (!index_.emplace(key, entries_.size()).second) return false;
  entries_.push_back({key, std::move(value)});
  return true;
}

uint64_t Metadata::get_u64(std::string_view key) const {
  const Value& value = require(key);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value.data)) {
    if (*number >= 0) return static_cast<uint64_t>(*number);
    fail(ErrorCode::invalid_data, "metadata key {} is {}; wanted an unsigned integer", key,
         *number);
  }
  wrong_type(key, value, "an unsigned integer");
}

int64_t Metadata::get_i64(std::string_view key) const {
  const Value& value = require(key);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value.data)) {
    if (std::in_range<int64_t>(*number)) return static_cast<int64_t>(*number);
    fail(ErrorCode::invalid_data, "metadata key {} is {}; wanted at most {}", key, *number,
         std::numeric_limits<int64_t>::max());
  }
  wrong_type(key, value, "an integer");
}

double Metadata::get_f64(std::string_view key) const {
  const Value& value = require(key);
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value.data)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return static_cast<double>(*number);
  wrong_type(key, value, "a number");
}

bool Metadata::get_bool(std::string_view key) const {
  const Value& value = require(key);
  if (const auto* boolean = std::get_if<bool>(&value.data)) return *boolean;
  wrong_type(key, value, "boolean");
}

std::string_view Metadata::get_string(std::string_view key) const {
  const Value& value = require(key);
  if (const auto* string = std::get_if<std::string_view>(&value.data)) return *string;
  wrong_type(key, value, "string");
}

uint64_t Metadata::get_u64(std::string_view key, uint64_t fallback) const {
  return contains(key) ? get_u64(key) : fallback;
}
int64_t Metadata::get_i64(std::string_view key, int64_t fallback) const {
  return contains(key) ? get_i64(key) : fallback;
}
double Metadata::get_f64(std::string_view key, double fallback) const {
  return contains(key) ? get_f64(key) : fallback;
}
bool Metadata::get_bool(std::string_view key, bool fallback) const {
  return contains(key) ? get_bool(key) : fallback;
}
std::string_view Metadata::get_string(std::string_view key, std::string_view fallback) const {
  return contains(key) ? get_string(key) : fallback;
}

std::span<const std::string_view> Metadata::get_strings(std::string_view key) const {
  const Value& value = require(key);
  if (const auto* strings = std::get_if<std::vector<std::string_view>>(&value.data))
    return *strings;
  wrong_type(key, value, "array of string");
}

std::vector<int64_t> Metadata::get_i64s(std::string_view key, int64_t max_count) const {
  const Value& value = require(key);
  const auto* numbers = std::get_if<NumberArray>(&value.data);
  if (numbers == nullptr || numbers->element == ValueType::f32 ||
      numbers->element == ValueType::f64)
    wrong_type(key, value, "array of integers");
  check_count(key, *numbers, max_count);
  std::vector<int64_t> result;
  for_each_number(*numbers, [&]<class T>(T number) {
    if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<int64_t>(number)) {
        fail(ErrorCode::invalid_data, "metadata key {}[{}] is {}; wanted at most {}", key,
             result.size(), number, std::numeric_limits<int64_t>::max());
      }
      result.push_back(static_cast<int64_t>(number));
    }
  });
  return result;
}

std::vector<float> Metadata::get_f32s(std::string_view key, int64_t max_count) const {
  const Value& value = require(key);
  const auto* numbers = std::get_if<NumberArray>(&value.data);
  if (numbers == nullptr || numbers->element == ValueType::boolean)
    wrong_type(key, value, "array of numbers");
  check_count(key, *numbers, max_count);
  std::vector<float> result;
  for_each_number(*numbers, [&]<class T>(T number) {
    if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max()) {
        fail(ErrorCode::invalid_data, "metadata key {}[{}] is {}, which does not fit f32", key,
             result.size(), number);
      }
    }
    result.push_back(static_cast<float>(number));
  });
  return result;
}

}  // namespace hasten::weights
