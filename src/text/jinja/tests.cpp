// SPDX-License-Identifier: Apache-2.0
// What may stand after `is`.
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"

namespace hasten::text::jinja {
namespace {

using Self = const Value&;
using Given = const Arguments&;

bool is_mapping(Self v) { return v.kind == Kind::dict; }
bool is_sequence(Self v) {
  return v.is_string() || v.kind == Kind::list || v.kind == Kind::tuple || is_mapping(v) ||
         v.is_undefined();
}
bool is_iterable(Self v) {
  return is_sequence(v) || v.kind == Kind::generator || v.kind == Kind::loop;
}

template <bool (*kPredicate)(Self)>
Value test(Runtime&, Self self, Given) {
  return Value::of(kPredicate(self));
}

bool is_defined(Self v) { return !v.is_undefined(); }
bool is_undefined(Self v) { return v.is_undefined(); }
bool is_none(Self v) { return v.is_none(); }
bool is_string(Self v) { return v.is_string(); }
bool is_number(Self v) { return v.is_number(); }
bool is_integer(Self v) { return v.kind == Kind::integer || v.kind == Kind::large; }
bool is_real(Self v) { return v.kind == Kind::real; }
bool is_boolean(Self v) { return v.kind == Kind::boolean; }
bool is_true(Self v) { return v.kind == Kind::boolean && v.boolean; }
bool is_false(Self v) { return v.kind == Kind::boolean && !v.boolean; }
bool is_escaped(Self v) { return v.is_string() && v.text->markup; }
/// Jinja's undefined values can be called too, though that is an error.
bool is_callable(Self v) {
  return v.kind == Kind::function || v.kind == Kind::loop || v.is_undefined();
}

template <Comparison kComparison>
Value compares(Runtime& rt, Self self, Given arguments) {
  const auto [other] = bind(rt, arguments, {"other"}, 1);
  return Value::of(compare(rt, kComparison, self, *other));
}

Value divisible_by(Runtime& rt, Self self, Given arguments) {
  const auto [divisor] = bind(rt, arguments, {"num"}, 1);
  const Value rest = binary(rt, BinaryOperator::modulo, self, *divisor);
  return Value::of(equal(rt, rest, Value::of(int64_t{0})));
}

template <int kRest>
Value has_parity(Runtime& rt, Self self, Given) {
  const Value rest = binary(rt, BinaryOperator::modulo, self, Value::of(int64_t{2}));
  return Value::of(equal(rt, rest, Value::of(int64_t{kRest})));
}

template <bool kUpper>
Value has_text_case(Runtime& rt, Self self, Given) {
  return Value::of(has_case(rt, text_of(rt, self), kUpper));
}

Value same_as(Runtime& rt, Self self, Given arguments) {
  const auto [other] = bind(rt, arguments, {"other"}, 1);
  const bool container = self.is_sequence() || self.kind == Kind::dict;
  if (container) return Value::of(self.kind == other->kind && self.list == other->list);
  return Value::of(self.kind == other->kind && equal(rt, self, *other));
}

Value is_filter(Runtime& rt, Self self, Given) {
  return Value::of(find_filter(text_of(rt, self).bytes) != nullptr);
}
Value is_test(Runtime& rt, Self self, Given) {
  return Value::of(find_test(text_of(rt, self).bytes) != nullptr);
}

constexpr NamedNative kTestsByName[] = {
    {"!=", compares<Comparison::ne>},
    {"<", compares<Comparison::lt>},
    {"<=", compares<Comparison::le>},
    {"==", compares<Comparison::eq>},
    {">", compares<Comparison::gt>},
    {">=", compares<Comparison::ge>},
    {"boolean", test<is_boolean>},
    {"callable", test<is_callable>},
    {"defined", test<is_defined>},
    {"divisibleby", divisible_by},
    {"eq", compares<Comparison::eq>},
    {"equalto", compares<Comparison::eq>},
    {"escaped", test<is_escaped>},
    {"even", has_parity<0>},
    {"false", test<is_false>},
    {"filter", is_filter},
    {"float", test<is_real>},
    {"ge", compares<Comparison::ge>},
    {"greaterthan", compares<Comparison::gt>},
    {"gt", compares<Comparison::gt>},
    {"in", compares<Comparison::in>},
    {"integer", test<is_integer>},
    {"iterable", test<is_iterable>},
    {"le", compares<Comparison::le>},
    {"lessthan", compares<Comparison::lt>},
    {"lower", has_text_case<false>},
    {"lt", compares<Comparison::lt>},
    {"mapping", test<is_mapping>},
    {"ne", compares<Comparison::ne>},
    {"none", test<is_none>},
    {"number", test<is_number>},
    {"odd", has_parity<1>},
    {"sameas", same_as},
    {"sequence", test<is_sequence>},
    {"string", test<is_string>},
    {"test", is_test},
    {"true", test<is_true>},
    {"undefined", test<is_undefined>},
    {"upper", has_text_case<true>},
};

}  // namespace

const std::span<const NamedNative> kTests = kTestsByName;

}  // namespace hasten::text::jinja
