// SPDX-License-Identifier: Apache-2.0
// The functions that every template can call.
#include <ctime>
#include <utility>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

// Jinja's sandbox has the same bound.
constexpr uint64_t kMaxRange = 100'000;

Value range(Runtime& rt, Self, Given arguments) {
  const auto [a, b, c] = bind(rt, arguments, {"start", "stop", "step"}, 1);
  const int64_t start = b != nullptr ? integer_or(rt, a, 0) : 0;
  const int64_t stop = integer_or(rt, b != nullptr ? b : a, 0);
  const int64_t step = integer_or(rt, c, 1);
  if (step == 0) rt.error("range() arg 3 must not be zero");
  const bool empty = step > 0 ? start >= stop : start <= stop;
  if (empty) return rt.list({});
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t count = (distance - 1) / stride + 1;
  if (count > kMaxRange) {
    fail(ErrorCode::resource_exhausted,
         "the chat template exceeds the limit of {} items in a range: it asks for {} (line {})",
         kMaxRange, count, rt.line());
  }
  rt.step(count * sizeof(Value));
  const auto items = rt.values(count);
  for (uint64_t i = 0; i < count; ++i)
    items[i] = Value::of(
        static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step)));
  const List list{.items = items.data(), .size = count, .capacity = items.size()};
  return Value::of(rt.arena().make(list));
}

Value dict(Runtime& rt, Self, Given arguments) {
  const Value result = rt.dict();
  update_dict(rt, *result.dict, arguments);
  return result;
}

Value name_space(Runtime& rt, Self self, Given arguments) {
  return Value::of(dict(rt, self, arguments).dict, Kind::name_space);
}

Value raise_exception(Runtime& rt, Self, Given arguments) {
  const auto [message] = bind(rt, arguments, {"message"}, 1);
  const std::string why = shortened(text_of(rt, *message).bytes);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("the chat template refused the conversation{}{}", why.empty() ? "" : ": ", why),
      "messages");
}

Value strftime_now(Runtime& rt, Self, Given arguments) {
  const auto [format] = bind(rt, arguments, {"format"}, 1);
  const auto& clock = rt.options().unix_time_s;
  const std::time_t now = clock ? clock() : std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char buffer[256];  // longer than any date that serves a prompt
  const std::string pattern(text_of(rt, *format).bytes);
  if (pattern.empty()) return rt.borrowed_text("");
  const size_t size = std::strftime(buffer, sizeof(buffer), pattern.c_str(), &utc);
  return rt.text({buffer, size});
}

/// joiner(separator): nothing when first called, the separator from then on.
Value join_next(Runtime&, Self self, Given) {
  const Value separator = self.list->items[0];
  return std::exchange(self.list->items[1], separator);
}

Value joiner(Runtime& rt, Self, Given arguments) {
  const auto [separator] = bind(rt, arguments, {"sep"});
  const Value state[] = {separator != nullptr ? *separator : rt.borrowed_text(", "),
                         rt.borrowed_text("")};
  return Value::of(
      rt.arena().make(Function{.name = "joiner", .native = join_next, .self = rt.list(state)}));
}

/// What a cycler's functions share, out of the template's reach: the namespace that shows
/// `current`, the items, and the position among them.
enum CyclerState : size_t { kShown, kItems, kPosition };

Value move_cycler(Runtime& rt, const List& state, bool restart) {
  const List& items = *state.items[kItems].list;
  Value& position = state.items[kPosition];
  const Value before = items.items[position.integer];
  const auto next = (position.integer + 1) % static_cast<int64_t>(items.size);
  position = Value::of(restart ? int64_t{0} : next);
  rt.set(*state.items[kShown].dict, rt.borrowed_text("current"), items.items[position.integer]);
  return restart ? Value::none() : before;
}
Value next_of_cycler(Runtime& rt, Self self, Given) { return move_cycler(rt, *self.list, false); }
Value reset_cycler(Runtime& rt, Self self, Given) { return move_cycler(rt, *self.list, true); }

Value cycler(Runtime& rt, Self, Given arguments) {
  if (arguments.positional.empty()) rt.error("at least one item has to be provided");
  const Value shown = Value::of(rt.dict().dict, Kind::name_space);
  const Value state[] = {shown, rt.list(arguments.positional), Value::of(int64_t{0})};
  const Value self = rt.list(state);
  const auto show = [&](std::string_view name, const Value& value) {
    rt.set(*shown.dict, rt.borrowed_text(name), value);
  };
  const auto method = [&](std::string_view name, Native native) {
    show(name, Value::of(rt.arena().make(Function{.name = name, .native = native, .self = self})));
  };
  show("current", arguments.positional[0]);
  method("next", next_of_cycler);
  method("reset", reset_cycler);
  return shown;
}

constexpr NamedNative kFunctionsByName[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", name_space},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace

const std::span<const NamedNative> kFunctions = kFunctionsByName;

}  // namespace hasten::text::jinja
