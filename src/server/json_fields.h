// SPDX-License-Identifier: Apache-2.0
// Typed, bounded reading of JSON objects from outside; every complaint names the member at fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace hasten::server {

/// Numbers that a member may have.
struct Range {
  double min = 0;
  double max = 0;
  bool without_min = false;  // min itself is not allowed
};

/// `value` as a finite number in `range`. `path` names it in errors ("messages[2].weight"). Throws
/// Error{invalid_argument} with `path` as param, as all functions below.
double read_number(const json::Value& value, const std::string& path, const Range& range);
/// `value` as a whole number in [min, max]; 3.0 is one.
int64_t read_integer(const json::Value& value, const std::string& path, int64_t min, int64_t max);
/// `value` as a string of at most `max_bytes`.
std::string_view read_string(const json::Value& value, const std::string& path, int64_t max_bytes);
const json::Object& read_object(const json::Value& value, const std::string& path);
/// `value` as an array of at most `max_items`.
const json::Array& read_array(const json::Value& value, const std::string& path, int64_t max_items);

/// The members of one object. A member that is null counts as absent, as OpenAI's clients expect.
/// Borrows the object.
class Fields {
 public:
  /// `path` is where the object lies in its body; empty: it is the body.
  explicit Fields(const json::Object& object, std::string path = {});

  /// A member's place, for errors: "messages[2].role".
  std::string path(std::string_view name) const;
  const json::Value* find(std::string_view name) const;  // nullptr: absent
  /// Throws when the member is absent.
  const json::Value& require(std::string_view name) const;

  std::optional<double> number(std::string_view name, const Range& range) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string_view> string(std::string_view name, int64_t max_bytes) const;
  const json::Object* object(std::string_view name) const;                   // nullptr: absent
  const json::Array* array(std::string_view name, int64_t max_items) const;  // nullptr: absent

 private:
  const json::Object& object_;
  std::string path_;
};

/// "path[index]"
std::string item_path(std::string_view path, std::size_t index);

}  // namespace hasten::server
