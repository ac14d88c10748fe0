// SPDX-License-Identifier: Apache-2.0
// Tests of the interpreter that need no file from outside: the language, provenance, limits.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/names_of_one_hash_test.h"
#include "hasten_test/paths.h"
#include "text/jinja/template.h"

namespace hasten::text::jinja {
namespace {

// 2025-07-10T12:00:00Z, where the oracle has its clock too.
constexpr int64_t kNow = 1752148800;

Options options() {
  Options result;
  result.limits.time_us = 5'000'000;  // sanitizers are slow
  result.unix_time_s = [] { return kNow; };
  return result;
}

Rendered render(const std::string& source, const json::Object& untrusted = {},
                const json::Object& trusted = {}, const Options& given = options()) {
  return Template(source, given).render({.trusted = &trusted, .untrusted = &untrusted});
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorCode::internal, ""};
}

/// The bytes that the ranges mark, in brackets.
std::string marked(const Rendered& rendered) {
  std::string result;
  size_t at = 0;
  for (const TextRange& range : rendered.literal) {
    const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
    EXPECT_LE(at, begin);
    EXPECT_LT(begin, end);
    EXPECT_LE(end, rendered.text.size());
    result += rendered.text.substr(at, begin - at) + "<" + rendered.text.substr(begin, end - begin);
    result += ">";
    at = end;
  }
  return result + rendered.text.substr(at);
}

// The expectations are jinja2's own; tools/oracles checks them where it is installed.
TEST(Language, MatchesJinja2) {
  const json::Value file =
      json::parse(hasten::testing::read_file(hasten::testing::source_dir() /
                                             "src/text/jinja/language_cases.json"),
                  "cases");
  int64_t rendered = 0, refused = 0;
  for (const json::Value& value : file.at("cases").as_array()) {
    const json::Object& entry = value.as_object();
    const std::string source(entry.at("template").as_string());
    SCOPED_TRACE(source);
    try {
      const std::string text = render(source, file.at("context").as_object()).text;
      ASSERT_TRUE(entry.contains("text")) << "jinja2 refuses this; rendered: " << text;
      EXPECT_EQ(text, entry.at("text").as_string());
      ++rendered;
    } catch (const Error& error) {
      EXPECT_TRUE(entry.contains("error")) << error.what();
      EXPECT_TRUE(error.code() == ErrorCode::invalid_argument ||
                  error.code() == ErrorCode::invalid_data)
          << error.what();
      ++refused;
    }
  }
  std::printf("language cases: %ld rendered, %ld refused, as jinja2 does\n", rendered, refused);
  EXPECT_GT(rendered, 100);
}

TEST(Language, MatchesTheLatestJinja2WhereOlderOnesDiffer) {
  // 3.1.2 makes this an address.
  EXPECT_EQ(render("{{ '@a@b.c x@y' | urlize }}").text, "@a@b.c x@y");
}

TEST(Language, IsLenientWhereOnlyLazinessRefuses) {
  // jinja2 cannot count, slice or print lazy results as JSON; these templates were written for
  // engines that can.
  const json::Object variables{{"l", json::Array{1, 2, 3}}};
  EXPECT_EQ(render("{{ l | select('odd') | length }}", variables).text, "2");
  EXPECT_EQ(render("{{ (l | select('odd'))[1:] | tojson }}", variables).text, "[3]");
  EXPECT_EQ(render("{{ 'aa'.replace('a', 'b', count=1) }}").text, "ba");
  // Lists can be changed, which transformers forbids and other engines allow.
  EXPECT_EQ(render("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l }}").text,
            "[1, 2]2[1]");
  EXPECT_EQ(render("{% set d = {} %}{% set _ = d.update(a=1) %}{{ d }}").text, "{'a': 1}");
}

TEST(Language, ExtremeIntegersAreClamped) {
  const json::Object variables{{"least", INT64_MIN}, {"most", INT64_MAX}};
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'a'.ljust(least) }}{{ 'b'.rjust(least) }}{{ 'c'.center(least) }}", "abc"},
      {"{{ 'd' | center(least) }}{{ '-5'.zfill(least) }}", "d-5"},
      {"{{ 5.5 | round(least) }} {{ -5 | round(least) }} {{ 5.5 | round(most) }}", "0.0 0 5.5"},
      {"{{ 'aa'.replace('a', 'b', least) }} {{ range(least, most, most) | list }}",
       "bb [-9223372036854775808, -1, 9223372036854775806]"},
      {"{{ 'abc' | truncate(most, leeway=most) }}{{ 'abc'[least:most] }}", "abcabc"},
  };
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(render(source, variables).text, expected) << source;
  EXPECT_STREQ(error_of([&] { render("{{ 'abc' | truncate(least) }}", variables); }).what(),
               "the chat template failed in line 1: truncate: the length is shorter than the end");
}

TEST(Language, ErrorsNameLineAndReason) {
  const Error missing = error_of([] { render("\n\n{{ a.b }}"); });
  EXPECT_EQ(missing.code(), ErrorCode::invalid_argument);
  EXPECT_STREQ(missing.what(), "the chat template failed in line 3: 'a' is undefined");
  const Error syntax = error_of([] { render("a\n{% if %}"); });
  EXPECT_EQ(syntax.code(), ErrorCode::invalid_data);
  EXPECT_STREQ(syntax.what(), "the chat template does not parse: line 2: unexpected end of a tag");
  const Error escaping = error_of([] { render("{% autoescape true %}a{% endautoescape %}"); });
  EXPECT_EQ(escaping.code(), ErrorCode::invalid_data);
  EXPECT_STREQ(escaping.what(),
               "the chat template does not parse: line 1: autoescape: only false is supported, for "
               "prompts are no HTML; the filter `e` escapes");
  const Error raised = error_of([] { render("{{ raise_exception('Roles must alternate') }}"); });
  EXPECT_EQ(raised.code(), ErrorCode::invalid_argument);
  EXPECT_STREQ(raised.what(), "the chat template refused the conversation: Roles must alternate");
  EXPECT_STREQ(error_of([] { render("{{ raise_exception('') }}"); }).what(),
               "the chat template refused the conversation");
  EXPECT_STREQ(error_of([] { render("{{ 9223372036854775807 + 1 }}"); }).what(),
               "the chat template failed in line 1: an integer exceeds 64 bits");
}

// jinja2 itself forgets them when the loop ends.
TEST(Language, MacrosKeepTheRoundThatTheyWereMadeIn) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [0, 1, 2] %}{% macro m() %}{{ i }}"
                   "{% endmacro %}{% if i == 1 %}{% set ns.m = m %}{% endif %}{% endfor %}"
                   "{% for k in [5, 6] %}{% set i = 7 %}{% endfor %}{{ ns.m() }}")
                .text,
            "1");
  EXPECT_EQ(render("{% set ns = namespace() %}{% for a in [1, 2] %}{% for b in [[3]] recursive %}"
                   "{% set ns.l = loop %}{{ b if b is number else loop(b) }}{{ a }}{% endfor %}"
                   "{% endfor %}{% for a in [8, 9] %}{{ ns.l([a]) }}{% endfor %}")
                .text,
            "3113228292");
}

TEST(Language, NamesThatThereAreNotAreFoundUnused) {
  const auto parse_error = [](const char* source) {
    const Error error = error_of([&] { const Template parsed(source); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_data);
    return std::string(error.what());
  };
  EXPECT_EQ(parse_error("\n{% for x in [] %}{{ x | shout }}{% endfor %}"),
            "the chat template does not parse: line 2: no filter named 'shout'");
  EXPECT_EQ(parse_error("{{ x is loud }}{% if %}"),
            "the chat template does not parse: line 1: unexpected end of a tag");
  EXPECT_EQ(parse_error("{{ x is loud }}"),
            "the chat template does not parse: line 1: no test named 'loud'");
  const auto unknown = [](const char* source) {
    const Template parsed(source);
    std::string names;
    for (const UnknownName& name : parsed.unknown_names())
      names += fmt::format("{} {} {};", name.what, name.name, name.line);
    return names;
  };
  EXPECT_EQ(unknown("{% if x %}{% for y in x %}{{ y | a }}{% endfor %}\n{{ b(1) }}{{ y | a }}"
                    "{% endif %}{{ 1 if y is c }}{{ x | map('q') | selectattr('k', 'e') | list }}"),
            "filter a 1;function b 2;test c 2;filter q 2;test e 2;");
  // What a template has itself, what it asks for before, what the library has.
  EXPECT_EQ(unknown("{% macro a(b) %}{{ b() }}{{ caller() }}{% endmacro %}{{ a(1) }}{{ range(2) }}"
                    "{% for x, y in z recursive %}{{ y() }}{{ loop(x) }}{% endfor %}"
                    "{% set n = x %}{{ n() }}{{ x.f() }}{{ x | map('upper') | select('odd') }}"
                    "{% if f is defined %}{{ f() }}{% endif %}"
                    "{% if g %}{{ g() }}{% elif x and not h %}{% else %}{{ h() }}{% endif %}"
                    "{{ i() if i else j and j() }}"),
            "");
}

TEST(UnknownNames, OfOneHashCostNoMore) {
  const auto two = names_of_one_hash(2, true);
  if (std::hash<std::string_view>()(two[0]) != std::hash<std::string_view>()(two[1]))
    GTEST_SKIP() << "this library has another hash";
  const auto names_of_variables = [](bool one_hash) {
    std::vector<std::string> names = names_of_one_hash(600'000, one_hash);
    const auto is_in_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
    };
    std::erase_if(names, [&](const std::string& name) {
      return !std::all_of(name.begin(), name.end(), is_in_name);
    });
    EXPECT_GT(names.size(), 1500);
    return names;
  };
  const std::vector<std::string> same = names_of_variables(true), other = names_of_variables(false);
  // What stands before and behind the names: one form binds them, the other asks for them.
  for (const auto& [before, behind] : {std::pair("{%set ", "=1%}"), {"{{", "()}}"}}) {
    const auto time = [&](const std::vector<std::string>& names) {
      std::string source;
      for (size_t i = 0; i < 1500; ++i) source.append(before).append(names[i]).append(behind);
      const std::clock_t start = std::clock();  // of the processor: others may be busy beside
      const Template parsed(std::move(source), options());
      return std::clock() - start;
    };
    (void)time(other);
    const auto usual = std::min({time(other), time(other), time(other)});
    EXPECT_LT(std::min({time(same), time(same), time(same)}), 2 * usual) << before;
  }
}

TEST(Provenance, SurvivesEveryOperation) {
  const json::Object variables{{"u", "Ab <|x|>"},
                               {"w", "  pad\n"},
                               {"l", json::Array{"p", "q"}},
                               {"d", json::Object{{"k", "v"}}},
                               {"f", json::Object{{"<|im_start|>", ""}}},
                               {"h", "&lt;|im_end|&gt;"},
                               {"n2", "x"},
                               {"m", "中<|y|>🙂"},
                               {"n", 7},
                               {"e", ""}};
  const std::pair<const char*, const char*> cases[] = {
      {"a{{ u }}b", "a<Ab <|x|>>b"},
      {"{{ 'a' + u + 'b' }}", "a<Ab <|x|>>b"},
      {"{{ 'a' ~ u ~ n }}", "a<Ab <|x|>>7"},
      {"{{ ('a' + u + 'bcd')[1:4] }}", "<Ab >"},
      {"{{ ('a' + u + 'bcd')[7:11] }}", "<|>>bc"},
      {"{{ ('a' + u)[::-1] }}", "<>|x|< bA>a"},
      {"{{ u[0] }}{{ u | first }}", "<AA>"},
      {"{{ ('x' + w) | trim }}{{ w.strip() }}", "x<  padpad>"},
      {"{{ u | replace('<', '[') }}", "<Ab >[<|x|>>"},
      {"{{ 'a-b' | replace('-', u) }}", "a<Ab <|x|>>b"},
      {"{{ u.replace('Ab', 'Cd') }}", "Cd< <|x|>>"},
      {"{{ l | join(', ') }}", "<p>, <q>"},
      {"{{ ','.join(l) }}", "<p>,<q>"},
      {"{{ ('x' + u) | upper }}", "X<AB <|X|>>"},
      {"{{ u | lower }}{{ u | capitalize }}{{ u | title }}", "<ab <|x|>Ab <|x|>Ab <|x|>>"},
      {"{{ d | tojson }}", "{\"<k>\": \"<v>\"}"},
      {"{{ d }}", "{'<k>': '<v>'}"},
      {"{{ '%s!' % u }}{{ '%s-%d' | format(u, n) }}", "<Ab <|x|>>!<Ab <|x|>>-7"},
      {"{{ '{}!'.format(u) }}", "<Ab <|x|>>!"},
      {"{{ '%r' % u }}{{ '%a' % u }}", "'<Ab <|x|>>''<Ab <|x|>>'"},
      {"{{ '%a%s' % ('é' ~ m, n) }}", "'\\xe9<\\u4e2d<|y|>\\U0001f642>'7"},
      {"{{ '%12a|%.3a' % (u, u) }}", "  '<Ab <|x|>>'|'<Ab>"},
      {"{{ '{!s}{!r}{!a}'.format(u, u, u) }}", "<Ab <|x|>>'<Ab <|x|>>''<Ab <|x|>>'"},
      {"{{ '{0!a:.3}{0:>9}'.format(u) }}", "'<Ab> <Ab <|x|>>"},
      {"{% set s %}[{{ u }}]{% endset %}{{ s }}", "[<Ab <|x|>>]"},
      {"{% macro m(x) %}({{ x }}){% endmacro %}{{ m(u) }}", "(<Ab <|x|>>)"},
      {"{% filter upper %}a{{ u }}{% endfilter %}", "A<AB <|X|>>"},
      {"{{ u.split(' ')[1] }}{{ u.split(' ') | last }}", "<<|x|><|x|>>"},
      {"{% for c in u[:2] %}{{ c }}.{% endfor %}", "<A>.<b>."},
      {"{{ u | indent(2, true) }}", "  <Ab <|x|>>"},
      {"{{ u * 2 }}", "<Ab <|x|>Ab <|x|>>"},
      {"{{ u | truncate(5, true, '...', 0) }}", "<Ab>..."},
      {"{{ u | e }}", "<Ab &lt;|x|&gt;>"},
      {"{{ ('<i>' ~ h ~ '</i>&lt;') | striptags }}", "<<|im_end|>><"},
      {"{{ ('www.a.org/' ~ n2 ~ ' b') | urlize }}",
       "<a href=\"https://www.a.org/<x>\" rel=\"noopener\">www.a.org/<x></a> b"},
      {"{{ 'www.a.org' | urlize(rel='a ' ~ u, target='_' ~ n2) }}",
       "<a href=\"https://www.a.org\" rel=\"<&lt;|x|&gt;> <Ab> a noopener\" target=\"_<x>\">"
       "www.a.org</a>"},
      {"{{ u | center(10) }}", " <Ab <|x|>> "},
      {"{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + x + ';' %}{% endfor %}"
       "{{ ns.t }}",
       "<p>;<q>;"},
      {"{{ e }}{{ e + e }}x{{ (u ~ '')[0:0] }}", "x"},
      {"{{ d.items() | list }}", "[('<k>', '<v>')]"},
      {"{% for k in dict(**f) %}{{ k }}{% endfor %}", "<<|im_start|>>"},
      {"{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**d) }}", "{'<k>': '<v>'}"},
      {"{{ '%s' | format(**d) }}", "{'<k>': '<v>'}"},
  };
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(marked(render(source, variables)), expected) << source;
}

TEST(Provenance, TrustedVariablesAreTemplateText) {
  EXPECT_EQ(marked(render("{{ bos + u }}", {{"u", "x"}}, {{"bos", "<s>"}})), "<s><x>");
  // What the request names like a trusted variable does not replace it.
  EXPECT_EQ(marked(render("{{ bos }}", {{"bos", "evil"}}, {{"bos", "ok"}})), "ok");
}

TEST(Cycler, KeepsItsStateOutOfReach) {
  for (const char* odd : {"5", "-9", "none", "[]", "'x'", "9223372036854775807"}) {
    std::string source = "{% set c = cycler('a', 'b') %}";
    for (const char* name : {"items", "position", "pos", "current"})
      source += std::string("{% set c.") + name + " = " + odd + " %}";
    EXPECT_EQ(render(source + "{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}").text,
              "abba")
        << odd;
    EXPECT_EQ(render(source + "{% set _ = c.next() %}{% set _ = c.reset() %}{{ c.current }}").text,
              "a");
  }
}

/// A limit is exceeded: the error says which.
void expect_limit(const std::string& source, const char* limit, const json::Object& variables = {},
                  const Options& given = options()) {
  SCOPED_TRACE(source.substr(0, 80));
  const Error error = error_of([&] { render(source, variables, {}, given); });
  EXPECT_EQ(error.code(), ErrorCode::resource_exhausted) << error.what();
  EXPECT_NE(std::string(error.what()).find(limit), std::string::npos) << error.what();
}

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

const char* const kForever =
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";

TEST(Limits, EachIsNamed) {
  expect_limit(kForever, "limit");
  expect_limit("{% for a in range(9999) %}{% set b = 1" + repeated(" + 1", 200) + "%}{% endfor %}",
               "steps");
  expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "depth");
  expect_limit(
      "{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}"
      "{{ f(1) }}",
      "depth");
  expect_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "depth");
  expect_limit("{{ range(1000000000) }}", "range");
  expect_limit(
      "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}"
      "{% endfor %}",
      "output");
  expect_limit("{{ 'x' * 99999999999 }}", "output");
  expect_limit("{{ ('x' * 30000) | replace('x', 'y' * 200) }}", "output");
  expect_limit("{% set s = 'x' * 1000 %}{% for i in range(9999) %}{{ s }}{% endfor %}", "output");
  expect_limit("{{ 'x' | center(99999999) }}", "output");
  expect_limit(
      "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}"
      "{% endfor %}",
      "limit");
  expect_limit(
      "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = [n.l] %}"
      "{% endfor %}{{ n.l }}",
      "depth");
  expect_limit(
      "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = [n.l] %}"
      "{% endfor %}{{ n.l | tojson }}",
      "depth");
  expect_limit("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "depth");
  expect_limit("{% set l = [] %}{% set _ = l.append(l) %}{{ l == [l] }}", "depth");
  expect_limit("{{ " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + " }}", "depth");
  expect_limit("{{ " + repeated("[", 100'000) + repeated("]", 100'000) + " }}", "depth");
  expect_limit("{{ " + repeated("not ", 60'000) + "1 }}", "depth");
  expect_limit("{{ " + repeated("-", 100'000) + "1 }}", "depth");
  expect_limit("{{ " + repeated("a if b else ", 10'000) + "c }}", "depth");
  expect_limit(repeated("{% if 1 %}", 20'000), "depth");
  expect_limit("{% set " + repeated("(", 100'000) + "a" + repeated(")", 100'000) + " = 1 %}",
               "depth");
  expect_limit(std::string(1 << 20, ' '), "limit");
}

TEST(Limits, LongChainsAreNotDeep) {
  EXPECT_EQ(render("{{ 0" + repeated(" + 1", 20'000) + " }}").text, "20000");
  EXPECT_EQ(render("{{ ''" + repeated(" ~ 'a'", 9'000) + " }}").text.size(), 9'000U);
  EXPECT_EQ(render("{{ 'a'" + repeated("|upper", 9'000) + " }}").text, "A");
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 9'000) + "{% else %}x{% endif %}").text,
            "x");
  EXPECT_EQ(render("{{ 0" + repeated(" or 0", 20'000) + " or 5 }}").text, "5");
}

TEST(Limits, DefaultTimeIsKept) {
  Options given;
  given.limits.steps = INT64_MAX;
  given.limits.memory_bytes = int64_t{1} << 40;
  given.limits.output_bytes = int64_t{1} << 30;
  const auto start = std::chrono::steady_clock::now();
  expect_limit(kForever, "time", {}, given);
  expect_limit(
      "{% set s = 'x' * 4000000 %}{% for i in range(99999) %}{% set t = s | upper %}"
      "{% endfor %}",
      "time", {}, given);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(elapsed, std::chrono::seconds(5));  // of the wall, on a busy machine
}

TEST(Limits, SearchesAreLinear) {
  Options wide = options();
  wide.limits.output_bytes = int64_t{8} << 20;
  wide.limits.memory_bytes = int64_t{64} << 20;
  const auto start = std::chrono::steady_clock::now();
  const std::string source =
      "{% set a = ('a' * 1000) * 4000 %}"
      "{% set b = ('a' * 1000) * 1000 ~ 'b' ~ ('a' * 1000) * 999 %}";
  EXPECT_EQ(render(source + "{{ b in a }} {{ a.find(b) }} {{ a.rfind(b) }} {{ a.count(b) }}", {},
                   {}, wide)
                .text,
            "False -1 -1 0");
  EXPECT_EQ(render(source + "{% set t = a ~ b %}{{ t.find(b) }} {{ t.rfind(b) }} "
                            "{{ t.split(b) | length }} {{ t.rsplit(b, 1)[0] | length }} "
                            "{{ t.rpartition(b)[2] | length }} {{ t | replace(b, '') | length }}",
                   {}, {}, wide)
                .text,
            "4000000 4000000 2 4000000 0 4000000");
  EXPECT_EQ(
      render(source + "{{ a.strip(('b' * 1000) * 3000 ~ 'a') | length }} "
                      "{{ a | trim(('é' * 1000) * 1900) | length }} "
                      "{{ (('ä' * 1000) * 2000).lstrip(('é' * 1000) * 1900 ~ 'ä') | length }}",
             {}, {}, wide)
          .text,
      "0 4000000 0");
  const auto elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(elapsed, std::chrono::seconds(20));  // of the wall, with sanitizers; else it is hours
}

TEST(Limits, StepsStopWithinTheTimeLimit) {
  // The step limit alone ends every loop; without sanitizers that takes tens of milliseconds.
  expect_limit(kForever, "limit", {}, Options{});
}

void* run_function(void* function) {
  (*static_cast<std::function<void()>*>(function))();
  return nullptr;
}

TEST(Limits, SmallStackSuffices) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kStack = size_t{2} << 20;  // its frames are several times larger
#else
  constexpr size_t kStack = size_t{256} << 10;
#endif
  std::function<void()> work = [] {
    const std::string deep_expression = repeated("0 or 0 and 0 == 0 + 0 ~ 0 * 0 ** (", 199);
    expect_limit("{{ " + deep_expression + repeated(")", 199) + " }}", "depth");
    expect_limit("{{ " + repeated("[{'a': f(", 100) + repeated(")}]", 100) + " }}", "depth");
    expect_limit("{{ " + repeated("0if[]else ", 25'000) + "1 }}", "depth");
    expect_limit("{{ " + repeated("x is in [", 300) + repeated("]", 300) + " }}", "depth");
    expect_limit(repeated("{% if 1 %}{% for a in b %}{% set a %}", 100), "depth");
    expect_limit(
        "{% macro f(x) %}{% for a in [1] %}{% if 1 %}{{ 0 or 0 ~ ([{'a': f(x=[x])}] | "
        "first).a | upper }}{% endif %}{% endfor %}{% endmacro %}{{ f(1) }}",
        "depth");
    expect_limit(
        "{% macro f() %}{% set x %}{% filter upper %}{% call f() %}{% endcall %}"
        "{% endfilter %}{% endset %}{{ x }}{{ caller() }}{% endmacro %}{{ f() }}",
        "depth");
    expect_limit("{% for x in [1] recursive %}{{ [loop([1])] | map('upper') | join }}{% endfor %}",
                 "depth");
    expect_limit(
        "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = {'a': [n.l]} "
        "%}{% endfor %}{{ n.l | tojson(indent=1) }}",
        "depth");
    expect_limit(
        "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = ({'a': n.l},) "
        "%}{% endfor %}{{ n.l == n.l }}",
        "depth");
    const std::string nested =
        "{% set n = namespace(l=()) %}{% for i in range(999) %}{% set n.l = (n.l, 'x' * 80) %}"
        "{% endfor %}";
    for (const char* use : {"n.l | pprint", "n.l in {}", "[n.l, n.l] | sort", "n.l | string",
                            "n.l | tojson(indent=2, sort_keys=true)", "[n.l] | unique | list"})
      expect_limit(nested + "{{ " + use + " }}", "depth");
    EXPECT_EQ(render(nested + "{{ n.l | length }}").text, "2");  // made, and destroyed
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run_function, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Template, RendersFromManyThreads) {
  const Template shared(
      "{% set ns = namespace(s='') %}{% for x in l %}{% set ns.s = ns.s + 'ab' + "
      "x %}{% endfor %}{{ ns.s }}",
      options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string mine = std::to_string(t);
      const json::Object variables{{"l", json::Array{mine, mine}}};
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(shared.render({.trusted = nullptr, .untrusted = &variables}).text,
                  "ab" + mine + "ab" + mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hasten::text::jinja
