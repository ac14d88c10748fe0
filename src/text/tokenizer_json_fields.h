// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of a tokenizer's JSON files, with errors that name file and field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

namespace hasten::text {

/// Gemma 3's tokenizer.json, the largest published, has 33 MB.
inline constexpr json::Limits kTokenizerFileLimits{.max_bytes = int64_t{128} << 20,
                                                   .max_depth = 32};

/// The member, or null where it is absent.
inline const json::Value& field(const json::Object& object, std::string_view name) {
  static const json::Value null;
  const json::Value* value = object.if_contains({name.data(), name.size()});
  return value != nullptr ? *value : null;
}

[[noreturn]] inline void fail_field(std::string_view name, std::string_view wanted) {
  fail(ErrorCode::invalid_data, "{} is not {}", printable(name), wanted);
}

inline const json::Object& as_object(const json::Value& value, std::string_view name) {
  const json::Object* object = value.if_object();
  if (object == nullptr) fail_field(name, "an object");
  return *object;
}

inline const json::Array& as_array(const json::Value& value, std::string_view name) {
  const json::Array* array = value.if_array();
  if (array == nullptr) fail_field(name, "a list");
  return *array;
}

inline std::string_view as_string(const json::Value& value, std::string_view name) {
  const json::String* string = value.if_string();
  if (string == nullptr) fail_field(name, "a string");
  return {string->data(), string->size()};
}

inline bool as_bool(const json::Value& value, std::string_view name, bool when_absent) {
  if (value.is_null()) return when_absent;
  const bool* flag = value.if_bool();
  if (flag == nullptr) fail_field(name, "true or false");
  return *flag;
}

/// What a file holds.
inline const json::Object& as_file(const json::Value& value) {
  const json::Object* object = value.if_object();
  if (object == nullptr) fail(ErrorCode::invalid_data, "the file is not a JSON object");
  return *object;
}

/// Where the limit of an id comes from.
inline constexpr std::string_view kOfVocabulary = "the tokens of the vocabulary";
inline constexpr std::string_view kOfFileSize = "as many tokens as files of this size list";

/// A whole number within [0, limit). Errors say what it is (`subject`, as it is) and, if given,
/// where the limit comes from.
inline int32_t as_number(const json::Value& value, std::string_view subject, int64_t limit,
                         std::string_view limit_is = "") {
  const int64_t* number = value.if_int64();
  if (number != nullptr && *number >= 0 && *number < limit) return static_cast<int32_t>(*number);
  if (value.is_null()) fail(ErrorCode::invalid_data, "{} is missing", subject);
  if (number == nullptr && !value.is_uint64())
    fail(ErrorCode::invalid_data, "{} is not a whole number", subject);
  fail(ErrorCode::invalid_data, "{} is {}, not within [0, {}){}{}", subject, json::serialize(value),
       limit, limit_is.empty() ? "" : ", ", limit_is);
}

/// The id of the token `text`.
inline int32_t as_id(const json::Value& value, std::string_view text, int64_t limit,
                     std::string_view limit_is = "") {
  const int64_t* id = value.if_int64();
  if (id != nullptr && *id >= 0 && *id < limit) return static_cast<int32_t>(*id);
  return as_number(value, "the id of " + printable(text), limit, limit_is);
}

/// The "type" of a component.
inline std::string_view type_of(const json::Object& component) {
  return as_string(field(component, "type"), "type");
}

}  // namespace hasten::text
