// SPDX-License-Identifier: Apache-2.0
// Budgets, and the making of values in the arena.
#include "text/jinja/runtime.h"

#include <ctime>

#include "text/jinja/operators.h"

namespace hasten::text::jinja {
namespace {

/// Processor time of this thread: a template is not to blame when the machine is busy elsewhere.
int64_t thread_time_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000} + now.tv_nsec / 1000;
}

// Work units between looks at the clock: about 0.1 ms of work.
constexpr int64_t kUnitsPerCheck = 1024;

}  // namespace

Runtime::Runtime(const Options& options)
    : options_(options),
      arena_(options.limits.memory_bytes, "values"),
      start_us_(thread_time_us()) {}

void Runtime::check_budget() {
  const Limits& limits = options_.limits;
  if (steps_ > limits.steps) {
    fail(ErrorCode::resource_exhausted, "the chat template exceeds the limit of {} steps (line {})",
         limits.steps, line_);
  }
  if (thread_time_us() - start_us_ > limits.time_us) {
    fail(ErrorCode::resource_exhausted,
         "the chat template exceeds the time limit of {} ms (line {})", limits.time_us / 1000,
         line_);
  }
  next_check_ = std::min(steps_ + kUnitsPerCheck, limits.steps);
}

void Runtime::too_deep() const {
  fail(ErrorCode::resource_exhausted,
       "the chat template exceeds the depth limit of {} nested levels (line {})",
       options_.limits.depth, line_);
}

void Runtime::fail_at_line(const std::string& message) const {
  fail(ErrorCode::invalid_argument, "the chat template failed in line {}: {}", line_, message);
}

void Runtime::undefined_error(const Value& value) const {
  const Missing* missing = value.missing;
  if (missing == nullptr) error("a value is undefined");
  if (missing->owner.empty()) error("'{}' is undefined", missing->name);
  error("'{}' has no attribute '{}'", missing->owner, missing->name);
}

void Runtime::check_text_size(size_t bytes) const {
  if (bytes > static_cast<size_t>(options_.limits.output_bytes)) {
    fail(ErrorCode::resource_exhausted,
         "the chat template exceeds the output limit of {} bytes (line {})",
         options_.limits.output_bytes, line_);
  }
}

Value Runtime::borrowed_text(std::string_view bytes, bool literal) {
  std::span<const TextRange> ranges;
  if (literal && !bytes.empty()) {
    ranges = {arena_.make(TextRange{0, static_cast<int64_t>(bytes.size())}), 1};
  }
  return Value::of(arena_.make(Text{.bytes = bytes, .literal = ranges}));
}

Value Runtime::text(std::string_view bytes, bool literal) {
  check_text_size(bytes.size());
  return borrowed_text(arena_.copy(bytes), literal);
}

Value Runtime::missing(std::string_view name, std::string_view owner) {
  Value value;
  value.missing = arena_.make(Missing{name, owner});
  return value;
}

Value Runtime::list(std::span<const Value> items, Kind kind) {
  const std::span<Value> copy = arena_.array<Value>(items.size());
  std::copy(items.begin(), items.end(), copy.begin());
  return Value::of(
      arena_.make(List{.items = copy.data(), .size = copy.size(), .capacity = copy.size()}), kind);
}

Value Runtime::dict() { return Value::of(arena_.make(Dict{})); }

void Runtime::append(List& list, const Value& item) {
  if (list.size == list.capacity) {
    const std::span<Value> grown = arena_.array<Value>(std::max<size_t>(4, list.capacity * 2));
    std::copy_n(list.items, list.size, grown.data());
    list.items = grown.data();
    list.capacity = grown.size();
  }
  list.items[list.size++] = item;
}

void Runtime::set(Dict& dict, const Value& key, const Value& value) {
  if (const Value* found = find(dict, key)) {
    *const_cast<Value*>(found) = value;
    return;
  }
  if (dict.size == dict.capacity) {
    const auto grown = arena_.array<Dict::Entry>(std::max<size_t>(4, dict.capacity * 2));
    std::copy_n(dict.entries, dict.size, grown.data());
    dict.entries = grown.data();
    dict.capacity = grown.size();
  }
  dict.entries[dict.size++] = {key, value};
}

const Value* Runtime::find(const Dict& dict, std::string_view key) {
  step(dict.size * 16);
  for (const Dict::Entry& entry : dict.view()) {
    if (entry.key.is_string() && entry.key.text->bytes == key) return &entry.value;
  }
  return nullptr;
}

const Value* Runtime::find(const Dict& dict, const Value& key) {
  if (key.is_string()) return find(dict, key.text->bytes);
  if (key.kind == Kind::list || key.kind == Kind::dict)
    error("unhashable type: '{}'", type_name(key));
  step(dict.size * 16);
  for (const Dict::Entry& entry : dict.view()) {
    if (equal(*this, entry.key, key)) return &entry.value;
  }
  return nullptr;
}

Value Runtime::from_object(const json::Object& object, const Trust& trust) {
  const auto entries = arena_.array<Dict::Entry>(object.size());
  size_t at = 0;
  for (const auto& [key, value] : object) {
    const bool trusted = trust.whole || (trust.of_entry != nullptr && value.is_string() &&
                                         trust.of_entry(key, value.get_string()));
    entries[at++] = {borrowed_text(key, !trust.whole),
                     from_json(value, trusted ? Trust{.whole = true} : trust)};
  }
  return Value::of(
      arena_.make(Dict{.entries = entries.data(), .size = at, .capacity = entries.size()}));
}

Value Runtime::from_json(const json::Value& value, const Trust& trust) {
  const Depth depth(*this);
  step();
  switch (value.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::of(value.get_bool());
    case boost::json::kind::int64:
      return Value::of(value.get_int64());
    case boost::json::kind::uint64:  // beyond int64_t: the nearest number that templates have
      return Value::of(static_cast<double>(value.get_uint64()));
    case boost::json::kind::double_:
      return Value::of(value.get_double());
    case boost::json::kind::string:
      return borrowed_text(value.get_string(), !trust.whole);
    case boost::json::kind::object:
      return from_object(value.get_object(), trust);
    case boost::json::kind::array:
      break;
  }
  const json::Array& array = value.get_array();
  const std::span<Value> items = arena_.array<Value>(array.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = from_json(array[i], trust);
  return Value::of(
      arena_.make(List{.items = items.data(), .size = items.size(), .capacity = items.size()}));
}

Value Runtime::slice(const Text& text, size_t begin, size_t end) {
  step();
  Text part{.bytes = text.bytes.substr(begin, end - begin), .markup = text.markup};
  const auto first = static_cast<int64_t>(begin), last = static_cast<int64_t>(end);
  const auto from = std::partition_point(text.literal.begin(), text.literal.end(),
                                         [&](const TextRange& r) { return r.end <= first; });
  const auto to = std::partition_point(from, text.literal.end(),
                                       [&](const TextRange& r) { return r.begin < last; });
  if (begin < end && from < to) {
    const auto ranges = arena_.array<TextRange>(static_cast<size_t>(to - from));
    step(ranges.size() * sizeof(TextRange));
    std::transform(from, to, ranges.begin(), [&](const TextRange& r) {
      return TextRange{std::max(r.begin, first) - first, std::min(r.end, last) - first};
    });
    part.literal = ranges;
  }
  return Value::of(arena_.make(part));
}

Value Runtime::as_markup(const Text& text) {
  Text copy = text;
  copy.markup = true;
  return Value::of(arena_.make(copy));
}

Value Runtime::concat(const Text& a, const Text& b) {
  if (a.markup != b.markup) {
    return a.markup ? concat(a, *escape(*this, b).text) : concat(*escape(*this, a).text, b);
  }
  const size_t size = a.bytes.size() + b.bytes.size();
  const size_t num_ranges = a.literal.size() + b.literal.size();
  check_text_size(size);
  step(b.bytes.size());
  TextBuffer* buffer = a.buffer;
  const bool extends = buffer != nullptr && buffer->size == a.bytes.size() &&
                       buffer->num_ranges == a.literal.size() && buffer->capacity >= size &&
                       buffer->range_capacity >= num_ranges;
  if (!extends) {
    step(a.bytes.size() + a.literal.size() * sizeof(TextRange));
    // Twice the room, so that appending n pieces copies each byte a bounded number of times.
    const std::span<char> bytes = arena_.array<char>(size * 2);
    const std::span<TextRange> ranges = arena_.array<TextRange>(num_ranges * 2);
    std::copy(a.bytes.begin(), a.bytes.end(), bytes.begin());
    std::copy(a.literal.begin(), a.literal.end(), ranges.begin());
    buffer = arena_.make(TextBuffer{.bytes = bytes.data(),
                                    .capacity = bytes.size(),
                                    .ranges = ranges.data(),
                                    .range_capacity = ranges.size()});
  }
  std::copy(b.bytes.begin(), b.bytes.end(), buffer->bytes + a.bytes.size());
  const auto shift = static_cast<int64_t>(a.bytes.size());
  std::transform(b.literal.begin(), b.literal.end(), buffer->ranges + a.literal.size(),
                 [&](const TextRange& r) {
                   return TextRange{r.begin + shift, r.end + shift};
                 });
  buffer->size = size;
  buffer->num_ranges = num_ranges;
  return Value::of(arena_.make(Text{.bytes = {buffer->bytes, size},
                                    .literal = {buffer->ranges, num_ranges},
                                    .markup = a.markup,
                                    .buffer = buffer}));
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!literal_.empty() && literal_.back().end == static_cast<int64_t>(begin)) {
    literal_.back().end = static_cast<int64_t>(end);
  } else {
    literal_.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
}

void TextBuilder::append(std::string_view bytes, bool literal) {
  runtime_.check_text_size(bytes_.size() + bytes.size());
  runtime_.step(bytes.size());
  if (literal) mark(bytes_.size(), bytes_.size() + bytes.size());
  bytes_ += bytes;
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  runtime_.check_text_size(bytes_.size() + end - begin);
  runtime_.step(end - begin + text.literal.size() * sizeof(TextRange));
  for (const TextRange& range : text.literal) {
    const size_t from = std::max(static_cast<size_t>(range.begin), begin);
    const size_t to = std::min(static_cast<size_t>(range.end), end);
    if (from < to) mark(bytes_.size() + from - begin, bytes_.size() + to - begin);
  }
  bytes_ += text.bytes.substr(begin, end - begin);
}

Value TextBuilder::finish() {
  Value result = runtime_.text(bytes_);
  if (literal_.empty()) return result;
  Text copy = *result.text;
  copy.literal = runtime_.arena().copy(std::span<const TextRange>(literal_));
  return Value::of(runtime_.arena().make(copy));
}

}  // namespace hasten::text::jinja
