// SPDX-License-Identifier: Apache-2.0
// Budgets, and the making of values in the arena.
#include "text/jinja/runtime.h"

#include <ctime>

#include "base/checked.h"
#include "base/json.h"
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

// What a string holds without asking the heap.
const size_t kInline = std::string().capacity();

}  // namespace

Runtime::Runtime(const Options& options)
    : options_(options),
      arena_(INT64_MAX, "values and strings"),
      start_us_(thread_time_us()),
      max_steps_(options.limits.steps),
      max_output_bytes_(options.limits.output_bytes),
      max_time_us_(options.limits.time_us) {
  arena_.set_line(&line_);
}

void Runtime::begin() {
  const Limits& limits = options_.limits;
  const int64_t given = given_bytes_ + arena_.used();
  const auto with_given = [&](int64_t limit, int64_t per_byte) {
    const auto more = checked_mul(given, per_byte);
    return more ? checked_add(limit, *more).value_or(INT64_MAX) : INT64_MAX;
  };
  max_steps_ = with_given(limits.steps, limits.steps_per_byte);
  max_output_bytes_ = with_given(limits.output_bytes, limits.output_per_byte);
  max_time_us_ =
      checked_add(limits.time_us, given * limits.time_ns_per_byte / 1000).value_or(INT64_MAX);
  const int64_t memory = with_given(limits.memory_bytes, limits.memory_per_byte);
  arena_.set_limit(checked_add(arena_.used(), memory).value_or(INT64_MAX));
  start_us_ = thread_time_us();
  steps_ = next_check_ = 0;
}

void Runtime::check_budget() {
  if (steps_ > max_steps_) {
    fail(ErrorCode::resource_exhausted, "the chat template exceeds the limit of {} steps (line {})",
         max_steps_, line_);
  }
  if (thread_time_us() - start_us_ > max_time_us_) {
    fail(ErrorCode::resource_exhausted,
         "the chat template exceeds the time limit of {} ms (line {})", max_time_us_ / 1000, line_);
  }
  next_check_ = std::min(steps_ + kUnitsPerCheck, max_steps_);
}

void Runtime::too_deep() const {
  fail(ErrorCode::resource_exhausted,
       "the chat template exceeds the depth limit of {} nested levels (line {})",
       options_.limits.depth, line_);
}

void Runtime::fail_at_line(const std::string& message) const {
  fail(ErrorCode::invalid_argument, "the chat template failed in line {}: {}", line_,
       shortened(message));
}

std::string shortened(std::string_view text) {
  constexpr size_t kLongest = 1000;  // bytes: more than any published template's refusals
  if (text.size() <= kLongest) return std::string(text);
  size_t end = kLongest;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;  // whole characters
  return fmt::format("{}…", text.substr(0, end));
}

void Runtime::undefined_error(const Value& value) const {
  const Missing* missing = value.missing;
  if (missing == nullptr) error("a value is undefined");
  if (missing->owner.empty()) error("'{}' is undefined", missing->name);
  error("'{}' has no attribute '{}'", missing->owner, missing->name);
}

void Runtime::check_text_size(size_t bytes) const {
  if (bytes > static_cast<size_t>(max_output_bytes_)) {
    fail(ErrorCode::resource_exhausted,
         "the chat template exceeds the output limit of {} bytes (line {})", max_output_bytes_,
         line_);
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

std::span<Value> Runtime::values(size_t count) {
  if (spare_.size() < count) return arena_.array<Value>(count);
  return std::exchange(spare_, {});
}

void Runtime::reuse(List& list) {
  if (list.capacity > spare_.size()) spare_ = {list.items, list.capacity};
  list = {};
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

void Runtime::require_hashable(const Value& key) {
  const Depth depth(*this);
  if (key.kind == Kind::list || key.kind == Kind::dict)
    error("unhashable type: '{}'", type_name(key));
  if (key.kind != Kind::tuple) return;
  for (const Value& item : key.list->view()) require_hashable(item);
}

const Value* Runtime::find(const Dict& dict, const Value& key) {
  if (key.is_string()) return find(dict, key.text->bytes);
  require_hashable(key);
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
    given_bytes_ += static_cast<int64_t>(key.size());
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
    case boost::json::kind::uint64:
      return Value::of(value.get_uint64());
    case boost::json::kind::double_:
      return Value::of(value.get_double());
    case boost::json::kind::string:
      given_bytes_ += static_cast<int64_t>(value.get_string().size());
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

/// Doubles the room when `bytes` more do not fit: paid before it is taken.
void TextBuilder::make_room(size_t bytes) {
  const size_t size = bytes_.size() + bytes;
  runtime_.check_text_size(size);
  const size_t before = bytes_.capacity();
  if (size <= before) return;
  const size_t after = std::max(size, before * 2);
  lease_.grow(after);
  bytes_.reserve(after);
  if (before > kInline) lease_.shrink(before);
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!literal_.empty() && literal_.back().end == static_cast<int64_t>(begin)) {
    literal_.back().end = static_cast<int64_t>(end);
  } else {
    const size_t before = literal_.capacity();
    if (literal_.size() == before) {
      const size_t after = std::max<size_t>(4, before * 2);
      lease_.grow(after * sizeof(TextRange));
      literal_.reserve(after);
      lease_.shrink(before * sizeof(TextRange));
    }
    literal_.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
}

void TextBuilder::append(std::string_view bytes, bool literal) {
  make_room(bytes.size());
  runtime_.step(bytes.size());
  if (literal) mark(bytes_.size(), bytes_.size() + bytes.size());
  bytes_ += bytes;
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  make_room(end - begin);
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
