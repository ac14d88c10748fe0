// SPDX-License-Identifier: Apache-2.0
// The front door of the Jinja interpreter: a template, parsed once, and what bounds its rendering.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "text/text_range.h"

namespace hasten::text::jinja {

/// What one parse or render may use. Each exceeded limit is an Error{resource_exhausted} that
/// names it. Those of a render are what a template may do by itself: it gets more for each byte
/// that it is given, so that long conversations render and no template can run away.
struct Limits {
  int64_t source_bytes = int64_t{256} << 10;  // of a template; the longest published has 24 KiB
  int64_t parse_bytes = int64_t{32} << 20;    // of memory for its tokens and its tree
  int64_t steps = 1'000'000;                  // statements, operators and calls of one render
  int64_t output_bytes = int64_t{1} << 20;    // of any one string, the result included
  int64_t memory_bytes = int64_t{4} << 20;    // of values and strings, also while they are built
  int64_t time_us = 50'000;                   // of the processor, for one render
  int32_t depth = 200;                        // of nested statements, expressions, calls and values
  // For each byte of the variables, whose smallest message takes some 400 as values. Published
  // templates need less than 1 step and 3 bytes for one, and print it at most twice; but some go
  // from each message back to the first: 15 steps and 0.2 us for a byte of 2,000 messages.
  int64_t steps_per_byte = 32;
  int64_t output_per_byte = 2;
  int64_t memory_per_byte = 8;
  int64_t time_ns_per_byte = 400;
};

struct Options {
  Limits limits;
  std::function<int64_t()> unix_time_s;  // for strftime_now, which speaks UTC; empty: the system's
};

/// The variables of a render. Strings of `trusted` are the template's own text; those of
/// `untrusted`, keys included, are marked literal wherever they end up, except the strings for
/// whose key and text `is_trusted` says so. Both objects are borrowed.
struct Variables {
  const json::Object* trusted = nullptr;
  const json::Object* untrusted = nullptr;
  bool (*is_trusted)(std::string_view key, std::string_view text) = nullptr;
};

/// A name that nothing has, where only a render that gets there fails.
struct UnknownName {
  std::string_view what = {};  // "filter", "test" or "function"
  std::string_view name = {};
  int32_t line = 0;
};

/// A parsed template. Immutable: any number of threads may render it at once. The language is that
/// of Jinja 3.1 as the transformers library configures it: trim_blocks, lstrip_blocks, loop
/// controls, `generation` blocks, its tojson, raise_exception and strftime_now.
class Template {
 public:
  /// Throws Error{invalid_data} that names the line for a syntax error, and for a filter or test
  /// that there is not. As in jinja2, one that stands under a condition is no error until it is
  /// used; unlike there, also where loops and macros lie between the two.
  explicit Template(std::string source, Options options = {});
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Throws Error{invalid_argument} for what the template refuses (raise_exception) or cannot do
  /// with these values, Error{resource_exhausted} when a limit is reached.
  Rendered render(const Variables& variables) const;

  std::string_view source() const;
  /// Filters and tests under conditions, and functions, that there are not; in the order of the
  /// source, each name once. Borrowed from this.
  std::span<const UnknownName> unknown_names() const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace hasten::text::jinja
