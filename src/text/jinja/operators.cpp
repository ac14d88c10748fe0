// SPDX-License-Identifier: Apache-2.0
// Truth, equality, order and arithmetic with Python's semantics; integers that overflow are errors.
#include "text/jinja/operators.h"

#include <cmath>

#include "base/checked.h"
#include "text/jinja/format.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace hasten::text::jinja {
namespace {

using enum BinaryOperator;

std::string_view symbol(BinaryOperator op) {
  switch (op) {
    case add:
      return "+";
    case subtract:
      return "-";
    case multiply:
      return "*";
    case divide:
      return "/";
    case floor_divide:
      return "//";
    case modulo:
      return "%";
    case power:
      return "**";
    case concat:
      return "~";
  }
  return "?";
}

Value checked(Runtime& rt, std::optional<int64_t> result) {
  if (!result) rt.error("an integer exceeds 64 bits");
  return Value::of(*result);
}

std::optional<int64_t> checked_sub(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<int64_t> checked_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0) {
      const auto product = checked_mul(result, base);
      if (!product) return std::nullopt;
      result = *product;
    }
    exponent >>= 1;
    if (exponent == 0) return result;
    const auto square = checked_mul(base, base);
    if (!square) return std::nullopt;
    base = *square;
  }
}

double floor_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_arithmetic(Runtime& rt, BinaryOperator op, int64_t a, int64_t b) {
  const bool divides = op == divide || op == floor_divide || op == modulo;
  if (divides && b == 0) rt.error("division by zero");
  switch (op) {
    case add:
      return checked(rt, checked_add(a, b));
    case subtract:
      return checked(rt, checked_sub(a, b));
    case multiply:
      return checked(rt, checked_mul(a, b));
    case divide:
      return Value::of(static_cast<double>(a) / static_cast<double>(b));
    case floor_divide:
      if (b == -1) return checked(rt, checked_sub(0, a));
      return Value::of(a / b - ((a % b != 0) && ((a < 0) != (b < 0))));
    case modulo:
      if (b == -1) return Value::of(int64_t{0});
      return Value::of(a % b + ((a % b != 0) && ((a < 0) != (b < 0)) ? b : 0));
    case power:
      if (b >= 0) return checked(rt, checked_power(a, b));
      if (a == 0) rt.error("0.0 cannot be raised to a negative power");
      return Value::of(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case concat:
      break;
  }
  HASTEN_CHECK(false);
  return {};
}

Value real_arithmetic(Runtime& rt, BinaryOperator op, double a, double b) {
  const bool divides = op == divide || op == floor_divide || op == modulo;
  if (divides && b == 0) rt.error("division by zero");
  switch (op) {
    case add:
      return Value::of(a + b);
    case subtract:
      return Value::of(a - b);
    case multiply:
      return Value::of(a * b);
    case divide:
      return Value::of(a / b);
    case floor_divide: {
      // As Python: what is left over is taken off first, so that the quotient is nearly whole.
      const double quotient = (a - floor_modulo(a, b)) / b;
      if (quotient == 0) return Value::of(std::copysign(0.0, a / b));
      const double whole = std::floor(quotient);
      return Value::of(quotient - whole > 0.5 ? whole + 1 : whole);
    }
    case modulo:
      return Value::of(floor_modulo(a, b));
    case power:
      if (a == 0 && b < 0) rt.error("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) rt.error("complex numbers are not supported");
      return Value::of(std::pow(a, b));
    case concat:
      break;
  }
  HASTEN_CHECK(false);
  return {};
}

Value repeat(Runtime& rt, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = value.is_string() ? value.text->bytes.size() : value.list->size;
  const auto total = checked_mul(times, static_cast<int64_t>(size));
  rt.check_text_size(static_cast<size_t>(total.value_or(INT64_MAX)));
  if (value.is_string()) {
    TextBuilder out(rt);
    for (int64_t i = 0; i < times && size > 0; ++i) out.append(*value.text);
    return value.text->markup ? rt.as_markup(*out.finish().text) : out.finish();
  }
  Value result = rt.list({}, value.kind);
  for (int64_t i = 0; i < times && size > 0; ++i) {
    for (const Value& item : value.list->view()) {
      rt.step();
      rt.append(*result.list, item);
    }
  }
  return result;
}

Value join_lists(Runtime& rt, const Value& a, const Value& b) {
  rt.step((a.list->size + b.list->size) * sizeof(Value));
  const auto items = rt.arena().array<Value>(a.list->size + b.list->size);
  std::copy_n(a.list->items, a.list->size, items.begin());
  std::copy_n(b.list->items, b.list->size, items.begin() + a.list->size);
  List list{.items = items.data(), .size = items.size(), .capacity = items.size()};
  return Value::of(rt.arena().make(list), a.kind);
}

[[noreturn]] void unsupported(Runtime& rt, std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) rt.undefined_error(a);
  if (b.is_undefined()) rt.undefined_error(b);
  rt.error("unsupported operand types for {}: '{}' and '{}'", op, type_name(a), type_name(b));
}

std::partial_ordering order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() <=> b.as_integer();
  if (a.kind == Kind::real || b.kind == Kind::real) return a.as_real() <=> b.as_real();
  if (a.kind == b.kind) return a.large <=> b.large;
  return a.kind == Kind::large ? std::partial_ordering::greater : std::partial_ordering::less;
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.size != b.size) return false;
  for (const Dict::Entry& entry : a.view()) {
    const Value* other = rt.find(b, entry.key);
    if (other == nullptr || !equal(rt, entry.value, *other)) return false;
  }
  return true;
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::large:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::generator:
      return "generator";
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::function:
      return value.function->macro != nullptr ? "Macro" : "function";
  }
  return "object";
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::large:
      return true;
    case Kind::real:
      return value.real != 0;
    case Kind::string:
      return !value.text->bytes.empty();
    case Kind::list:
    case Kind::tuple:
      return value.list->size > 0;
    case Kind::dict:
      return value.dict->size > 0;
    default:
      return true;
  }
}

bool equal(Runtime& rt, const Value& a, const Value& b) {
  const Runtime::Depth depth(rt);
  rt.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      rt.step(std::min(a.text->bytes.size(), b.text->bytes.size()));
      return a.text->bytes == b.text->bytes;
    case Kind::list:
    case Kind::tuple:
      if (a.list->size != b.list->size) return false;
      for (size_t i = 0; i < a.list->size; ++i) {
        if (!equal(rt, a.list->items[i], b.list->items[i])) return false;
      }
      return true;
    case Kind::generator:
      return a.list == b.list;
    case Kind::dict:
      return equal_dicts(rt, *a.dict, *b.dict);
    case Kind::name_space:
      return a.dict == b.dict;
    case Kind::loop:
      return a.loop == b.loop;
    default:
      return a.function == b.function;
  }
}

std::partial_ordering order(Runtime& rt, const Value& a, const Value& b) {
  const Runtime::Depth depth(rt);
  rt.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    // The order of UTF-8 bytes is that of code points.
    rt.step(std::min(a.text->bytes.size(), b.text->bytes.size()));
    return a.text->bytes <=> b.text->bytes;
  }
  if (a.kind == b.kind && (a.kind == Kind::list || a.kind == Kind::tuple)) {
    for (size_t i = 0; i < std::min(a.list->size, b.list->size); ++i) {
      if (!equal(rt, a.list->items[i], b.list->items[i]))
        return order(rt, a.list->items[i], b.list->items[i]);
    }
    return a.list->size <=> b.list->size;
  }
  unsupported(rt, "<", a, b);
}

bool compare(Runtime& rt, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::eq:
      return equal(rt, a, b);
    case Comparison::ne:
      return !equal(rt, a, b);
    case Comparison::lt:
      return order(rt, a, b) < 0;
    case Comparison::le:
      return order(rt, a, b) <= 0;
    case Comparison::gt:
      return order(rt, a, b) > 0;
    case Comparison::ge:
      return order(rt, a, b) >= 0;
    case Comparison::in:
      return contains(rt, b, a);
    case Comparison::not_in:
      return !contains(rt, b, a);
  }
  return false;
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) rt.undefined_error(item);
      rt.error("'in <string>' requires a string, not '{}'", type_name(item));
    }
    rt.step(container.text->bytes.size());
    return find_text(container.text->bytes, item.text->bytes) != std::string_view::npos;
  }
  if (container.kind == Kind::dict) return rt.find(*container.dict, item) != nullptr;
  for (const Value& element : iterate(rt, container)) {
    if (equal(rt, element, item)) return true;
  }
  return false;
}

Value binary(Runtime& rt, BinaryOperator op, const Value& a, const Value& b) {
  rt.step();
  if (op == concat) {
    Text left = *to_text(rt, a).text, right = *to_text(rt, b).text;
    left.markup = right.markup = false;  // `~` joins str(a) and str(b), which are plain
    return rt.concat(left, right);
  }
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral())
      return integer_arithmetic(rt, op, a.as_integer(), b.as_integer());
    if (a.kind == Kind::large && b.is_integral() && b.as_integer() > 0) {
      const auto divisor = static_cast<uint64_t>(b.as_integer());
      if (op == modulo) return Value::of(a.large % divisor);
      if (op == floor_divide) return Value::of(a.large / divisor);
    }
    return real_arithmetic(rt, op, a.as_real(), b.as_real());
  }
  if (op == add && a.is_string() && b.is_string()) return rt.concat(*a.text, *b.text);
  if (op == add && a.kind == b.kind && (a.kind == Kind::list || a.kind == Kind::tuple))
    return join_lists(rt, a, b);
  if (op == modulo && a.is_string()) return format_percent(rt, *a.text, b);
  if (op == multiply) {
    const auto repeatable = [](const Value& v) {
      return v.is_string() || v.kind == Kind::list || v.kind == Kind::tuple;
    };
    if (repeatable(a) && b.is_integral()) return repeat(rt, a, b.as_integer());
    if (repeatable(b) && a.is_integral()) return repeat(rt, b, a.as_integer());
  }
  unsupported(rt, symbol(op), a, b);
}

Value negate(Runtime& rt, const Value& value) {
  rt.step();
  if (value.kind == Kind::real || value.kind == Kind::large) return Value::of(-value.as_real());
  if (value.is_integral()) return checked(rt, checked_sub(0, value.as_integer()));
  if (value.is_undefined()) rt.undefined_error(value);
  rt.error("bad operand type for unary -: '{}'", type_name(value));
}

Value plus(Runtime& rt, const Value& value) {
  if (value.kind == Kind::real || value.kind == Kind::large) return value;
  if (value.is_integral()) return Value::of(value.as_integer());
  if (value.is_undefined()) rt.undefined_error(value);
  rt.error("bad operand type for unary +: '{}'", type_name(value));
}

std::optional<int64_t> length(Runtime& rt, const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      rt.step(value.text->bytes.size());
      return count_chars(value.text->bytes);
    case Kind::list:
    case Kind::tuple:
    case Kind::generator:
      return static_cast<int64_t>(value.list->size);
    case Kind::dict:
      return static_cast<int64_t>(value.dict->size);
    default:
      return std::nullopt;
  }
}

}  // namespace hasten::text::jinja
