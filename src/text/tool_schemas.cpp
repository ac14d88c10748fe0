// SPDX-License-Identifier: Apache-2.0
// Reads JSON Schema (draft 2020-12, and the nullable of OpenAPI 3.0) as far as types go.
#include "text/tool_schemas.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"

namespace hasten::text {
namespace {

constexpr ValueTypes kAnyType = {};
constexpr ValueTypes kNoType = {.bits = 0};

ValueTypes operator|(ValueTypes a, ValueTypes b) {
  return {.bits = static_cast<uint8_t>(a.bits | b.bits)};
}
ValueTypes operator&(ValueTypes a, ValueTypes b) {
  return {.bits = static_cast<uint8_t>(a.bits & b.bits)};
}

const json::Value* member(const json::Value* value, std::string_view key) {
  const json::Object* object = value == nullptr ? nullptr : value->if_object();
  return object == nullptr ? nullptr : object->if_contains(key);
}

std::string_view text_of(const json::Value* value) {
  const json::String* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

ValueTypes named_type(const json::Value& name) {
  constexpr std::array<std::pair<std::string_view, uint8_t>, 7> kNames = {
      {{"null", ValueTypes::null},
       {"boolean", ValueTypes::boolean},
       {"integer", ValueTypes::integer},
       {"number", ValueTypes::integer | ValueTypes::number},
       {"string", ValueTypes::string},
       {"array", ValueTypes::array},
       {"object", ValueTypes::object}}};
  for (const auto& [word, bits] : kNames)
    if (text_of(&name) == word) return {.bits = bits};
  return kAnyType;
}

ValueTypes type_of_value(const json::Value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return {.bits = ValueTypes::null};
    case boost::json::kind::bool_:
      return {.bits = ValueTypes::boolean};
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
      return {.bits = ValueTypes::integer};
    case boost::json::kind::double_:
      return {.bits = ValueTypes::number};
    case boost::json::kind::string:
      return {.bits = ValueTypes::string};
    case boost::json::kind::array:
      return {.bits = ValueTypes::array};
    case boost::json::kind::object:
      return {.bits = ValueTypes::object};
  }
  return kAnyType;
}

// Real schemas nest a few levels. References can form cycles, or each name another twice, which
// doubles the work with every level: for the tools of one request it ends after so many visits, ten
// times what 512 tools of 20 arguments with a type each need. A schema, a type's name, a value of
// an enum and some bytes of a pointer are a visit each.
constexpr int kMaxSchemaDepth = 16;
constexpr int64_t kMaxVisits = 200'000;
constexpr int64_t kPointerBytes = 64;

/// The schemas of one function's parameters.
class SchemaReader {
 public:
  /// `num_left`: visits that are still allowed.
  SchemaReader(const json::Value& root, int64_t& num_left) : root_(root), num_left_(num_left) {}

  /// Never empty.
  ValueTypes types(const json::Value& schema) const {
    const ValueTypes result = types(schema, 0);
    return result == kNoType ? kAnyType : result;
  }

 private:
  ValueTypes types(const json::Value& schema, int depth) const {
    if (!visit() || !schema.is_object() || depth > kMaxSchemaDepth) return kAnyType;
    ValueTypes result = kAnyType;
    if (const json::Value* type = member(&schema, "type"))
      result = any_of(
          *type, [&](const json::Value& name) { return visit() ? named_type(name) : kAnyType; });
    if (const json::Value* value = member(&schema, "const"))
      result = result & type_of_value(*value);
    if (const json::Value* values = member(&schema, "enum");
        values != nullptr && values->is_array())
      result = result & any_of(*values, [&](const json::Value& choice) {
                 return visit() ? type_of_value(choice) : kAnyType;
               });
    const auto nested = [&](const json::Value& inner) { return types(inner, depth + 1); };
    for (const char* key : {"anyOf", "oneOf"})
      if (const json::Value* choices = member(&schema, key))
        result = result & any_of(*choices, nested);
    if (const json::Value* parts = member(&schema, "allOf"); parts != nullptr && parts->is_array())
      for (const json::Value& part : parts->get_array()) result = result & nested(part);
    if (const json::Value* target = referred(text_of(member(&schema, "$ref"))))
      result = result & nested(*target);
    if (const json::Value* nullable = member(&schema, "nullable");
        nullable != nullptr && nullable->is_bool() && nullable->get_bool())
      result = result | ValueTypes{.bits = ValueTypes::null};
    return result;
  }

  /// Whether `count` more are allowed.
  bool visit(int64_t count = 1) const {
    num_left_ = std::max(num_left_ - count, int64_t{-1});
    return num_left_ >= 0;
  }

  /// The types of all elements together, or of a value that is no array.
  template <typename TypesOf>
  static ValueTypes any_of(const json::Value& value, TypesOf types_of) {
    const json::Array* choices = value.if_array();
    if (choices == nullptr) return types_of(value);
    ValueTypes result = choices->empty() ? kAnyType : kNoType;
    for (const json::Value& choice : *choices) {
      result = result | types_of(choice);
      if (result == kAnyType) break;
    }
    return result;
  }

  /// The schema behind "#/$defs/Name".
  const json::Value* referred(std::string_view pointer) const {
    if (!pointer.starts_with("#/")) return nullptr;
    if (!visit(std::ssize(pointer) / kPointerBytes)) return nullptr;
    pointer.remove_prefix(2);
    const json::Value* place = &root_;
    while (place != nullptr) {
      const size_t end = std::min(pointer.find('/'), pointer.size());
      place = member(place, pointer.substr(0, end));
      if (end == pointer.size()) break;
      pointer.remove_prefix(end + 1);
    }
    return place;
  }

  const json::Value& root_;
  int64_t& num_left_;
};

}  // namespace

ToolSchemas::ToolSchemas(const json::Value& tools) {
  const json::Array* list = tools.if_array();
  if (list == nullptr) return;
  int64_t num_left = kMaxVisits;
  for (const json::Value& tool : *list) {
    const json::Value* function = member(&tool, "function");
    const json::Value* parameters = member(function, "parameters");
    const std::string_view name = text_of(member(function, "name"));
    if (name.empty() || parameters == nullptr) continue;
    Function& known = functions_[std::string(name)];
    const SchemaReader reader(*parameters, num_left);
    if (const json::Value* others = member(parameters, "additionalProperties"))
      known.others = reader.types(*others);
    const json::Value* properties = member(parameters, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [argument, schema] : properties->get_object())
      known.arguments[std::string(argument)] = reader.types(schema);
  }
}

ValueTypes ToolSchemas::types_of(std::string_view function, std::string_view argument) const {
  const auto known = functions_.find(function);
  if (known == functions_.end()) return kAnyType;
  const auto found = known->second.arguments.find(argument);
  return found == known->second.arguments.end() ? known->second.others : found->second;
}

}  // namespace hasten::text
