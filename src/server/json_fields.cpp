// SPDX-License-Identifier: Apache-2.0
// The checks behind json_fields.h.
#include "server/json_fields.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace hasten::server {
namespace {

std::string_view kind_name(const json::Value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "a boolean";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "an array";
    case boost::json::kind::object:
      return "an object";
    default:
      return "a number";
  }
}

[[noreturn]] void fail_kind(const json::Value& value, const std::string& path,
                            std::string_view wanted) {
  fail_param(path, "{} must be {}, not {}", path, wanted, kind_name(value));
}

}  // namespace

double read_number(const json::Value& value, const std::string& path, const Range& range) {
  if (!value.is_number()) fail_kind(value, path, "a number");
  const double number = value.to_number<double>();
  const bool inside = std::isfinite(number) && number <= range.max &&
                      (range.without_min ? number > range.min : number >= range.min);
  if (!inside) {
    fail_param(path, "{} is {}; it must be {} {} and at most {}", path, number,
               range.without_min ? "above" : "at least", range.min, range.max);
  }
  return number;
}

int64_t read_integer(const json::Value& value, const std::string& path, int64_t min, int64_t max) {
  if (!value.is_number()) fail_kind(value, path, "an integer");
  std::optional<int64_t> integer;
  if (value.is_int64()) {
    integer = value.get_int64();
  } else if (value.is_uint64()) {
    // Boost.JSON uses this kind only for what int64 cannot hold, so it is above any max.
  } else if (const double number = value.get_double();
             std::isfinite(number) && std::abs(number) <= 0x1p53) {
    if (number != std::trunc(number)) {
      fail_param(path, "{} is {}; it must be a whole number", path, number);
    }
    integer = static_cast<int64_t>(number);
  }
  if (!integer || *integer < min || *integer > max) {
    fail_param(path, "{} is {}; it must be at least {} and at most {}", path,
               json::serialize(value), min, max);
  }
  return *integer;
}

std::string_view read_string(const json::Value& value, const std::string& path, int64_t max_bytes) {
  if (!value.is_string()) fail_kind(value, path, "a string");
  const json::String& text = value.get_string();
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    fail_param(path, "{} has {} bytes; the limit is {}", path, text.size(), max_bytes);
  }
  return {text.data(), text.size()};
}

const json::Object& read_object(const json::Value& value, const std::string& path) {
  if (!value.is_object()) fail_kind(value, path, "an object");
  return value.get_object();
}

const json::Array& read_array(const json::Value& value, const std::string& path,
                              int64_t max_items) {
  if (!value.is_array()) fail_kind(value, path, "an array");
  const json::Array& items = value.get_array();
  if (static_cast<int64_t>(items.size()) > max_items) {
    fail_param(path, "{} has {} items; the limit is {}", path, items.size(), max_items);
  }
  return items;
}

Fields::Fields(const json::Object& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const json::Value* Fields::find(std::string_view name) const {
  const json::Value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const json::Value& Fields::require(std::string_view name) const {
  const json::Value* value = find(name);
  if (value == nullptr) fail_param(path(name), "{} is missing", path(name));
  return *value;
}

std::optional<double> Fields::number(std::string_view name, const Range& range) const {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  return read_number(*value, path(name), range);
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t min, int64_t max) const {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  return read_integer(*value, path(name), min, max);
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) fail_kind(*value, path(name), "a boolean");
  return value->get_bool();
}

std::optional<std::string_view> Fields::string(std::string_view name, int64_t max_bytes) const {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  return read_string(*value, path(name), max_bytes);
}

const json::Object* Fields::object(std::string_view name) const {
  const json::Value* value = find(name);
  return value == nullptr ? nullptr : &read_object(*value, path(name));
}

const json::Array* Fields::array(std::string_view name, int64_t max_items) const {
  const json::Value* value = find(name);
  return value == nullptr ? nullptr : &read_array(*value, path(name), max_items);
}

std::string item_path(std::string_view path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

}  // namespace hasten::server
