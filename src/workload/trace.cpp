// SPDX-License-Identifier: Apache-2.0
// Reading traces, line by line, within limits.
#include "workload/trace.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/nearest_name.h"
#include "base/printable.h"

namespace hasten::workload {
namespace {

constexpr int64_t kMaxDeadlineMs = int64_t{7} * 24 * 3600 * 1000;  // as a request may have
constexpr int64_t kMaxProgramBytes = 256;                          // likewise
constexpr int64_t kMaxCallsLeft = 1'000'000;                       // likewise

/// What stands where in a file, for errors.
struct Place {
  std::string_view name;
  int64_t line = 0;  // from 1
};

template <class... Args>
[[noreturn]] void bad_line(const Place& place, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::invalid_data, "{} line {}: {}", place.name, place.line,
       fmt::format(format, std::forward<Args>(args)...));
}

/// Takes the text up to the next newline off `rest`; without the carriage return.
std::string_view next_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A number of tokens in [1, limit].
int64_t check_tokens(std::optional<int64_t> count, std::string_view field, int64_t limit,
                     const Place& place) {
  if (!count || *count < 1 || *count > limit)
    bad_line(place, "{} must be a whole number from 1 to {}", field, limit);
  return *count;
}

// ---- CSV ----------------------------------------------------------------------------------------

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

/// Microseconds since 1970 of "2023-11-16 18:15:46.6805900", with nothing, Z or an offset such as
/// +00:00 behind it; nullopt for anything else.
std::optional<int64_t> parse_date(std::string_view text) {
  const auto digits = [&](size_t begin, size_t count) -> std::optional<int64_t> {
    if (text.size() < begin + count) return std::nullopt;
    const std::string_view part = text.substr(begin, count);
    if (part.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return whole_number(part);
  };
  constexpr std::string_view kForm = "0000-00-00 00:00:00";
  if (text.size() < kForm.size()) return std::nullopt;
  for (const size_t i : {4, 7, 13, 16})
    if (text[i] != kForm[i]) return std::nullopt;
  if (text[10] != ' ' && text[10] != 'T') return std::nullopt;
  const auto year = digits(0, 4), month = digits(5, 2), day = digits(8, 2);
  const auto hour = digits(11, 2), minute = digits(14, 2), second = digits(17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;

  std::string_view rest = text.substr(kForm.size());
  int64_t fraction_us = 0;
  if (rest.starts_with('.')) {
    const size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    if (end < 2) return std::nullopt;
    int64_t unit = 100'000;
    for (size_t i = 1; i < end && unit > 0; ++i, unit /= 10) fraction_us += unit * (rest[i] - '0');
    rest.remove_prefix(end);
  }
  int64_t offset_minutes = 0;
  if (rest.size() == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':') {
    const size_t at = text.size() - 6;
    const auto hours = digits(at + 1, 2), minutes = digits(at + 4, 2);
    if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
    offset_minutes = (rest[0] == '-' ? -1 : 1) * (*hours * 60 + *minutes);
  } else if (!rest.empty() && rest != "Z") {
    return std::nullopt;
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (((days * 24 + *hour) * 60 + *minute - offset_minutes) * 60 + *second) * 1'000'000 +
         fraction_us;
}

void parse_csv(std::string_view text, std::string_view name, const TraceLimits& limits,
               Trace& trace) {
  constexpr std::array<std::string_view, 3> kColumns = {"TIMESTAMP", "ContextTokens",
                                                        "GeneratedTokens"};
  std::array<size_t, 3> columns{};
  const std::vector<std::string_view> header = split(next_line(text));
  for (size_t c = 0; c < kColumns.size(); ++c) {
    const auto found = std::find(header.begin(), header.end(), kColumns[c]);
    if (found == header.end())
      fail(ErrorCode::invalid_data,
           "{} is no trace: a CSV file must have the column {} in its first line, and JSON lines "
           "begin with {{",
           name, kColumns[c]);
    columns[c] = static_cast<size_t>(found - header.begin());
  }
  trace.has_times = true;
  for (Place place{name, 2}; !text.empty(); ++place.line) {
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const std::vector<std::string_view> cells = split(line);
    if (cells.size() != header.size())
      bad_line(place, "{} cells, but the header has {}", cells.size(), header.size());
    const auto time = parse_date(cells[columns[0]]);
    if (!time)
      bad_line(place, "TIMESTAMP {} is no time such as 2023-11-16 18:15:46.68",
               printable(cells[columns[0]], 40));
    TraceRequest& request = trace.requests.emplace_back();
    request.line = place.line;
    request.time_us = *time;
    request.prompt_tokens =
        check_tokens(whole_number(cells[columns[1]]), kColumns[1], limits.tokens, place);
    request.output_tokens =
        check_tokens(whole_number(cells[columns[2]]), kColumns[2], limits.tokens, place);
    if (std::ssize(trace.requests) > limits.requests)
      bad_line(place, "the trace has more than {} requests", limits.requests);
  }
}

// ---- JSON lines ---------------------------------------------------------------------------------

std::optional<int64_t> to_whole(const json::Value& value) {
  if (const auto* number = value.if_int64()) return *number;
  return std::nullopt;
}

/// A field that may be absent; then `otherwise`.
int64_t tokens_field(const json::Object& object, std::string_view field, int64_t otherwise,
                     const TraceLimits& limits, const Place& place) {
  const json::Value* value = object.if_contains(field);
  return value == nullptr ? otherwise : check_tokens(to_whole(*value), field, limits.tokens, place);
}

/// Seconds or milliseconds as microseconds.
int64_t time_field(const json::Value& value, std::string_view field, double us_per_unit,
                   const Place& place) {
  if (value.is_number()) {
    const double us = value.to_number<double>() * us_per_unit;
    if (us >= 0 && us <= static_cast<double>(kMaxSeconds) * 1e6) return std::llround(us);
  }
  bad_line(place, "{} must be a time from 0 to {} seconds", field, kMaxSeconds);
}

std::string string_field(const json::Object& object, std::string_view field, const Place& place) {
  const json::Value* value = object.if_contains(field);
  if (value == nullptr) return {};
  if (!value->is_string()) bad_line(place, "{} must be a string", field);
  return std::string(value->get_string());
}

std::vector<int64_t> read_blocks(const json::Value& value, std::string_view field,
                                 const Place& place) {
  if (!value.is_array()) bad_line(place, "{} must be a list of whole numbers", field);
  std::vector<int64_t> blocks;
  blocks.reserve(value.get_array().size());
  for (const json::Value& item : value.get_array()) {
    const auto id = to_whole(item);
    if (!id) bad_line(place, "{} must be a list of whole numbers", field);
    blocks.push_back(*id);
  }
  return blocks;
}

TraceRequest read_mooncake(const json::Object& object, const TraceLimits& limits,
                           const Place& place) {
  TraceRequest request;
  for (const std::string_view field : {"timestamp", "output_length"})
    if (!object.contains(field)) bad_line(place, "{} is missing", field);
  request.time_us = time_field(object.at("timestamp"), "timestamp", 1e3, place);
  request.prompt_tokens = tokens_field(object, "input_length", 0, limits, place);
  request.output_tokens = tokens_field(object, "output_length", 0, limits, place);
  if (const json::Value* ids = object.if_contains("hash_ids"))
    request.blocks = read_blocks(*ids, "hash_ids", place);
  return request;
}

/// The text of a prompt: `prompt`, or the first of `turns`.
std::string read_text(const json::Object& object, const Place& place) {
  const json::Value* turns = object.if_contains("turns");
  if (turns == nullptr) return string_field(object, "prompt", place);
  if (!turns->is_array() || turns->get_array().empty() || !turns->get_array()[0].is_string())
    bad_line(place, "turns must be a list that begins with a string");
  return std::string(turns->get_array()[0].get_string());
}

/// Of whose calls it is one, how many come after it, and the pause before it.
void read_program(const json::Object& object, TraceRequest& request, const Place& place) {
  request.program_id = string_field(object, "program_id", place);
  if (std::ssize(request.program_id) > kMaxProgramBytes)
    bad_line(place, "program_id has {} bytes; at most {} are allowed", request.program_id.size(),
             kMaxProgramBytes);
  if (const json::Value* left = object.if_contains("program_calls_left")) {
    const auto value = to_whole(*left);
    if (!value || *value < 0 || *value > kMaxCallsLeft)
      bad_line(place, "program_calls_left must be a whole number from 0 to {}", kMaxCallsLeft);
    request.program_calls_left = static_cast<int32_t>(*value);
  }
  const json::Value* pause = object.if_contains("pause_ms");
  if (pause == nullptr) return;
  if (object.contains("time_s"))
    bad_line(place, "time_s and pause_ms: a request comes at a time or after another, not both");
  if (request.program_id.empty())
    bad_line(place, "pause_ms needs a program_id: the request comes after another one of that");
  request.pause_us = time_field(*pause, "pause_ms", 1e3, place);
}

/// Knows the fields of our own lines.
class Fields {
 public:
  /// Refuses what is none of them; beside a text, where files of tasks have others, what looks like
  /// one mistyped is a doubt.
  void check(const json::Object& object, const Place& place, std::vector<std::string>& doubts) {
    const bool has_text = object.contains("prompt") || object.contains("turns");
    for (const auto& entry : object) {
      const std::string_view field = entry.key();
      if (std::ranges::find(names_, field) != names_.end()) continue;
      if (!has_text) refuse(field, place);
      if (std::ssize(judged_) == kMostJudged || !judged_.emplace(field).second) continue;
      const std::string nearest = nearest_name(field, names_);
      const int64_t longer = std::ssize(field) - std::ssize(nearest);
      if (nearest.empty() || longer > kMostLonger || longer < -kMostLonger) continue;
      doubts.push_back(fmt::format("{} line {}: the field {} is ignored; the nearest known is {}",
                                   place.name, place.line, printable(field, 40), nearest));
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view field, const Place& place) const {
    const std::string nearest = nearest_name(field, names_);
    if (!nearest.empty())
      bad_line(place, "there is no field {}; the nearest is {}", printable(field, 40), nearest);
    bad_line(place, "there is no field {}; there are {}", printable(field, 40),
             fmt::join(names_, ", "));
  }

  // Files of tasks have the same few fields in all lines.
  static constexpr int64_t kMostJudged = 64;
  static constexpr int64_t kMostLonger = 2;  // prompt_id is no prompt
  const std::vector<std::string> names_ = {"time_s",
                                           "prompt_tokens",
                                           "output_tokens",
                                           "blocks",
                                           "prompt",
                                           "turns",
                                           "tenant",
                                           "priority",
                                           "deadline_ms",
                                           "program_id",
                                           "program_calls_left",
                                           "pause_ms"};
  std::set<std::string, std::less<>> judged_;
};

TraceRequest read_own(const json::Object& object, const TraceLimits& limits, const Place& place) {
  TraceRequest request;
  if (const json::Value* time = object.if_contains("time_s"))
    request.time_us = time_field(*time, "time_s", 1e6, place);
  request.text = read_text(object, place);
  request.prompt_tokens = tokens_field(object, "prompt_tokens", 0, limits, place);
  request.output_tokens = tokens_field(object, "output_tokens", 0, limits, place);
  if (request.prompt_tokens == 0 && request.text.empty())
    bad_line(place, "neither prompt_tokens nor a prompt: one of them is needed");
  if (const json::Value* ids = object.if_contains("blocks"))
    request.blocks = read_blocks(*ids, "blocks", place);
  request.tenant = string_field(object, "tenant", place);
  if (const json::Value* priority = object.if_contains("priority")) {
    const auto value = to_whole(*priority);
    if (!value || *value < INT32_MIN || *value > INT32_MAX)
      bad_line(place, "priority must be a whole number of 32 bits");
    request.priority = static_cast<int32_t>(*value);
  }
  if (const json::Value* deadline = object.if_contains("deadline_ms")) {
    const auto value = to_whole(*deadline);
    if (!value || *value < 1 || *value > kMaxDeadlineMs)
      bad_line(place, "deadline_ms must be a whole number from 1 to {}", kMaxDeadlineMs);
    request.deadline_us = 1000 * *value;
  }
  read_program(object, request, place);
  return request;
}

/// Links each request that has a pause to the last one before it of its program.
class Chains {
 public:
  void add(std::vector<TraceRequest>& requests, bool has_pause, const Place& place) {
    const auto index = static_cast<int64_t>(requests.size()) - 1;
    TraceRequest& request = requests.back();
    if (request.program_id.empty()) return;
    const auto [last, is_first] =
        last_.emplace(std::pair(request.tenant, request.program_id), index);
    if (has_pause && is_first)
      bad_line(place, "pause_ms, but no line before it has the program_id {} and its tenant",
               printable(request.program_id, 40));
    if (has_pause) {
      request.follows = last->second;
      // So that it stands behind it.
      request.time_us = requests[static_cast<size_t>(last->second)].time_us;
      any_ = true;
    }
    last->second = index;
  }
  /// Links have been made.
  bool any() const { return any_; }

 private:
  std::map<std::pair<std::string, std::string>, int64_t> last_;  // by tenant and program
  bool any_ = false;
};

/// Sorts by time and moves what requests say of each other.
void sort_chained(std::vector<TraceRequest>& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return requests[i].time_us; });
  std::vector<int64_t> moved(order.size());
  for (size_t i = 0; i < order.size(); ++i) moved[order[i]] = static_cast<int64_t>(i);
  std::vector<TraceRequest> sorted;
  sorted.reserve(requests.size());
  for (const size_t i : order) {
    TraceRequest& request = sorted.emplace_back(std::move(requests[i]));
    if (request.follows >= 0) request.follows = moved[static_cast<size_t>(request.follows)];
  }
  requests = std::move(sorted);
}

void parse_json_lines(std::string_view text, std::string_view name, const TraceLimits& limits,
                      Trace& trace) {
  int64_t total_blocks = 0;
  Chains chains;
  Fields fields;
  for (Place place{name, 1}; !text.empty(); ++place.line) {
    const std::string_view line = next_line(text);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const json::Value value = json::parse(line, fmt::format("{} line {}", name, place.line),
                                          {.max_bytes = limits.line_bytes, .max_depth = 8});
    if (!value.is_object()) bad_line(place, "not a JSON object");
    const json::Object& object = value.get_object();
    const bool is_mooncake = object.contains("input_length");
    if (!is_mooncake) fields.check(object, place, trace.doubts);
    TraceRequest request =
        is_mooncake ? read_mooncake(object, limits, place) : read_own(object, limits, place);
    const bool has_time = is_mooncake || object.contains("time_s");
    const bool has_pause = !is_mooncake && object.contains("pause_ms");
    if (trace.requests.empty()) trace.has_times = has_time;
    if (trace.has_times != has_time && !has_pause)
      bad_line(place, "some lines have a time and some have none");
    const int64_t most = ceil_div(request.prompt_tokens, trace.block_tokens);
    if (std::ssize(request.blocks) > most)
      bad_line(place, "{} blocks of {} tokens, but the prompt has only {} tokens",
               request.blocks.size(), trace.block_tokens, request.prompt_tokens);
    total_blocks += std::ssize(request.blocks);
    if (total_blocks > limits.total_blocks)
      bad_line(place, "the trace has more than {} blocks", limits.total_blocks);
    request.line = place.line;
    trace.requests.push_back(std::move(request));
    chains.add(trace.requests, has_pause, place);
    if (std::ssize(trace.requests) > limits.requests)
      bad_line(place, "the trace has more than {} requests", limits.requests);
  }
  if (chains.any()) sort_chained(trace.requests);
}

/// Where a program is named, the last request of each in order of time; one without is a program by
/// itself.
void mark_ends(std::vector<TraceRequest>& requests) {
  const auto has_program = [](const TraceRequest& request) { return !request.program_id.empty(); };
  if (std::ranges::none_of(requests, has_program)) return;
  std::set<std::pair<std::string_view, std::string_view>> ended;  // by tenant and program
  for (auto request = requests.rbegin(); request != requests.rend(); ++request)
    request->ends_program =
        !has_program(*request) || ended.emplace(request->tenant, request->program_id).second;
}

}  // namespace

Trace parse_trace(std::string_view text, std::string_view name, const TraceLimits& limits) {
  Trace trace;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte-order mark
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    parse_json_lines(text, name, limits, trace);
  } else {
    parse_csv(text, name, limits, trace);
  }
  if (trace.requests.empty()) fail(ErrorCode::invalid_data, "{} has no requests", name);
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  mark_ends(trace.requests);
  const int64_t start = trace.requests.front().time_us;
  for (TraceRequest& request : trace.requests) request.time_us -= start;
  return trace;
}

Trace read_trace(const std::filesystem::path& path, const TraceLimits& limits) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return parse_trace(text, path.string(), limits);
}

void keep_first(Trace& trace, int64_t count) {
  if (count < std::ssize(trace.requests)) trace.requests.resize(static_cast<size_t>(count));
}

void scale_lengths(Trace& trace, double factor, const TraceLimits& limits) {
  HASTEN_CHECK(factor > 0 && factor <= 1024);
  const auto scaled = [&](int64_t tokens) {
    const auto value = std::llround(static_cast<double>(tokens) * factor);
    if (value > limits.tokens)
      fail_param("scale_lengths",
                 "--scale-lengths {} makes {} of {} tokens; a prompt or answer may have {}", factor,
                 value, tokens, limits.tokens);
    return tokens == 0 ? 0 : std::max<int64_t>(value, 1);
  };
  trace.block_tokens = scaled(trace.block_tokens);
  for (TraceRequest& request : trace.requests) {
    request.prompt_tokens = scaled(request.prompt_tokens);
    request.output_tokens = scaled(request.output_tokens);
    const int64_t most = ceil_div(request.prompt_tokens, trace.block_tokens);
    if (std::ssize(request.blocks) > most) request.blocks.resize(static_cast<size_t>(most));
  }
}

}  // namespace hasten::workload
