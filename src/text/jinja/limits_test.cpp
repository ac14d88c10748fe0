// SPDX-License-Identifier: Apache-2.0
// Templates that run away: each stops within the default limits, whatever it makes grow.
#include <gtest/gtest.h>
#include <pthread.h>

#include <ctime>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "hasten_test/random_inputs.h"
#include "text/jinja/heap_test.h"
#include "text/jinja/template.h"

namespace hasten::text::jinja {
namespace {

struct Runaway {
  const char* source;
  const char* grows;
};

/// Doubles `ns.v` from `first` a hundred times by an expression.
#define DOUBLED(first, expression)                                                          \
  "{% set ns = namespace(v=" first ") %}{% for i in range(100) %}{% set ns.v = " expression \
  " %}{% endfor %}"

constexpr Runaway kRunaways[] = {
    {DOUBLED("'ab'", "ns.v + ns.v"), "a string added to itself"},
    {DOUBLED("'ab'", "ns.v ~ ns.v"), "a string joined to itself"},
    {DOUBLED("'ab'", "ns.v * 2"), "a string repeated"},
    {DOUBLED("'ab'", "ns.v | replace('b', 'abb')"), "replace"},
    {DOUBLED("'ab'", "ns.v.replace('', 'x')"), "replace of nothing"},
    {DOUBLED("'ab'", "[ns.v, ns.v] | join"), "join"},
    {DOUBLED("'ab'", "ns.v.join('abc')"), "the method join"},
    {DOUBLED("'ab'", "'%s%s' % (ns.v, ns.v)"), "percent formatting"},
    {DOUBLED("'ab'", "'{0}{0}'.format(ns.v)"), "brace formatting"},
    {DOUBLED("'<'", "(ns.v | forceescape) ~ ns.v"), "escape"},
    {DOUBLED("'\"'", "ns.v | tojson"), "tojson"},
    {DOUBLED("'é'", "ns.v | tojson(ensure_ascii=true)"), "tojson in ASCII"},
    {DOUBLED("'é'", "(ns.v | urlencode) ~ ns.v"), "urlencode"},
    {DOUBLED("'ß'", "(ns.v | upper) + ns.v"), "upper"},
    {DOUBLED("'a'", "ns.v | indent(100000, true)"), "indent"},
    {DOUBLED("'a'", "ns.v.center(ns.v | length * 2)"), "center"},
    {DOUBLED("'a'", "ns.v.ljust(ns.v | length * 2)"), "ljust"},
    {DOUBLED("'1'", "ns.v.zfill(ns.v | length * 2)"), "zfill"},
    {DOUBLED("'a\\n'", "(ns.v | indent(2)) + ns.v"), "indented lines"},
    {DOUBLED("'a'", "ns.v | string | pprint ~ ns.v"), "pprint"},
    {DOUBLED("'a b'", "(ns.v | wordwrap(1, true, 'xx')) + ns.v"), "wordwrap"},
    {DOUBLED("'a'", "{'a': ns.v} | xmlattr ~ ns.v"), "xmlattr"},
    {DOUBLED("[1]", "ns.v + ns.v"), "a list added to itself"},
    {DOUBLED("[1]", "ns.v * 2"), "a list repeated"},
    {DOUBLED("(1,)", "ns.v + ns.v"), "a tuple added to itself"},
    {DOUBLED("[1]", "[ns.v, ns.v]"), "nested lists, to be printed"},
    {"{% set s = 'x' * 1000 %}{% for i in range(99999) %}{{ s }}{% endfor %}", "output"},
    {"{% set x %}{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}", "a block"},
    {"{% macro a(n) %}{{ a(n - 1) if n }}{{ a(n - 1) if n }}xxxxxxxx{% endmacro %}{{ a(100) }}",
     "nested macros"},
    {"{% macro a(s) %}{{ s }}{{ s }}{% endmacro %}{% macro b(s) %}{{ a(a(a(a(s)))) }}{% endmacro %}"
     "{{ b(b(b(b(b(b(b('xxxxxxxx'))))))) }}",
     "macros of macros"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"},
    {"{% for x in [1] recursive %}{{ loop([1, 1]) }}{{ loop([1, 1]) }}{% endfor %}",
     "recursive loops"},
    {"{% for i in range(99999) %}{% set l = range(99999) | list %}{% endfor %}", "ranges"},
    {"{{ range(99999) | list | sort | map('string') | batch(2) | list }}", "lists of lists"},
    {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "loops"},
    {"{% for i in range(99999) %}{{ i is odd and 1 + 1 or 2 }}{% endfor %}", "one long loop"},
    {"{% set d = {} %}{% for i in range(99999) %}{% set _ = d.update({i: i}) %}{% endfor %}",
     "a dict"},
    {"{% set l = [] %}{% for i in range(99999) %}{% set _ = l.append([l]) %}{% endfor %}{{ l }}",
     "a list that holds itself"},
    {"{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "depth of JSON"},
    {"{% set d = {} %}{% set _ = d.update({'a': d}) %}{{ d | tojson(sort_keys=true) }}",
     "depth of sorted JSON"},
    {"{{ [1] | tojson(indent=900000) }}{{ [1] | tojson(indent=900000) }}", "indentation of JSON"},
    {"{{ '%4096d' % 1 * 4096 }}", "format widths"},
    {"{{ ('%4000s' * 900) % (('x',) * 900) }}", "many format widths"},
    {"{{ ('x' * 500000)[::-1] ~ ('x' * 500000)[::2] ~ ('x' * 500000)[::-1] }}", "slices"},
    {"{{ ('é' * 250000) | list }}", "characters"},
    {"{{ ('x ' * 250000).split() }}", "words"},
    {"{% set s = 'x' * 500000 %}{% for i in range(999) %}{{ s.rfind('y' ~ s[300:]) }}{% endfor %}",
     "searches"},
    {"{{ raise_exception('x' * 900000) if 0 }}{% set n = namespace(s='x' * 900000) %}"
     "{% for i in range(99) %}{% set n.s = (n.s | upper) %}{% endfor %}",
     "copies"},
};

int64_t thread_time_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000} + now.tv_nsec / 1000;
}

TEST(Runaways, StopWithinFiftyMillisecondsAndFourMebibytes) {
  const Limits limits;
  // The error's own text, and the heap's rounding of what it hands out.
  constexpr int64_t kSlack = 64 << 10;
  int64_t most_bytes = 0, most_us = 0;
  for (const Runaway& runaway : kRunaways) {
    SCOPED_TRACE(runaway.grows);
    const std::string source(runaway.source);
    const Template parsed(source + (source.find("{{") == std::string::npos ? "{{ ns.v }}" : ""));
    const int64_t held = heap_bytes();
    take_heap_peak();
    const int64_t start = thread_time_us();
    try {
      const Rendered rendered = parsed.render({});
      EXPECT_LE(static_cast<int64_t>(rendered.text.size()), limits.output_bytes + kSlack);
      ADD_FAILURE() << "rendered " << rendered.text.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted) << error.what();
      EXPECT_NE(std::string(error.what()).find("limit"), std::string::npos) << error.what();
      EXPECT_TRUE(std::string(error.what()).ends_with(" (line 1)")) << error.what();
    }
    const int64_t us = thread_time_us() - start;
    const int64_t bytes = take_heap_peak() - held;
    EXPECT_LE(bytes, limits.memory_bytes + kSlack);
    // What is looked at between two looks at the clock comes on top.
    EXPECT_LE(us, hasten::testing::kSanitized ? 20 * limits.time_us : limits.time_us + 20'000);
    most_bytes = std::max(most_bytes, bytes);
    most_us = std::max(most_us, us);
  }
  std::printf("%zu runaway templates: at most %ld KiB of heap and %ld us\n", std::size(kRunaways),
              most_bytes >> 10, most_us);
}

TEST(Runaways, LongConversationsRenderAllTheSame) {
  const Template chat(
      "{%- for m in messages -%}{%- if loop.previtem is defined and loop.previtem.role == m.role "
      "-%}{{ raise_exception('roles must alternate') }}{%- endif -%}"
      "{%- set content = m['content'] | trim -%}"
      "{{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>' + '\\n' -}}{%- endfor -%}");
  // Many short messages, and few long ones.
  for (const auto& [count, size] : {std::pair{50'000, 8}, {20, 400'000}}) {
    json::Array messages;
    for (int i = 0; i < count; ++i) {
      messages.push_back(json::Object{{"role", i % 2 == 0 ? "user" : "assistant"},
                                      {"content", std::string(static_cast<size_t>(size), 'x')}});
    }
    const json::Object variables{{"messages", std::move(messages)}};
    const Rendered rendered = chat.render({.untrusted = &variables});
    EXPECT_GT(rendered.text.size(), static_cast<size_t>(count) * static_cast<size_t>(size));
  }
}

}  // namespace
}  // namespace hasten::text::jinja
