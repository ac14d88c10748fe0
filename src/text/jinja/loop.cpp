// SPDX-License-Identifier: Apache-2.0
// Counters, neighbours, cycle and changed of a running loop.
#include "text/jinja/loop.h"

#include "text/jinja/operators.h"

namespace hasten::text::jinja {
namespace {

Value cycle(Runtime& rt, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) rt.error("no items for cycling given");
  return arguments.positional[self.loop->index % arguments.positional.size()];
}

Value changed(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Value now = rt.list(arguments.positional, Kind::tuple);
  if (equal(rt, self.loop->last_changed, now)) return Value::of(false);
  self.loop->last_changed = now;
  return Value::of(true);
}

}  // namespace

std::optional<Value> loop_attribute(Runtime& rt, LoopState& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const auto size = static_cast<int64_t>(loop.items.size());
  if (name == "index") return Value::of(index + 1);
  if (name == "index0") return Value::of(index);
  if (name == "first") return Value::of(index == 0);
  if (name == "last") return Value::of(index + 1 == size);
  if (name == "length") return Value::of(size);
  if (name == "revindex") return Value::of(size - index);
  if (name == "revindex0") return Value::of(size - index - 1);
  if (name == "depth") return Value::of(loop.depth + 1);
  if (name == "depth0") return Value::of(loop.depth);
  if (name == "previtem")
    return index > 0 ? loop.items[loop.index - 1] : rt.missing("previtem", "loop");
  if (name == "nextitem")
    return index + 1 < size ? loop.items[loop.index + 1] : rt.missing("nextitem", "loop");
  const Native method = name == "cycle" ? cycle : name == "changed" ? changed : nullptr;
  if (method == nullptr) return std::nullopt;
  return Value::of(
      rt.arena().make(Function{.name = name, .native = method, .self = Value::of(&loop)}));
}

}  // namespace hasten::text::jinja
