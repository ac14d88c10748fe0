// SPDX-License-Identifier: Apache-2.0
// Types out of schemas, and values by types.
#include "text/tool_schemas.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/tool_values.h"

namespace hasten::text {
namespace {

ToolSchemas schemas_of(const std::string& parameters) {
  return ToolSchemas(json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": )" + parameters + "}}]",
      "tools"));
}

/// The types of an argument, x with this schema: n(ull), b(oolean), i(nteger), f (number),
/// s(tring), a(rray), o(bject).
std::string types(const std::string& schema, const std::string& more = "",
                  const std::string& argument = "x") {
  const ToolSchemas tools = schemas_of(R"({"properties": {"x": )" + schema + "}" + more + "}");
  std::string result;
  for (size_t i = 0; i < 7; ++i)
    if ((tools.types_of("f", argument).bits >> i & 1) != 0) result += "nbifsao"[i];
  return result;
}

TEST(ToolSchemas, ReadTypes) {
  EXPECT_EQ(types(R"({"type": "string"})"), "s");
  EXPECT_EQ(types(R"({"type": "integer"})"), "i");
  EXPECT_EQ(types(R"({"type": "number", "minimum": 0})"), "if");
  EXPECT_EQ(types(R"({"type": "boolean"})"), "b");
  EXPECT_EQ(types(R"({"type": "object", "properties": {"x": {"type": "string"}}})"), "o");
  EXPECT_EQ(types(R"({"type": "array", "items": {"type": "string"}})"), "a");
  EXPECT_EQ(types(R"({"type": "null"})"), "n");
  EXPECT_EQ(types(R"({"type": ["string", "null"]})"), "ns");
  EXPECT_EQ(types(R"({"type": "string", "nullable": true})"), "ns");
}

TEST(ToolSchemas, ReadCombinations) {
  EXPECT_EQ(types(R"({"anyOf": [{"type": "integer"}, {"type": "null"}]})"), "ni");
  EXPECT_EQ(types(R"({"oneOf": [{"type": "string"}, {"type": ["boolean", "object"]}]})"), "bso");
  EXPECT_EQ(types(R"({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]})"), "s");
  EXPECT_EQ(types(R"({"anyOf": [{"type": "string"}, {"type": "null"}], "type": "string"})"), "s");
  EXPECT_EQ(types(R"({"enum": ["a", 1, 2.5, null]})"), "nifs");
  EXPECT_EQ(types(R"({"const": [1]})"), "a");
  EXPECT_EQ(types(R"({"type": "string", "enum": ["1", "2"]})"), "s");
  const std::string more =
      R"(, "$defs": {"Unit": {"enum": ["c", "f"]}, "Days": {"$ref": "#/$defs/N"},
          "N": {"type": "integer"}})";
  EXPECT_EQ(types(R"({"$ref": "#/$defs/Unit"})", more), "s");
  EXPECT_EQ(types(R"({"anyOf": [{"$ref": "#/$defs/Days"}, {"type": "null"}]})", more), "ni");
}

TEST(ToolSchemas, WhatIsNotKnownMayBeAnything) {
  for (const char* schema :
       {"{}", "true", "5", "null", "[]", R"({"type": "float"})", R"({"type": 5})",
        R"({"type": []})", R"({"anyOf": []})", R"({"anyOf": [{"type": "string"}, {}]})",
        R"({"$ref": "#/$defs/None"})", R"({"$ref": "http://x/y"})", R"({"$ref": "#/"})",
        R"({"$ref": 5})", R"({"type": "string", "const": 5})", R"({"description": "x"})"})
    EXPECT_EQ(types(schema), "nbifsao") << schema;
  for (const char* tools :
       {"{}", "[1]", "[{}]", R"([{"function": 1}])", R"([{"function": {"name": "f"}}])",
        R"([{"function": {"name": "f", "parameters": []}}])",
        R"([{"function": {"name": "f", "parameters": {"properties": []}}}])"})
    EXPECT_EQ(ToolSchemas(json::parse(tools, "tools")).types_of("f", "x"), ValueTypes()) << tools;
  const ToolSchemas strings = schemas_of(
      R"({"properties": {"n": {"type": "integer"}}, "additionalProperties": {"type": "string"}})");
  EXPECT_EQ(strings.types_of("f", "n").bits, ValueTypes::integer);
  EXPECT_EQ(strings.types_of("f", "x").bits, ValueTypes::string);
  EXPECT_EQ(strings.types_of("g", "n"), ValueTypes());
}

TEST(ToolSchemas, HostileSchemasEndSoon) {
  EXPECT_EQ(types(R"({"$ref": "#/properties/x"})"), "nbifsao");
  // 2^64 paths.
  std::string defs;
  for (int i = 0; i < 64; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
    defs += "\"d" + std::to_string(i) + R"(": {"allOf": [)" + next + ", " + next + "]}, ";
  }
  defs += R"("d64": {"type": "string"})";
  const std::string more = ", \"$defs\": {" + defs + "}";
  EXPECT_EQ(types(R"({"$ref": "#/$defs/d0"})", more), "nbifsao");
  EXPECT_EQ(types(R"({"$ref": "#/$defs/d60"})", more), "s");
  // Many arguments that refer to one long list.
  std::string numbers = "0", arguments;
  for (int i = 0; i < 100'000; ++i) numbers += ", 0";
  for (int i = 0; i < 10'000; ++i)
    arguments += ", \"a" + std::to_string(i) + R"(": {"$ref": "#/$defs/long"})";
  EXPECT_EQ(types(R"({"type": "null"})" + arguments,
                  R"(, "$defs": {"long": {"enum": [)" + numbers + "]}}"),
            "n");
}

TEST(ToolSchemas, EverythingLongIsAVisit) {
  // What 300 arguments before it refer to leaves nothing for the last, or enough.
  const auto after = [](const std::string& defs) {
    std::string arguments;
    for (int i = 0; i < 300; ++i)
      arguments += R"(, "a)" + std::to_string(i) + R"(": {"$ref": "#/$defs/long"})";
    return types("{}" + arguments + R"(, "last": {"type": "null"})", R"(, "$defs": {)" + defs + "}",
                 "last");
  };
  const auto list = [](const std::string& item, int count) {
    std::string result = item;
    for (int i = 1; i < count; ++i) result += ", " + item;
    return "[" + result + "]";
  };
  for (const int count : {10, 10'000}) {
    const char* const expected = count == 10 ? "n" : "nbifsao";
    SCOPED_TRACE(count);
    EXPECT_EQ(after(R"("long": {"type": )" + list("\"null\"", count) + "}"), expected);
    EXPECT_EQ(after(R"("long": {"enum": )" + list("0", count) + "}"), expected);
    EXPECT_EQ(after(R"("long": {"allOf": )" + list("0", count) + "}"), expected);
    const std::string name(static_cast<size_t>(count) * 10, 'n');
    EXPECT_EQ(after(R"("long": {"$ref": "#/$defs/)" + name + R"("}, ")" + name + R"(": {})"),
              expected);
  }
}

TEST(ToolValues, FollowTheTypes) {
  const auto value = [](const std::string& text, int bits) {
    return json_of_text(text, {.bits = static_cast<uint8_t>(bits)});
  };
  using Types = ValueTypes;
  constexpr int kNumber = Types::integer | Types::number, kAny = 127;
  // A string stays one.
  for (const char* text : {"42", "-1.5", "true", "null", "{\"a\": 1}", "[1]", "007", "", " x "})
    EXPECT_EQ(value(text, Types::string), json::serialize(json::Value(text)));
  for (const int types : {+Types::string, Types::string | Types::integer, kAny})
    EXPECT_EQ(value("\"x\"", types), R"("\"x\"")");
  // Others are JSON.
  EXPECT_EQ(value(" 42\n", Types::integer), "42");
  EXPECT_EQ(value("-1.5e3", kNumber), "-1.5e3");
  EXPECT_EQ(value("true", Types::boolean), "true");
  EXPECT_EQ(value("False", Types::boolean), "false");
  EXPECT_EQ(value("null", Types::null), "null");
  EXPECT_EQ(value("None", Types::null | Types::integer), "null");
  EXPECT_EQ(value("{\"a\": [1, \"x\"]}", Types::object), "{\"a\": [1, \"x\"]}");
  EXPECT_EQ(value("[1, 2]", Types::array), "[1, 2]");
  // Text that is no JSON is a string, whatever was asked for.
  for (const char* text : {"many", "007", "1 2", "{\"a\": 1", "[1,]", "['x']", "NaN", "1, 2"})
    EXPECT_EQ(value(text, kNumber | Types::object), json::serialize(json::Value(text))) << text;
  // Python's literals, as templates print lists, where nothing that fits is a string.
  EXPECT_EQ(value(" ['x', 'y']\n", Types::array), R"(["x", "y"])");
  EXPECT_EQ(value("{'a': True, 'b': [None]}", Types::object), R"({"a": true, "b": [null]})");
  EXPECT_EQ(value("(1, 'x')", Types::array | Types::null), R"([1, "x"])");
  EXPECT_EQ(value("1_000", Types::integer), "1000");
  for (const char* text : {"['x', 'y']", "{'a': 1}"}) {
    EXPECT_EQ(value(text, kAny), json::serialize(json::Value(text)));
    EXPECT_EQ(value(text, Types::array | Types::object | Types::string),
              json::serialize(json::Value(text)));
  }
  for (const int types : {+Types::array, +Types::integer})
    EXPECT_EQ(value("'x'", types), R"("'x'")");
  EXPECT_EQ(value("['x'", Types::array), R"("['x'")");
  // JSON of a type that is not asked for: a string where one may stand.
  EXPECT_EQ(value("42", Types::string | Types::null), "\"42\"");
  EXPECT_EQ(value("null", Types::string | Types::null), "null");
  EXPECT_EQ(value("None", Types::string | Types::null), "\"None\"");
  EXPECT_EQ(value("1.5", Types::integer), "1.5");
  EXPECT_EQ(value("1.5", Types::integer | Types::string), "\"1.5\"");
  EXPECT_EQ(value("[1]", Types::object), "[1]");
  // Where nothing is known, what looks like JSON is.
  EXPECT_EQ(value("42", kAny), "42");
  EXPECT_EQ(value("True", kAny), "\"True\"");
  EXPECT_EQ(value("Paris", kAny), "\"Paris\"");
}

}  // namespace
}  // namespace hasten::text
