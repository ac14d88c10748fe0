// SPDX-License-Identifier: Apache-2.0
// What one render owns: its memory, its budgets, and the making of values.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_fwd.h"
#include "text/jinja/arena.h"
#include "text/jinja/template.h"
#include "text/jinja/value.h"

namespace hasten::text::jinja {

/// Which strings from outside count as the template's own.
struct Trust {
  bool whole = false;
  bool (*of_entry)(std::string_view key, std::string_view text) = nullptr;
};

/// What an error says of a text: its first few hundred characters.
std::string shortened(std::string_view text);

/// One thread, one render.
class Runtime {
 public:
  explicit Runtime(const Options& options);

  const Options& options() const { return options_; }
  Arena& arena() { return arena_; }

  /// Pays for work: one unit per operation, plus one per 256 bytes that it looks at. Throws
  /// Error{resource_exhausted} when the steps or the time are used up.
  void step(size_t bytes = 0) {
    steps_ += 1 + static_cast<int64_t>(bytes >> 8);
    if (steps_ >= next_check_) check_budget();
  }

  /// Counts nesting while it lives.
  class Depth {
   public:
    explicit Depth(Runtime& runtime) : runtime_(runtime) {
      if (++runtime_.depth_ > runtime_.options_.limits.depth) {
        --runtime_.depth_;
        runtime_.too_deep();
      }
    }
    ~Depth() { --runtime_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Runtime& runtime_;
  };

  void set_line(int32_t line) { line_ = line; }
  int32_t line() const { return line_; }
  /// Throws Error{invalid_argument}: the template cannot do this with these values.
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at_line(fmt::format(format, std::forward<Args>(args)...));
  }
  /// Throws for the use of an undefined value.
  [[noreturn]] void undefined_error(const Value& value) const;

  Value text(std::string_view bytes, bool literal = false);
  /// A string of bytes that outlive the render.
  Value borrowed_text(std::string_view bytes, bool literal = false);
  Value missing(std::string_view name, std::string_view owner = {});
  Value list(std::span<const Value> items, Kind kind = Kind::list);
  /// Room for a list of at least `count` values.
  std::span<Value> values(size_t count);
  /// Its items are where a later list may be: nothing else has them. It is empty then.
  void reuse(List& list);
  Value dict();
  void append(List& list, const Value& item);
  /// Adds or replaces. Throws for a key that Python could not hash.
  void set(Dict& dict, const Value& key, const Value& value);
  const Value* find(const Dict& dict, const Value& key);
  const Value* find(const Dict& dict, std::string_view key);
  /// A JSON value. Its strings, keys included, are literal unless `trust` is whole or says so of
  /// one. Bytes are borrowed.
  Value from_json(const json::Value& value, const Trust& trust);
  /// Ends the conversion of what was given: it does not count against the budgets, but adds to
  /// them.
  void begin();

  /// Bytes [begin, end) of a string.
  Value slice(const Text& text, size_t begin, size_t end);
  /// a + b for strings, markup included.
  Value concat(const Text& a, const Text& b);
  /// The string with its `markup` flag set.
  Value as_markup(const Text& text);

  void check_text_size(size_t bytes) const;

  /// Counts memory outside of the arena against the limit while it lives.
  class Lease {
   public:
    explicit Lease(Runtime& runtime, size_t bytes = 0) : arena_(runtime.arena_) { grow(bytes); }
    ~Lease() { arena_.release(bytes_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    void grow(size_t bytes) {
      arena_.charge(bytes);
      bytes_ += bytes;
    }
    void shrink(size_t bytes) {
      arena_.release(bytes);
      bytes_ -= bytes;
    }

   private:
    Arena& arena_;
    size_t bytes_ = 0;
  };

 private:
  Value from_object(const json::Object& object, const Trust& trust);
  void require_hashable(const Value& key);
  void check_budget();
  [[noreturn]] void too_deep() const;
  [[noreturn]] void fail_at_line(const std::string& message) const;

  const Options& options_;
  Arena arena_;
  int64_t steps_ = 0;
  int64_t next_check_ = 0;
  int64_t start_us_;
  int64_t given_bytes_ = 0;  // of the strings that were given
  std::span<Value> spare_;   // the largest that `reuse` got
  int64_t max_steps_;
  int64_t max_output_bytes_;
  int64_t max_time_us_;
  int32_t depth_ = 0;
  int32_t line_ = 0;
};

/// Builds a string piece by piece, keeping track of what is literal.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime), lease_(runtime) {}

  void append(std::string_view bytes, bool literal = false);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  void append(const Text& text, size_t begin, size_t end);

  Runtime& runtime() { return runtime_; }
  const std::string& bytes() const { return bytes_; }
  /// The string so far, copied into the render's memory.
  Value finish();
  Rendered release() { return {std::move(bytes_), std::move(literal_)}; }

 private:
  void make_room(size_t bytes);
  void mark(size_t begin, size_t end);

  Runtime& runtime_;
  std::string bytes_;
  std::vector<TextRange> literal_;
  Runtime::Lease lease_;  // on the capacities of both
};

/// Calls `piece(bytes, literal)` for each maximal part of one provenance, in order.
template <class Piece>
void for_each_piece(const Text& text, Piece piece) {
  size_t at = 0;
  for (const TextRange& range : text.literal) {
    const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
    if (begin > at) piece(text.bytes.substr(at, begin - at), false);
    piece(text.bytes.substr(begin, end - begin), true);
    at = end;
  }
  if (at < text.bytes.size()) piece(text.bytes.substr(at), false);
}

}  // namespace hasten::text::jinja
