// SPDX-License-Identifier: Apache-2.0
// Compares the interpreter with published cases and with jinja2 itself.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "hasten_test/paths.h"
#include "hasten_test/random_inputs.h"
#include "text/jinja/template.h"

namespace hasten::text::jinja {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected = "data/chat_templates/expected";
constexpr const char* kTemplates = "data/chat_templates/jinja";

Options oracle_options() {
  Options result;
  result.limits.time_us = 5'000'000;                        // sanitizers are slow
  result.unix_time_s = [] { return int64_t{1752148800}; };  // 2025-07-10T12:00:00Z
  return result;
}

struct Outcome {
  bool failed = false;
  std::string text;  // rendered, or the error
};

Outcome outcome_of(const Template& parsed, const json::Object& context) {
  try {
    return {false, parsed.render({.trusted = nullptr, .untrusted = &context}).text};
  } catch (const Error& error) {
    return {true, error.what()};
  }
}

Outcome outcome_of(const std::string& source, const json::Object& context) {
  try {
    return outcome_of(Template(source, oracle_options()), context);
  } catch (const Error& error) {
    return {true, error.what()};
  }
}

json::Value shared_json(const std::string& name) {
  return json::parse(hasten::testing::read_file(hasten::testing::shared_dir() / kExpected / name),
                     name, {.max_bytes = int64_t{64} << 20});
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// Python's printing of values as JavaScript's: the published cases come from huggingface.js.
std::string as_javascript(std::string text) {
  replace_all(text, "True", "true");
  replace_all(text, "False", "false");
  replace_all(text, "None", "null");
  replace_all(text, "Undefined", "undefined");
  replace_all(text, "\\\"", "\"");
  replace_all(text, "'", "\"");
  return text;
}

// Cases where Jinja itself answers something else than huggingface.js does.
const std::map<std::string, std::pair<std::string, std::string>, std::less<>> kDeviations = {
    {"FOR_LOOP_UNPACKING", {"", "number + string is a TypeError in Python"}},
    {"FOR_LOOP_OBJECTS", {"", "string + number is a TypeError in Python"}},
    {"OBJECT_OPERATORS_2", {"", "string + number is a TypeError in Python"}},
    {"MACROS_2", {"", "number + string is a TypeError in Python"}},
    {"FILTER_OPERATOR_7", {"", "`null` is an undefined variable in Jinja"}},
    {"MEMBERSHIP", {"|True|True|True|True|True|False|", "True == 1 and False == 0 in Python"}},
    {"MEMBERSHIP_NEGATION_1", {"|False|False|False|False|False|True|", "as MEMBERSHIP"}},
    {"MEMBERSHIP_NEGATION_2", {"|False|False|False|False|False|True|", "as MEMBERSHIP"}},
};

// Contexts with functions: macros stand for them.
const std::map<std::string, std::string, std::less<>> kPreludes = {
    {"NUMBERS", "{% macro add(x, y) %}{{ x + y }}{% endmacro %}"},
    {"FUNCTIONS", "{% macro func() %}{{ varargs | length }}{% endmacro %}"},
    {"OBJ_METHODS",
     "{% macro ab() %}{{ varargs | join('') }}{% endmacro %}"
     "{% macro z() %}{{ varargs | join('_') }}{% endmacro %}{% set obj = {'x': ab, 'z': {'A': z}} "
     "%}"},
    {"IS_OPERATOR_4", "{% macro func() %}{% endmacro %}"},
};

TEST(PublishedCases, Units) {
  HASTEN_NEED_SHARED(kExpected);
  const json::Value file = shared_json("jinja_unit_cases.json");
  int64_t exact = 0, printed = 0, deviating = 0;
  for (const auto& [name, source] : file.at("TEST_STRINGS").as_object()) {
    SCOPED_TRACE(name);
    const auto prelude = kPreludes.find(std::string_view(name));
    const std::string full =
        (prelude != kPreludes.end() ? prelude->second : "") + std::string(source.as_string());
    json::Object context;
    if (const json::Value* given = file.at("TEST_CONTEXT").as_object().if_contains(name))
      context = given->as_object();
    if (prelude != kPreludes.end()) context.erase("func"), context.erase("add");
    const std::string expected(file.at("EXPECTED_OUTPUTS").at(name).as_string());
    const Outcome outcome = outcome_of(full, context);
    const auto deviation = kDeviations.find(std::string_view(name));
    if (deviation != kDeviations.end()) {
      EXPECT_EQ(outcome.failed, deviation->second.first.empty()) << outcome.text;
      if (!outcome.failed) {
        EXPECT_EQ(outcome.text, deviation->second.first);
      }
      ++deviating;
      continue;
    }
    ASSERT_FALSE(outcome.failed) << outcome.text;
    if (outcome.text == expected) {
      ++exact;
    } else {
      EXPECT_EQ(as_javascript(outcome.text), as_javascript(expected));
      ++printed;
    }
  }
  std::printf(
      "unit cases: %ld exact, %ld equal but for Python's printing of values, %ld where "
      "Python answers otherwise\n",
      exact, printed, deviating);
  EXPECT_EQ(exact + printed + deviating, 161);
}

TEST(PublishedCases, Templates) {
  HASTEN_NEED_SHARED(kExpected);
  int64_t exact = 0, printed = 0;
  for (const char* name : {"test_custom_templates.json", "test_default_templates.json"}) {
    const json::Value file = shared_json(name);
    for (const auto& [model, entry] : file.as_object()) {
      SCOPED_TRACE(model);
      const Outcome outcome = outcome_of(std::string(entry.at("chat_template").as_string()),
                                         entry.at("data").as_object());
      ASSERT_FALSE(outcome.failed) << outcome.text;
      const std::string expected(entry.at("target").as_string());
      if (outcome.text == expected) {
        ++exact;
        continue;
      }
      // This one prints a list with `|string`, which is Python's repr.
      EXPECT_EQ(model, "MadeAgents/Hammer2.1");
      EXPECT_EQ(as_javascript(outcome.text), as_javascript(expected));
      ++printed;
    }
  }
  std::printf("published templates: %ld exact, %ld equal but for Python's printing\n", exact,
              printed);
  EXPECT_EQ(exact + printed, 31);
}

/// The oracle's standard output; nullopt when it says that jinja2 is absent.
std::optional<std::string> run_oracle(const std::string& mode, const std::string& input) {
  const fs::path script = hasten::testing::source_dir() / "tools/oracles/jinja_oracle.py";
  const fs::path file =
      hasten::testing::temp_path("hasten_jinja_oracle_" + mode.substr(0, mode.find(' ')));
  std::ofstream(file) << input;
  const std::string command =
      "python3 '" + script.string() + "' " + mode + " < '" + file.string() + "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  char buffer[65536];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), pipe))
    output.append(buffer, size);
  const int status = ::pclose(pipe);
  fs::remove(file);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
    return std::nullopt;
  EXPECT_EQ(status, 0) << "the oracle failed";
  return output;
}

json::Value oracle_json(const std::string& text) {
  return json::parse(text, "oracle", {.max_bytes = int64_t{256} << 20});
}

/// Renders each case with both; counts what agrees.
void compare_with_jinja2(const std::vector<std::string>& names, const json::Array& cases) {
  const auto output = run_oracle("cases", json::serialize(cases));
  if (!output) GTEST_SKIP() << "python3 with jinja2 is absent";
  const json::Value answers = oracle_json(*output);
  ASSERT_EQ(answers.as_array().size(), cases.size());
  std::optional<Template> parsed;
  int64_t equal = 0, refused = 0, lenient = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const json::Object& answer = answers.as_array()[i].as_object();
    if (i == 0 || cases[i].at("template") != cases[i - 1].at("template"))
      parsed.emplace(std::string(cases[i].at("template").as_string()), oracle_options());
    const Outcome outcome = outcome_of(*parsed, cases[i].at("context").as_object());
    if (answer.contains("text")) {
      EXPECT_FALSE(outcome.failed);
      EXPECT_EQ(outcome.text, answer.at("text").as_string());
      ++equal;
    } else if (outcome.failed) {
      ++refused;
    } else {
      // Only what Python cannot do with lazy results do we do.
      const std::string error(answer.at("error").as_string());
      EXPECT_NE(error.find("generator"), std::string::npos) << error << "\n" << outcome.text;
      ++lenient;
    }
  }
  std::printf(
      "jinja2: %zu cases, %ld byte-equal, %ld refused by both, %ld rendered where jinja2 "
      "cannot use a generator\n",
      cases.size(), equal, refused, lenient);
  EXPECT_GT(equal, refused);
}

/// The templates of the sample, by name: files, and those in tokenizer configurations.
std::map<std::string, std::string> published_templates() {
  std::map<std::string, std::string> result;
  for (const auto& entry : fs::directory_iterator(hasten::testing::shared_dir() / kTemplates))
    result[entry.path().filename().string()] = hasten::testing::read_file(entry.path());
  const fs::path tokenizers = hasten::testing::shared_dir() / "data/tokenizers";
  if (!fs::exists(tokenizers)) return result;
  for (const auto& entry : fs::recursive_directory_iterator(tokenizers)) {
    const fs::path& path = entry.path();
    const std::string name = fs::relative(path, tokenizers).string();
    if (path.extension() == ".jinja") result[name] = hasten::testing::read_file(path);
    if (path.filename() != "tokenizer_config.json") continue;
    const json::Value config = json::parse(hasten::testing::read_file(path), name);
    const json::Value* source = config.as_object().if_contains("chat_template");
    if (source == nullptr) continue;
    if (source->is_string()) result[name] = source->get_string();
    const json::Array* several = source->if_array();  // of {"name", "template"}
    for (size_t i = 0; several != nullptr && i < several->size(); ++i)
      result[fmt::format("{} {}", name, i)] = (*several)[i].at("template").as_string();
  }
  return result;
}

TEST(Jinja2, EveryTemplateByteEqual) {
  HASTEN_NEED_SHARED(kTemplates);
  const auto conversations = run_oracle("conversations", "");
  if (!conversations) GTEST_SKIP() << "python3 with jinja2 is absent";
  const json::Value contexts = oracle_json(*conversations);
  const std::map<std::string, std::string> templates = published_templates();
  std::vector<std::string> names;
  json::Array cases;
  for (const auto& [name, source] : templates) {
    for (size_t i = 0; i < contexts.as_array().size(); ++i) {
      names.push_back(fmt::format("{} conversation {}", name, i));
      cases.push_back(json::Object{{"template", source}, {"context", contexts.as_array()[i]}});
    }
  }
  std::printf("%zu templates x %zu conversations\n", templates.size(), contexts.as_array().size());
  EXPECT_GE(contexts.as_array().size(), 20U);
  compare_with_jinja2(names, cases);
}

/// Whether jinja2 refuses what we render: what it cannot do with lazy results or its sandbox, and
/// what it does not look at.
bool may_render(std::string_view error) {
  constexpr std::string_view kReasons[] = {
      "generator", "'dict_",   "'async_",     "SecurityError", "islice",
      "'map'",     "reversed", "'Undefined'", "sequence item",
  };
  return std::any_of(std::begin(kReasons), std::end(kReasons), [&](std::string_view reason) {
    return error.find(reason) != std::string_view::npos;
  });
}

/// What we refuse and Python has: numbers of any size, complex ones, and all memory there is.
bool may_refuse(std::string_view error) {
  return error.find("64 bits") != std::string_view::npos ||
         error.find("exceeds the memory limit") != std::string_view::npos ||
         error.find("complex numbers") != std::string_view::npos ||
         error.find("nested format fields") != std::string_view::npos ||
         error.find("cannot be sliced") != std::string_view::npos ||  // folded at compile time
         error.find("too large") != std::string_view::npos;
}

/// "<generator object … at 0x7f…>", in any case.
bool prints_an_address(std::string_view text) {
  // A filter may have changed some letters before the number.
  return text.find(" at 0x") != std::string_view::npos ||
         text.find("t 0x7f") != std::string_view::npos ||
         text.find(" AT 0X") != std::string_view::npos ||
         text.find(" At 0X") != std::string_view::npos;
}

struct Tally {
  int64_t equal = 0;
  int64_t refused = 0;
  int64_t lenient = 0;
  int64_t differ = 0;
};

/// Renders what the oracle made up and rendered.
void compare_random_templates(const json::Value& file, Tally& tally) {
  const json::Object& context = file.at("context").as_object();
  for (const json::Value& value : file.at("cases").as_array()) {
    const std::string source(value.at("template").as_string());
    const Outcome outcome = outcome_of(source, context);
    const json::Object& answer = value.as_object();
    if (const json::Value* text = answer.if_contains("text")) {
      const std::string expected(text->as_string());
      const bool is_equal = !outcome.failed && outcome.text == expected;
      tally.equal += is_equal;
      if (is_equal || prints_an_address(expected)) continue;
      if (outcome.failed && may_refuse(outcome.text)) {
        ++tally.refused;
        continue;
      }
    } else if (outcome.failed) {
      ++tally.refused;
      continue;
    } else if (may_render(answer.at("error").as_string())) {
      ++tally.lenient;
      continue;
    }
    if (++tally.differ <= 20) {
      const json::Value* text = answer.if_contains("text");
      ADD_FAILURE() << source << "\njinja2: " << (text != nullptr ? *text : answer.at("error"))
                    << "\nhasten: " << json::Value(outcome.text);
    }
  }
}

TEST(Jinja2, RandomTemplates) {
  const size_t num_templates = hasten::testing::num_random_texts(600);
  const uint64_t seed = hasten::testing::random_seed(1);
  Tally tally;
  // In rounds, all cases of one are in memory at a time; each case has a seed of its own.
  constexpr size_t kRound = 5000;
  for (size_t begin = 0; begin < num_templates; begin += kRound) {
    const auto output = run_oracle(
        fmt::format("random {} {}", seed + begin, std::min(kRound, num_templates - begin)), "");
    if (!output) GTEST_SKIP() << "python3 with jinja2 is absent";
    compare_random_templates(oracle_json(*output), tally);
  }
  std::printf(
      "jinja2: %ld random templates byte-equal, %ld refused by both, %ld rendered by us only, %ld "
      "differ\n",
      tally.equal, tally.refused, tally.lenient, tally.differ);
  EXPECT_GT(tally.equal, tally.refused);
  EXPECT_EQ(tally.differ, 0);
}

TEST(Jinja2, LanguageCasesAreItsOwn) {
  const json::Value file =
      json::parse(hasten::testing::read_file(hasten::testing::source_dir() /
                                             "src/text/jinja/language_cases.json"),
                  "cases");
  json::Array cases;
  for (const json::Value& entry : file.at("cases").as_array())
    cases.push_back(
        json::Object{{"template", entry.at("template")}, {"context", file.at("context")}});
  const auto output = run_oracle("cases", json::serialize(cases));
  if (!output) GTEST_SKIP() << "python3 with jinja2 is absent";
  const json::Value answers = oracle_json(*output);
  for (size_t i = 0; i < cases.size(); ++i) {
    const json::Object& expected = file.at("cases").as_array()[i].as_object();
    const json::Object& answer = answers.as_array()[i].as_object();
    ASSERT_EQ(answer.contains("text"), expected.contains("text")) << cases[i];
    if (expected.contains("text")) {
      EXPECT_EQ(answer.at("text"), expected.at("text")) << cases[i];
    }
  }
}

}  // namespace
}  // namespace hasten::text::jinja
