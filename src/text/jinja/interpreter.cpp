// SPDX-License-Identifier: Apache-2.0
// Statements: output, branches, loops, assignments, blocks.
#include "text/jinja/interpreter.h"

#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace hasten::text::jinja {

Value* Scope::find(std::string_view name) const {
  for (Binding* binding = first; binding != nullptr; binding = binding->next) {
    if (binding->name == name) return &binding->value;
  }
  return nullptr;
}

void Scope::keep() {
  for (Scope* scope = this; scope != nullptr && !scope->kept; scope = scope->parent)
    scope->kept = true;
}

Interpreter::Nested::Nested(Interpreter& interpreter, Scope& parent) : interpreter_(interpreter) {
  scope_ = interpreter.free_scopes_;
  if (scope_ == nullptr) {
    scope_ = &interpreter.rt_.arena().make<Scope>();
  } else {
    interpreter.free_scopes_ = scope_->parent;
  }
  *scope_ = {.parent = &parent};
}

Interpreter::Nested::~Nested() {
  if (scope_->kept) return;
  while (scope_->first != nullptr) {
    Scope::Binding* const binding = scope_->first;
    scope_->first = binding->next;
    binding->next = interpreter_.free_bindings_;
    interpreter_.free_bindings_ = binding;
  }
  scope_->parent = interpreter_.free_scopes_;
  interpreter_.free_scopes_ = scope_;
}

void Interpreter::set(Scope& scope, std::string_view name, const Value& value) {
  rt_.step(scope.num_bindings * sizeof(Scope::Binding));
  if (Value* found = scope.find(name)) {
    *found = value;
    return;
  }
  Scope::Binding* binding = free_bindings_;
  if (binding == nullptr) {
    binding = &rt_.arena().make<Scope::Binding>();
  } else {
    free_bindings_ = binding->next;
  }
  *binding = {name, value, scope.first};
  scope.first = binding;
  ++scope.num_bindings;
}

Interpreter::Flow Interpreter::execute(Block block, Scope& scope, TextBuilder& out) {
  const Runtime::Depth depth(rt_);
  for (const Statement* statement : block) {
    const Flow flow = execute(*statement, scope, out);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, Scope& scope, TextBuilder& out) {
  using Node = Statement::Kind;
  rt_.set_line(statement.line);
  rt_.step();
  switch (statement.kind) {
    case Node::data:
      out.append(statement.text);
      return Flow::next;
    case Node::output:
      output(*statement.value, scope, out);
      return Flow::next;
    case Node::set:
      assign(statement.target, scope, evaluate(*statement.value, scope));
      return Flow::next;
    case Node::set_block:
      assign(statement.target, scope, filtered_block(statement, scope));
      return Flow::next;
    case Node::if_:
      return branch(statement, scope, out);
    case Node::for_:
      for_loop(statement, scope, evaluate(*statement.value, scope), 0, out);
      return Flow::next;
    case Node::macro:
      scope.keep();
      set(scope, statement.macro->name,
          Value::of(rt_.arena().make(
              Function{.name = statement.macro->name, .macro = statement.macro, .scope = &scope})));
      return Flow::next;
    case Node::call:
      call_block(statement, scope, out);
      return Flow::next;
    case Node::filter_block:
      print(out, filtered_block(statement, scope));
      return Flow::next;
    case Node::with:
      with(statement, scope, out);
      return Flow::next;
    case Node::break_:
      return Flow::break_;
    case Node::continue_:
      return Flow::continue_;
  }
  return Flow::next;
}

void Interpreter::output(const Expression& expression, Scope& scope, TextBuilder& out) {
  print(out, evaluate(expression, scope));
}

Interpreter::Flow Interpreter::branch(const Statement& statement, Scope& scope, TextBuilder& out) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition == nullptr || truthy(evaluate(*branch.condition, scope)))
      return execute(branch.body, scope, out);
  }
  return Flow::next;
}

std::span<const Value> Interpreter::loop_items(const Statement& statement, Scope& scope,
                                               const Value& iterable) {
  const std::span<const Value> all = iterate(rt_, iterable);
  if (statement.condition == nullptr) return all;
  const Value kept = rt_.list({});
  for (const Value& item : all) {
    const Nested inner(*this, scope);
    assign(statement.target, *inner, item);
    if (truthy(evaluate(*statement.condition, *inner))) rt_.append(*kept.list, item);
  }
  return kept.list->view();
}

/// Whether the value is a list that nothing else can have: that of the library's range.
bool Interpreter::is_range_call(const Expression& expression, const Scope& scope) const {
  if (expression.kind != Expression::Kind::suffixed || expression.suffixes.size() != 1 ||
      expression.suffixes[0].kind != Suffix::Kind::call ||
      expression.items[0]->kind != Expression::Kind::name || expression.items[0]->name != "range")
    return false;
  for (const Scope* at = &scope; at != nullptr; at = at->parent)
    if (at->find("range") != nullptr) return false;
  return true;
}

Interpreter::Flow Interpreter::for_loop(const Statement& statement, Scope& scope,
                                        const Value& iterable, int64_t depth, TextBuilder& out) {
  LoopState& loop = *rt_.arena().make(LoopState{.items = loop_items(statement, scope, iterable),
                                                .depth = depth,
                                                .statement = &statement,
                                                .scope = &scope});
  if (statement.recursive) scope.keep();
  const bool ends_with_loop = depth == 0 && is_range_call(*statement.value, scope);
  bool any_whole = false;  // Jinja's else is for loops none of whose rounds reached their end
  for (; loop.index < loop.items.size(); ++loop.index) {
    rt_.step();
    const Nested inner(*this, scope);
    set(*inner, "loop", Value::of(&loop));
    assign(statement.target, *inner, loop.items[loop.index]);
    const Flow flow = execute(statement.body, *inner, out);
    any_whole = any_whole || flow == Flow::next;
    if (flow == Flow::break_) break;
  }
  if (ends_with_loop) {
    loop.items = {};  // a template may have kept `loop`
    loop.index = 0;
    rt_.reuse(*iterable.list);
  }
  return any_whole ? Flow::next : execute(statement.otherwise, scope, out);
}

Value Interpreter::filtered_block(const Statement& statement, Scope& scope) {
  TextBuilder body(rt_);
  {
    const Nested inner(*this, scope);
    execute(statement.body, *inner, body);
  }
  Value value = body.finish();
  for (const Suffix& filter : statement.filters) value = apply_native(filter, value, scope);
  return value;
}

void Interpreter::with(const Statement& statement, Scope& scope, TextBuilder& out) {
  const Nested inner(*this, scope);
  for (size_t i = 0; i < statement.targets.size(); ++i)
    assign(statement.targets[i], *inner, evaluate(*statement.values[i], scope));
  execute(statement.body, *inner, out);
}

void Interpreter::call_block(const Statement& statement, Scope& scope, TextBuilder& out) {
  scope.keep();
  const Value caller = Value::of(
      rt_.arena().make(Function{.name = "caller", .macro = statement.macro, .scope = &scope}));
  print(out, suffixed(*statement.value, scope, &caller));
}

void Interpreter::assign(const Target& target, Scope& scope, const Value& value) {
  if (target.is_tuple) return assign_tuple(target, scope, value);
  if (!target.attribute.empty()) return assign_attribute(target, scope, value);
  set(scope, target.name, value);
}

void Interpreter::assign_tuple(const Target& target, Scope& scope, const Value& value) {
  const Runtime::Depth depth(rt_);
  const std::span<const Value> items = iterate(rt_, value);
  if (items.size() != target.tuple.size()) {
    rt_.error("{} values to unpack (expected {}, got {})",
              items.size() < target.tuple.size() ? "not enough" : "too many", target.tuple.size(),
              items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.tuple[i], scope, items[i]);
}

void Interpreter::assign_attribute(const Target& target, Scope& scope, const Value& value) {
  const Value object = look_up(target.name, scope);
  if (object.kind != Kind::name_space) {
    if (object.is_undefined()) rt_.undefined_error(object);
    rt_.error("cannot assign attribute '{}': '{}' is no namespace", target.attribute, target.name);
  }
  rt_.set(*object.dict, rt_.borrowed_text(target.attribute), value);
}

}  // namespace hasten::text::jinja
