// SPDX-License-Identifier: Apache-2.0
// Walks the tree of a template: statements write text, expressions give values.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/runtime.h"

namespace hasten::text::jinja {

/// Variables, and the scope around them. Assignments stay in the innermost.
struct Scope {
  struct Binding {
    std::string_view name = {};
    Value value = {};
    Binding* next;
  };
  Scope* parent = nullptr;
  Binding* first = nullptr;
  size_t num_bindings = 0;
  bool kept = false;  // a macro or a recursive loop may use it after the block that it is for

  /// Looks in this scope only.
  Value* find(std::string_view name) const;
  /// Marks this one and those around it as kept.
  void keep();
};

/// One thread, one render.
class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime) : rt_(runtime) {}

  /// Executes a template; `scope` holds its variables.
  void run(Block block, Scope& scope, TextBuilder& out) { execute(block, scope, out); }
  /// Gives a variable of this scope a value.
  void set(Scope& scope, std::string_view name, const Value& value);

 private:
  enum class Flow { next, break_, continue_ };

  Flow execute(Block block, Scope& scope, TextBuilder& out);
  Flow execute(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow branch(const Statement& statement, Scope& scope, TextBuilder& out);
  void output(const Expression& expression, Scope& scope, TextBuilder& out);
  Flow for_loop(const Statement& statement, Scope& scope, const Value& iterable, int64_t depth,
                TextBuilder& out);
  std::span<const Value> loop_items(const Statement& statement, Scope& scope,
                                    const Value& iterable);
  Value filtered_block(const Statement& statement, Scope& scope);
  void with(const Statement& statement, Scope& scope, TextBuilder& out);
  void call_block(const Statement& statement, Scope& scope, TextBuilder& out);
  void assign(const Target& target, Scope& scope, const Value& value);
  void assign_tuple(const Target& target, Scope& scope, const Value& value);
  void assign_attribute(const Target& target, Scope& scope, const Value& value);

  Value evaluate(const Expression& expression, Scope& scope);
  Value look_up(std::string_view name, Scope& scope);
  Value display(const Expression& expression, Scope& scope);
  Value logical(const Expression& expression, Scope& scope);
  Value conditional(const Expression& expression, Scope& scope);
  Value arithmetic(const Expression& expression, Scope& scope);
  Value comparison(const Expression& expression, Scope& scope);
  Value suffixed(const Expression& expression, Scope& scope, const Value* caller);
  Value apply(const Suffix& suffix, const Value& value, Scope& scope, const Value* caller);
  Value subscript(const Suffix& suffix, const Value& value, Scope& scope);
  Value apply_native(const Suffix& suffix, const Value& value, Scope& scope);
  Arguments arguments(const CallArguments& call, Scope& scope, const Value* caller);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Function& function, const Arguments& arguments);
  void bind_parameters(const Macro& macro, const Arguments& arguments, Scope& scope);
  Value recurse(const LoopState& loop, const Arguments& arguments);

  /// The scope of a block, a round of a loop or a call, whose memory serves the next one when it
  /// ends: long loops would else take memory for each of their rounds.
  class Nested {
   public:
    Nested(Interpreter& interpreter, Scope& parent);
    ~Nested();
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Scope& operator*() const { return *scope_; }

   private:
    Interpreter& interpreter_;
    Scope* scope_;
  };

  bool is_range_call(const Expression& expression, const Scope& scope) const;

  Runtime& rt_;
  Scope* free_scopes_ = nullptr;             // linked by `parent`
  Scope::Binding* free_bindings_ = nullptr;  // linked by `next`
};

}  // namespace hasten::text::jinja
