// SPDX-License-Identifier: Apache-2.0
// Which types of JSON the arguments of the offered tools may have, by their schemas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace hasten::text {

/// A set of the types of JSON Schema.
struct ValueTypes {
  enum Type : uint8_t {
    null = 1,
    boolean = 2,
    integer = 4,
    number = 8,  // with a fraction or an exponent
    string = 16,
    array = 32,
    object = 64,
  };
  uint8_t bits = 127;  // any

  bool has(Type type) const { return (bits & type) != 0; }
  friend bool operator==(ValueTypes, ValueTypes) = default;
};

/// The tools of one request. Const after construction: any thread.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  /// Reads an array of tools as OpenAI's API has them. Of a schema it follows type, enum, const,
  /// nullable, anyOf, oneOf, allOf and $ref into the same schema; what it does not know, what
  /// contradicts itself and what is too deep or too much allows any type. Nothing throws; time and
  /// memory are linear in the JSON, since what references repeat is bounded for all tools.
  explicit ToolSchemas(const json::Value& tools);

  /// What an argument may be; any type where no schema says it.
  ValueTypes types_of(std::string_view function, std::string_view argument) const;

 private:
  struct Function {
    std::map<std::string, ValueTypes, std::less<>> arguments;
    ValueTypes others;  // arguments that the schema does not name
  };
  std::map<std::string, Function, std::less<>> functions_;
};

}  // namespace hasten::text
