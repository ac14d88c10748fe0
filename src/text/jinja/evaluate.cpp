// SPDX-License-Identifier: Apache-2.0
// Expressions and calls.
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"

namespace hasten::text::jinja {

Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  using Node = Expression::Kind;
  const Runtime::Depth depth(rt_);
  rt_.step();
  switch (expression.kind) {
    case Node::constant:
      return expression.constant;
    case Node::name:
      return look_up(expression.name, scope);
    case Node::list:
    case Node::tuple:
    case Node::dict:
      return display(expression, scope);
    case Node::logical_and:
    case Node::logical_or:
      return logical(expression, scope);
    case Node::logical_not:
      return Value::of(!truthy(evaluate(*expression.items[0], scope)));
    case Node::negate:
      return negate(rt_, evaluate(*expression.items[0], scope));
    case Node::plus:
      return plus(rt_, evaluate(*expression.items[0], scope));
    case Node::conditional:
      return conditional(expression, scope);
    case Node::arithmetic:
      return arithmetic(expression, scope);
    case Node::comparison:
      return comparison(expression, scope);
    case Node::suffixed:
      return suffixed(expression, scope, nullptr);
  }
  return {};
}

Value Interpreter::look_up(std::string_view name, Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    rt_.step(at->num_bindings * sizeof(Scope::Binding));
    if (const Value* found = at->find(name)) return *found;
  }
  if (const Native native = find_function(name))
    return Value::of(rt_.arena().make(Function{.name = name, .native = native}));
  return rt_.missing(name);
}

Value Interpreter::display(const Expression& expression, Scope& scope) {
  if (expression.kind == Expression::Kind::dict) {
    const Value result = rt_.dict();
    for (size_t i = 0; i < expression.items.size(); i += 2) {
      const Value key = evaluate(*expression.items[i], scope);
      rt_.set(*result.dict, key, evaluate(*expression.items[i + 1], scope));
    }
    return result;
  }
  const auto items = rt_.arena().array<Value>(expression.items.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = evaluate(*expression.items[i], scope);
  const List list{.items = items.data(), .size = items.size(), .capacity = items.size()};
  return Value::of(rt_.arena().make(list),
                   expression.kind == Expression::Kind::list ? Kind::list : Kind::tuple);
}

Value Interpreter::logical(const Expression& expression, Scope& scope) {
  const bool stops_at = expression.kind == Expression::Kind::logical_or;
  Value value;
  for (const Expression* item : expression.items) {
    value = evaluate(*item, scope);
    if (truthy(value) == stops_at) break;
  }
  return value;
}

Value Interpreter::conditional(const Expression& expression, Scope& scope) {
  if (truthy(evaluate(*expression.items[0], scope))) return evaluate(*expression.items[1], scope);
  if (expression.items[2] == nullptr) return {};
  return evaluate(*expression.items[2], scope);
}

Value Interpreter::arithmetic(const Expression& expression, Scope& scope) {
  Value value = evaluate(*expression.items[0], scope);
  for (const Operand& operand : expression.operands) {
    const Value right = evaluate(*operand.value, scope);
    rt_.set_line(expression.line);
    value = binary(rt_, static_cast<BinaryOperator>(operand.op), value, right);
  }
  return value;
}

Value Interpreter::comparison(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.items[0], scope);
  for (const Operand& operand : expression.operands) {
    const Value right = evaluate(*operand.value, scope);
    rt_.set_line(expression.line);
    if (!compare(rt_, static_cast<Comparison>(operand.op), left, right)) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

/// `caller` is what a call block passes to the last call of the chain.
Value Interpreter::suffixed(const Expression& expression, Scope& scope, const Value* caller) {
  Value value = evaluate(*expression.items[0], scope);
  for (const Suffix& suffix : expression.suffixes) {
    const bool last = &suffix == &expression.suffixes.back();
    value = apply(suffix, value, scope, last ? caller : nullptr);
  }
  return value;
}

Value Interpreter::apply(const Suffix& suffix, const Value& value, Scope& scope,
                         const Value* caller) {
  rt_.set_line(suffix.line);
  switch (suffix.kind) {
    case Suffix::Kind::attribute:
      return get_attribute(rt_, value, suffix.name);
    case Suffix::Kind::item:
    case Suffix::Kind::slice:
      return subscript(suffix, value, scope);
    case Suffix::Kind::call:
      return call(value, arguments(suffix.arguments, scope, caller));
    case Suffix::Kind::filter:
    case Suffix::Kind::test:
      return apply_native(suffix, value, scope);
    case Suffix::Kind::test_not:
      return Value::of(!truthy(apply_native(suffix, value, scope)));
  }
  return {};
}

Value Interpreter::subscript(const Suffix& suffix, const Value& value, Scope& scope) {
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = suffix.parts[i] != nullptr ? evaluate(*suffix.parts[i], scope) : Value::none();
  }
  rt_.set_line(suffix.line);
  if (suffix.kind == Suffix::Kind::item) return get_item(rt_, value, parts[0]);
  return get_slice(rt_, value, parts[0], parts[1], parts[2]);
}

Value Interpreter::apply_native(const Suffix& suffix, const Value& value, Scope& scope) {
  rt_.step();
  if (suffix.native == nullptr) {
    rt_.error("no {} named '{}'", suffix.kind == Suffix::Kind::filter ? "filter" : "test",
              suffix.name);
  }
  const Arguments given = arguments(suffix.arguments, scope, nullptr);
  rt_.set_line(suffix.line);
  return suffix.native(rt_, value, given);
}

Arguments Interpreter::arguments(const CallArguments& call, Scope& scope, const Value* caller) {
  std::span<const Value> unpacked;
  if (call.unpacked != nullptr) unpacked = iterate(rt_, evaluate(*call.unpacked, scope));
  Value more;
  if (call.unpacked_named != nullptr) {
    more = evaluate(*call.unpacked_named, scope);
    if (more.kind != Kind::dict) rt_.error("argument after ** must be a mapping");
  }
  const size_t num_more = more.kind == Kind::dict ? more.dict->size : 0;
  const auto positional = rt_.arena().array<Value>(call.positional.size() + unpacked.size());
  const auto named =
      rt_.arena().array<NamedValue>(call.named.size() + num_more + (caller != nullptr ? 1 : 0));
  rt_.step((positional.size() + named.size()) * sizeof(Value));
  for (size_t i = 0; i < call.positional.size(); ++i)
    positional[i] = evaluate(*call.positional[i], scope);
  std::copy(unpacked.begin(), unpacked.end(),
            positional.begin() + static_cast<ptrdiff_t>(call.positional.size()));
  size_t at = 0;
  for (const CallArguments::Keyword& keyword : call.named)
    named[at++] = {Text{.bytes = keyword.name}, evaluate(*keyword.value, scope)};
  for (size_t i = 0; i < num_more; ++i) {
    const Dict::Entry& entry = more.dict->entries[i];
    if (!entry.key.is_string()) rt_.error("keywords must be strings");
    for (const CallArguments::Keyword& keyword : call.named) {
      if (keyword.name == entry.key.text->bytes)
        rt_.error("got multiple values for keyword argument '{}'", keyword.name);
    }
    named[at++] = {*entry.key.text, entry.value};
  }
  if (caller != nullptr) named[at] = {Text{.bytes = "caller"}, *caller};
  return {positional, named};
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.kind == Kind::loop) return recurse(*callee.loop, arguments);
  if (callee.kind != Kind::function) {
    if (callee.is_undefined()) rt_.undefined_error(callee);
    rt_.error("'{}' object is not callable", type_name(callee));
  }
  if (callee.function->macro != nullptr) return call_macro(*callee.function, arguments);
  return callee.function->native(rt_, callee.function->self, arguments);
}

Value Interpreter::call_macro(const Function& function, const Arguments& arguments) {
  const Nested scope(*this, *function.scope);
  bind_parameters(*function.macro, arguments, *scope);
  TextBuilder out(rt_);
  execute(function.macro->body, *scope, out);
  return out.finish();
}

void Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments, Scope& scope) {
  const size_t num_parameters = macro.parameters.size();
  const size_t num_positional = std::min(arguments.positional.size(), num_parameters);
  if (arguments.positional.size() > num_parameters && !macro.uses_varargs) {
    rt_.error("macro '{}' takes not more than {} argument(s)", macro.name, num_parameters);
  }
  const Value more_named = rt_.dict();
  Value caller = rt_.missing("caller");
  for (size_t i = 0; i < num_positional; ++i)
    set(scope, macro.parameters[i].name, arguments.positional[i]);
  for (const NamedValue& named : arguments.named) {
    const std::string_view name = named.name.bytes;
    const bool is_parameter =
        std::any_of(macro.parameters.begin(), macro.parameters.end(),
                    [&](const Parameter& parameter) { return parameter.name == name; });
    if (is_parameter) {
      if (scope.find(name) != nullptr)
        rt_.error("macro '{}' got two values for argument '{}'", macro.name, name);
      set(scope, name, named.value);
    } else if (name == "caller" && macro.uses_caller) {
      caller = named.value;
    } else if (macro.uses_kwargs) {
      rt_.set(*more_named.dict, Value::of(&named.name), named.value);
    } else {
      rt_.error("macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  if (macro.uses_varargs) {
    set(scope, "varargs", rt_.list(arguments.positional.subspan(num_positional), Kind::tuple));
  }
  if (macro.uses_kwargs) set(scope, "kwargs", more_named);
  if (macro.uses_caller && scope.find("caller") == nullptr) set(scope, "caller", caller);
  for (const Parameter& parameter : macro.parameters) {
    if (scope.find(parameter.name) != nullptr) continue;
    set(scope, parameter.name,
        parameter.default_value != nullptr ? evaluate(*parameter.default_value, scope)
                                           : rt_.missing(parameter.name));
  }
}

Value Interpreter::recurse(const LoopState& loop, const Arguments& arguments) {
  if (!loop.statement->recursive)
    rt_.error("the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1) rt_.error("loop() takes exactly one argument");
  TextBuilder out(rt_);
  for_loop(*loop.statement, *loop.scope, arguments.positional[0], loop.depth + 1, out);
  return out.finish();
}

}  // namespace hasten::text::jinja
