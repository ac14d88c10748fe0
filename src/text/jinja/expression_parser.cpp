// SPDX-License-Identifier: Apache-2.0
// Precedence climbing over the operators, and chains of suffixes.
#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "text/jinja/library.h"

namespace hasten::text::jinja {
namespace {

// From the loosest to the tightest. `not` stands between kAnd and kComparison.
enum Level : int { kOr, kAnd, kComparison, kSum, kConcat, kProduct, kPower };

struct Infix {
  Level level;
  uint8_t op;
  uint8_t num_tokens = 1;
};

std::optional<Infix> infix_of(const Token& token, const Token& after) {
  const auto arithmetic = [](Level level, BinaryOperator op) {
    return Infix{level, static_cast<uint8_t>(op)};
  };
  const auto comparison = [](Comparison op, uint8_t num_tokens = 1) {
    return Infix{kComparison, static_cast<uint8_t>(op), num_tokens};
  };
  if (token.kind == TokenKind::name) {
    if (token.text == "or") return Infix{kOr, 0};
    if (token.text == "and") return Infix{kAnd, 0};
    if (token.text == "in") return comparison(Comparison::in);
    if (token.text == "not" && after.is_name("in")) return comparison(Comparison::not_in, 2);
    return std::nullopt;
  }
  if (token.kind != TokenKind::symbol) return std::nullopt;
  const std::string_view s = token.text;
  if (s == "==") return comparison(Comparison::eq);
  if (s == "!=") return comparison(Comparison::ne);
  if (s == "<") return comparison(Comparison::lt);
  if (s == "<=") return comparison(Comparison::le);
  if (s == ">") return comparison(Comparison::gt);
  if (s == ">=") return comparison(Comparison::ge);
  if (s == "+") return arithmetic(kSum, BinaryOperator::add);
  if (s == "-") return arithmetic(kSum, BinaryOperator::subtract);
  if (s == "~") return arithmetic(kConcat, BinaryOperator::concat);
  if (s == "*") return arithmetic(kProduct, BinaryOperator::multiply);
  if (s == "/") return arithmetic(kProduct, BinaryOperator::divide);
  if (s == "//") return arithmetic(kProduct, BinaryOperator::floor_divide);
  if (s == "%") return arithmetic(kProduct, BinaryOperator::modulo);
  if (s == "**") return arithmetic(kPower, BinaryOperator::power);
  return std::nullopt;
}

/// Those of different names, each where it is first.
std::vector<UnknownName> first_of_each(const std::vector<UnknownName>& names) {
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto is_before = [&](size_t a, size_t b) { return names[a].name < names[b].name; };
  const auto is_same = [&](size_t a, size_t b) { return names[a].name == names[b].name; };
  std::stable_sort(order.begin(), order.end(), is_before);
  order.erase(std::unique(order.begin(), order.end(), is_same), order.end());
  std::sort(order.begin(), order.end());
  std::vector<UnknownName> result;
  result.reserve(order.size());
  for (const size_t i : order) result.push_back(names[i]);
  return result;
}

}  // namespace

ExpressionParser::Depth::Depth(ExpressionParser& parser) : parser_(parser) {
  if (parser.depth_ >= parser.max_depth_) {
    hasten::fail(ErrorCode::resource_exhausted,
                 "the chat template exceeds the depth limit of {} nested levels (line {})",
                 parser.max_depth_, parser.peek().line);
  }
  ++parser.depth_;
}

void ExpressionParser::note_use(std::string_view what, std::string_view name, int32_t line,
                                bool allowed) {
  unknown_.push_back({{what, name, line}, allowed});
}

/// map('filter'), select('test') and their like.
void ExpressionParser::note_named_by_text(const Suffix& filter) {
  const bool by_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  const bool by_test = by_attribute || filter.name == "select" || filter.name == "reject";
  const size_t place = by_attribute ? 1 : 0;
  if ((!by_test && filter.name != "map") || filter.arguments.positional.size() <= place) return;
  const Expression& given = *filter.arguments.positional[place];
  if (given.kind != Expression::Kind::constant || !given.constant.is_string()) return;
  const std::string_view name = given.constant.text->bytes;
  if ((by_test ? find_test(name) : find_filter(name)) == nullptr)
    note_use(by_test ? "test" : "filter", name, filter.line, true);
}

/// Nobody but the template itself and the library has functions to call by a name alone.
void ExpressionParser::note_name_of_chain(const Expression& base, const Suffix& first) {
  if (base.kind != Expression::Kind::name) return;
  const bool is_test = first.kind == Suffix::Kind::test || first.kind == Suffix::Kind::test_not;
  if (is_test && (first.name == "defined" || first.name == "undefined" || first.name == "callable"))
    return bind_name(base.name);
  if (first.kind == Suffix::Kind::call && find_function(base.name) == nullptr)
    note_use("function", base.name, first.line, true);
}

void ExpressionParser::bind_names_of(const Expression& condition) {
  using Node = Expression::Kind;
  if (condition.kind == Node::name) bind_name(condition.name);
  const bool is_logical = condition.kind == Node::logical_or ||
                          condition.kind == Node::logical_and ||
                          condition.kind == Node::logical_not;
  if (!is_logical) return;
  for (const Expression* item : condition.items) bind_names_of(*item);
}

void ExpressionParser::allow_unknown_since(size_t first) {
  for (; first < unknown_.size(); ++first) unknown_[first].allowed = true;
}

std::span<const UnknownName> ExpressionParser::unknown_names() {
  for (const std::string_view given : {"loop", "caller"}) bind_name(given);
  std::sort(bound_.begin(), bound_.end());
  std::vector<UnknownName> names;
  for (const auto& [name, allowed] : unknown_) {
    if (!allowed) syntax_error(name.line, fmt::format("no {} named '{}'", name.what, name.name));
    const bool is_function = name.what == "function";
    if (is_function && std::binary_search(bound_.begin(), bound_.end(), name.name)) continue;
    names.push_back(name);
  }
  return keep(first_of_each(names));
}

void ExpressionParser::unexpected() const {
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::end:
      fail("unexpected end of template");
    case TokenKind::block_end:
    case TokenKind::variable_end:
      fail("unexpected end of a tag");
    case TokenKind::name:
    case TokenKind::symbol:
      fail(fmt::format("unexpected '{}'", token.text));
    default:
      fail("unexpected constant or text");
  }
}

bool ExpressionParser::names_since(size_t begin, std::string_view name) const {
  return std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(begin),
                     tokens_.begin() + static_cast<ptrdiff_t>(at_),
                     [&](const Token& token) { return token.is_name(name); });
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
  const bool found = peek().is_symbol(symbol);
  if (found) next();
  return found;
}

bool ExpressionParser::skip_name(std::string_view name) {
  const bool found = peek().is_name(name);
  if (found) next();
  return found;
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail(fmt::format("expected '{}'", symbol));
}

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) fail(fmt::format("expected {}", what));
  next();
}

std::string_view ExpressionParser::expect_name() {
  if (peek().kind != TokenKind::name) fail("expected a name");
  return next().text;
}

Expression* ExpressionParser::make(Expression::Kind kind,
                                   std::initializer_list<const Expression*> items) {
  Expression expression{.kind = kind, .line = peek().line};
  expression.items = arena_.copy(std::span<const Expression* const>(items));
  return arena_.make(expression);
}

const Expression* ExpressionParser::constant(const Value& value) {
  Expression* expression = make(Expression::Kind::constant);
  expression->constant = value;
  return expression;
}

const Expression* ExpressionParser::expression(bool conditional) {
  size_t first_name = num_unknown();
  const Expression* value = binary(kOr);
  while (conditional && skip_name("if")) {
    const Expression* condition = binary(kOr);
    bind_names_of(*condition);
    const Expression* otherwise = nullptr;
    if (skip_name("else")) {
      const Depth depth(*this);
      otherwise = expression();
    }
    value = make(Expression::Kind::conditional, {condition, value, otherwise});
    allow_unknown_since(first_name);
    first_name = num_unknown();
  }
  return value;
}

const Expression* ExpressionParser::binary(int level) {
  const Depth depth(*this);
  const bool negated = level <= kComparison && peek().is_name("not");
  const Expression* left = negated ? logical_not() : unary(true);
  while (true) {
    const auto infix = infix_of(peek(), peek(1));
    if (!infix || infix->level < level || (negated && infix->level > kAnd)) return left;
    for (int i = 0; i < infix->num_tokens; ++i) next();
    left = extend(left, infix->level, infix->op, binary(infix->level + 1));
  }
}

const Expression* ExpressionParser::logical_not() {
  next();
  return make(Expression::Kind::logical_not, {binary(kComparison)});
}

/// Adds an operand to the right of `left`: operators of one level make one node.
const Expression* ExpressionParser::extend(const Expression* left, int level, uint8_t op,
                                           const Expression* right) {
  using Node = Expression::Kind;
  std::vector<const Expression*> items{left};
  std::vector<Operand> operands;
  while (true) {
    if (level <= kAnd) {
      items.push_back(right);
    } else {
      operands.push_back({op, right});
    }
    const auto infix = infix_of(peek(), peek(1));
    if (!infix || infix->level != level) break;
    for (int i = 0; i < infix->num_tokens; ++i) next();
    op = infix->op;
    right = binary(level + 1);
  }
  Expression* node = make(level == kOr           ? Node::logical_or
                          : level == kAnd        ? Node::logical_and
                          : level == kComparison ? Node::comparison
                                                 : Node::arithmetic);
  node->items = keep(items);
  node->operands = keep(operands);
  if (level == kAnd) {  // `f and f()`; what is below has bound its own
    for (const Expression* item : items)
      if (item->kind == Node::name) bind_name(item->name);
  }
  return node;
}

const Expression* ExpressionParser::unary(bool with_filters) {
  const bool minus = peek().is_symbol("-");
  if (!minus && !peek().is_symbol("+")) return suffixes(primary(), with_filters);
  const Depth depth(*this);
  next();
  const auto kind = minus ? Expression::Kind::negate : Expression::Kind::plus;
  return suffixes(make(kind, {unary(false)}), with_filters);
}

const Expression* ExpressionParser::suffixes(const Expression* base, bool with_filters) {
  std::vector<Suffix> list;
  bool postfix = true;  // a filter or test ends the attributes and items
  while (true) {
    const Token& token = peek();
    if (postfix && token.is_symbol(".")) {
      list.push_back(dot_suffix());
    } else if (postfix && token.is_symbol("[")) {
      list.push_back(subscript());
    } else if (token.is_symbol("(")) {
      Suffix call{.kind = Suffix::Kind::call, .line = token.line};
      call.arguments = call_arguments();
      list.push_back(call);
    } else if (with_filters && token.is_symbol("|")) {
      next();
      list.push_back(filter_suffix());
      postfix = false;
    } else if (with_filters && token.is_name("is")) {
      list.push_back(test_suffix());
      postfix = false;
    } else {
      break;
    }
  }
  if (list.empty()) return base;
  note_name_of_chain(*base, list.front());
  Expression* node = make(Expression::Kind::suffixed, {base});
  node->suffixes = keep(list);
  return node;
}

Suffix ExpressionParser::dot_suffix() {
  Suffix suffix{.kind = Suffix::Kind::attribute, .line = next().line};
  const Token& token = next();
  if (token.kind == TokenKind::name) {
    suffix.name = token.text;
  } else if (token.kind == TokenKind::integer) {
    suffix.kind = Suffix::Kind::item;
    suffix.parts[0] = constant(Value::of(token.integer));
  } else {
    fail("expected a name or number after '.'");
  }
  return suffix;
}

Suffix ExpressionParser::subscript() {
  Suffix suffix{.kind = Suffix::Kind::item, .line = next().line};
  if (peek().is_symbol("]")) fail("expected an index");
  int part = 0;
  while (!skip_symbol("]")) {
    if (skip_symbol(":")) {
      suffix.kind = Suffix::Kind::slice;
      if (++part > 2) unexpected();
    } else if (suffix.parts[part] == nullptr) {
      suffix.parts[part] = expression();
    } else {
      unexpected();
    }
  }
  return suffix;
}

Suffix ExpressionParser::filter_suffix() {
  Suffix suffix{.kind = Suffix::Kind::filter, .line = peek().line, .name = expect_name()};
  suffix.native = find_filter(suffix.name);
  if (suffix.native == nullptr) note_use("filter", suffix.name, suffix.line, false);
  if (peek().is_symbol("(")) suffix.arguments = call_arguments();
  note_named_by_text(suffix);
  return suffix;
}

std::span<const Suffix> ExpressionParser::filters(bool inline_first) {
  std::vector<Suffix> list;
  if (inline_first) list.push_back(filter_suffix());
  while (skip_symbol("|")) list.push_back(filter_suffix());
  return keep(list);
}

Suffix ExpressionParser::test_suffix() {
  Suffix suffix{.kind = Suffix::Kind::test, .line = next().line};
  if (skip_name("not")) suffix.kind = Suffix::Kind::test_not;
  suffix.name = expect_name();
  suffix.native = find_test(suffix.name);
  if (suffix.native == nullptr) note_use("test", suffix.name, suffix.line, false);
  if (peek().is_symbol("(")) {
    suffix.arguments = call_arguments();
  } else if (starts_test_argument()) {
    const Depth depth(*this);
    const std::vector<const Expression*> argument{suffixes(primary(), false)};
    suffix.arguments.positional = keep(argument);
  }
  return suffix;
}

bool ExpressionParser::starts_test_argument() const {
  const Token& token = peek();
  if (token.kind == TokenKind::name) {
    for (const std::string_view other : {"else", "or", "and", "is", "if", "in", "not", "recursive"})
      if (token.text == other) return false;
    return true;
  }
  return token.kind == TokenKind::string || token.kind == TokenKind::integer ||
         token.kind == TokenKind::real || token.is_symbol("[") || token.is_symbol("{");
}

CallArguments ExpressionParser::call_arguments() {
  CallArguments result;
  std::vector<const Expression*> positional;
  std::vector<CallArguments::Keyword> named;
  expect_symbol("(");
  while (!skip_symbol(")")) {
    if (skip_symbol("**")) {
      if (result.unpacked_named != nullptr) fail("invalid syntax for a call");
      result.unpacked_named = expression();
    } else if (skip_symbol("*")) {
      if (result.unpacked != nullptr || result.unpacked_named != nullptr)
        fail("invalid syntax for a call");
      result.unpacked = expression();
    } else if (peek().kind == TokenKind::name && peek(1).is_symbol("=")) {
      if (result.unpacked_named != nullptr) fail("invalid syntax for a call");
      const std::string_view name = next().text;
      next();
      named.push_back({name, expression()});
    } else {
      if (!named.empty() || result.unpacked != nullptr || result.unpacked_named != nullptr)
        fail("a positional argument follows a named one");
      positional.push_back(expression());
    }
    if (!peek().is_symbol(")")) expect_symbol(",");
  }
  result.positional = keep(positional);
  result.named = keep(named);
  return result;
}

const Expression* ExpressionParser::primary() {
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::name:
      return name_or_constant();
    case TokenKind::string:
      return string_constant();
    case TokenKind::integer:
      return constant(Value::of(next().integer));
    case TokenKind::real:
      return constant(Value::of(next().real));
    default:
      break;
  }
  if (token.is_symbol("[")) return list_display();
  if (token.is_symbol("{")) return dict_display();
  if (!skip_symbol("(")) unexpected();
  if (skip_symbol(")")) return make(Expression::Kind::tuple);
  const Expression* inner = tuple();
  expect_symbol(")");
  return inner;
}

const Expression* ExpressionParser::name_or_constant() {
  const std::string_view name = next().text;
  if (name == "true" || name == "True") return constant(Value::of(true));
  if (name == "false" || name == "False") return constant(Value::of(false));
  if (name == "none" || name == "None") return constant(Value::none());
  Expression* expression = make(Expression::Kind::name);
  expression->name = name;
  return expression;
}

const Expression* ExpressionParser::string_constant() {
  std::string_view text = next().text;
  if (peek().kind == TokenKind::string) {
    std::string joined(text);
    while (peek().kind == TokenKind::string) joined += next().text;
    text = arena_.copy(std::string_view(joined));
  }
  return constant(Value::of(arena_.make(Text{.bytes = text})));
}

const Expression* ExpressionParser::list_display() {
  next();
  std::vector<const Expression*> items;
  while (!skip_symbol("]")) {
    items.push_back(expression());
    if (!peek().is_symbol("]")) expect_symbol(",");
  }
  Expression* list = make(Expression::Kind::list);
  list->items = keep(items);
  return list;
}

const Expression* ExpressionParser::dict_display() {
  next();
  std::vector<const Expression*> items;
  while (!skip_symbol("}")) {
    items.push_back(expression());
    expect_symbol(":");
    items.push_back(expression());
    if (!peek().is_symbol("}")) expect_symbol(",");
  }
  Expression* dict = make(Expression::Kind::dict);
  dict->items = keep(items);
  return dict;
}

bool ExpressionParser::is_tuple_end(std::string_view stop) const {
  const Token& token = peek();
  return token.kind == TokenKind::variable_end || token.kind == TokenKind::block_end ||
         token.is_symbol(")") || (!stop.empty() && token.is_name(stop));
}

const Expression* ExpressionParser::tuple(bool conditional, std::string_view stop) {
  const Expression* first = expression(conditional);
  if (!peek().is_symbol(",")) return first;
  std::vector<const Expression*> items{first};
  while (skip_symbol(",") && !is_tuple_end(stop)) items.push_back(expression(conditional));
  Expression* node = make(Expression::Kind::tuple);
  node->items = keep(items);
  return node;
}

}  // namespace hasten::text::jinja
