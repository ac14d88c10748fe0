// SPDX-License-Identifier: Apache-2.0
// The grammar of statements.
#include "text/jinja/parser.h"

#include <algorithm>
#include <utility>

#include "text/jinja/expression_parser.h"

namespace hasten::text::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  Parser(std::string_view source, Arena& arena, int32_t max_depth)
      : ExpressionParser(source, arena, max_depth) {}

  Tree tree() {
    const Block block = statements({});
    if (peek().kind != TokenKind::end) unexpected();
    return {block, unknown_names()};
  }

 private:
  /// Statements up to {% followed by one of `ends`, of which the brace is read; with none, to the
  /// end of the template.
  Block statements(Names ends) {
    const Depth depth(*this);
    std::vector<const Statement*> block;
    while (true) {
      const Token& token = peek();
      if (token.kind == TokenKind::end) {
        if (ends.size() == 0) break;
        fail(fmt::format("unexpected end of template; expected '{}'", *ends.begin()));
      }
      next();
      if (token.kind == TokenKind::data) {
        Statement& data = make(Statement::Kind::data, token.line);
        data.text = token.text;
        block.push_back(&data);
      } else if (token.kind == TokenKind::variable_begin) {
        Statement& output = make(Statement::Kind::output, token.line);
        output.value = tuple();
        block.push_back(&output);
        expect(TokenKind::variable_end, "end of print statement");
      } else {
        const bool at_end = peek().kind == TokenKind::name &&
                            std::find(ends.begin(), ends.end(), peek().text) != ends.end();
        if (at_end) break;
        block.push_back(statement());
        expect(TokenKind::block_end, "end of statement block");
      }
    }
    return keep(block);
  }

  /// The body of a statement whose opening tag ends here, and the name that ended it.
  Block body(Names ends, std::string_view* ended_by = nullptr) {
    skip_symbol(":");
    expect(TokenKind::block_end, "end of statement block");
    const Block block = statements(ends);
    const std::string_view name = next().text;
    if (ended_by != nullptr) *ended_by = name;
    return block;
  }

  const Statement* statement() {
    const int32_t line = peek().line;
    const std::string_view tag = expect_name();
    Statement& result = make(Statement::Kind::data, line);
    if (tag == "if") {
      if_statement(result);
    } else if (tag == "for") {
      for_statement(result);
    } else if (tag == "set") {
      set_statement(result);
    } else if (tag == "macro") {
      macro_statement(result);
    } else if (tag == "call") {
      call_statement(result);
    } else if (tag == "filter") {
      result.kind = Statement::Kind::filter_block;
      result.filters = filters(true);
      result.body = body({"endfilter"});
    } else if (tag == "with") {
      with_statement(result);
    } else if (tag == "print") {
      print_statement(result);
    } else if (tag == "generation" || tag == "autoescape") {
      // The former marks what the assistant said, for training. Both are scopes.
      if (tag == "autoescape") expect_no_escaping();
      result.kind = Statement::Kind::with;
      result.body = body({tag == "autoescape" ? "endautoescape" : "endgeneration"});
    } else if (tag == "block") {
      block_statement(result);
    } else if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) fail(fmt::format("'{}' outside of a loop", tag));
      result.kind = tag == "break" ? Statement::Kind::break_ : Statement::Kind::continue_;
    } else {
      fail(fmt::format("unknown tag '{}'", tag));
    }
    return &result;
  }

  Statement& make(Statement::Kind kind, int32_t line) {
    Statement& result = arena_.make<Statement>();
    result.kind = kind;
    result.line = line;
    return result;
  }

  // Out of line: what stands in `statement` is on the stack once for each level, whichever the
  // statements of the levels are.
  [[gnu::noinline]] void if_statement(Statement& result) {
    result.kind = Statement::Kind::if_;
    const size_t first_name = num_unknown();
    std::vector<Branch> branches;
    std::string_view ended_by = "elif";
    while (ended_by == "elif") {
      const Expression* condition = tuple(false);
      bind_names_of(*condition);
      branches.push_back({condition, body({"endif", "elif", "else"}, &ended_by)});
    }
    if (ended_by == "else") branches.push_back({nullptr, body({"endif"})});
    result.branches = keep(branches);
    allow_unknown_since(first_name);
  }

  [[gnu::noinline]] void for_statement(Statement& result) {
    result.kind = Statement::Kind::for_;
    result.target = target("in");
    if (!skip_name("in")) fail("expected 'in'");
    result.value = tuple(false, "recursive");
    if (skip_name("if")) result.condition = expression();
    result.recursive = skip_name("recursive");
    std::string_view ended_by;
    ++loop_depth_;
    result.body = body({"endfor", "else"}, &ended_by);
    --loop_depth_;
    if (ended_by == "else") result.otherwise = body({"endfor"});
  }

  [[gnu::noinline]] void set_statement(Statement& result) {
    result.target = target({}, true);
    if (skip_symbol("=")) {
      result.kind = Statement::Kind::set;
      result.value = tuple();
      return;
    }
    result.kind = Statement::Kind::set_block;
    result.filters = filters(false);
    result.body = body({"endset"});
  }

  [[gnu::noinline]] void macro_statement(Statement& result) {
    result.kind = Statement::Kind::macro;
    Macro macro{.name = expect_name()};
    bind_name(macro.name);
    if (!peek().is_symbol("(")) fail("expected '('");
    result.macro = finish_macro(macro, "endmacro");
  }

  [[gnu::noinline]] void call_statement(Statement& result) {
    result.kind = Statement::Kind::call;
    Macro caller{.name = "caller"};
    if (peek().is_symbol("(")) caller.parameters = parameters();
    result.value = expression();
    const bool is_call = result.value->kind == Expression::Kind::suffixed &&
                         result.value->suffixes.back().kind == Suffix::Kind::call;
    if (!is_call) fail("expected a call");
    result.macro = finish_macro(caller, "endcall");
  }

  /// Parses the parameters, unless a call block has done so, and the body.
  const Macro* finish_macro(Macro& macro, std::string_view end) {
    if (peek().is_symbol("(")) macro.parameters = parameters();
    const int32_t outer_loops = std::exchange(loop_depth_, 0);
    const size_t begin = position();
    macro.body = body({end});
    loop_depth_ = outer_loops;
    macro.uses_varargs = names_since(begin, "varargs");
    macro.uses_kwargs = names_since(begin, "kwargs");
    macro.uses_caller = names_since(begin, "caller");
    return arena_.make(macro);
  }

  std::span<const Parameter> parameters() {
    std::vector<Parameter> list;
    expect_symbol("(");
    while (!skip_symbol(")")) {
      Parameter parameter{.name = expect_name(), .default_value = nullptr};
      bind_name(parameter.name);
      if (skip_symbol("=")) {
        parameter.default_value = expression();
      } else if (!list.empty() && list.back().default_value != nullptr) {
        fail("a parameter without default follows one with a default");
      }
      list.push_back(parameter);
      if (!peek().is_symbol(")")) expect_symbol(",");
    }
    return keep(list);
  }

  [[gnu::noinline]] void with_statement(Statement& result) {
    result.kind = Statement::Kind::with;
    std::vector<Target> targets;
    std::vector<const Expression*> values;
    while (peek().kind != TokenKind::block_end) {
      if (!targets.empty()) expect_symbol(",");
      targets.push_back(target({}));
      expect_symbol("=");
      values.push_back(expression());
    }
    result.targets = keep(targets);
    result.values = keep(values);
    result.body = body({"endwith"});
  }

  /// Prompts are no HTML: a template may only say so.
  [[gnu::noinline]] void expect_no_escaping() {
    if (!peek().is_name("false") && !peek().is_name("False")) {
      fail("autoescape: only false is supported, for prompts are no HTML; the filter `e` escapes");
    }
    expect_name();
  }

  [[gnu::noinline]] void print_statement(Statement& result) {
    result.kind = Statement::Kind::with;
    std::vector<const Statement*> outputs;
    do {
      Statement& output = make(Statement::Kind::output, result.line);
      output.value = expression();
      outputs.push_back(&output);
    } while (skip_symbol(","));
    result.body = keep(outputs);
  }

  [[gnu::noinline]] void block_statement(Statement& result) {
    result.kind = Statement::Kind::with;  // without inheritance, a block is a scope
    const std::string_view name = expect_name();
    skip_name("scoped");
    result.body = body({"endblock"});
    skip_name(name);
  }

  /// a, or a.b where namespaces are allowed, or several of them with commas and parentheses.
  Target target(std::string_view stop, bool with_namespace = false) {
    Target first = single_target(with_namespace);
    if (!peek().is_symbol(",")) return first;
    std::vector<Target> list{first};
    while (skip_symbol(",")) {
      const Token& token = peek();
      const bool ends = token.kind == TokenKind::block_end || token.is_symbol("=") ||
                        token.is_symbol(")") || (!stop.empty() && token.is_name(stop));
      if (ends) break;
      list.push_back(single_target(with_namespace));
    }
    return {.name = {}, .attribute = {}, .tuple = keep(list), .is_tuple = true};
  }

  Target single_target(bool with_namespace) {
    const Depth depth(*this);
    if (skip_symbol("(")) {
      const Target inner = target({}, with_namespace);
      expect_symbol(")");
      return inner;
    }
    Target result{.name = expect_name(), .attribute = {}, .tuple = {}};
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (result.name == constant) fail(fmt::format("can't assign to '{}'", result.name));
    }
    bind_name(result.name);
    if (with_namespace && skip_symbol(".")) result.attribute = expect_name();
    return result;
  }

  int32_t loop_depth_ = 0;
};

}  // namespace

Tree parse(std::string_view source, Arena& arena, int32_t max_depth) {
  return Parser(source, arena, max_depth).tree();
}

}  // namespace hasten::text::jinja
