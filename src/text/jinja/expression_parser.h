// SPDX-License-Identifier: Apache-2.0
// The grammar of expressions; the statements' parser is built on it.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace hasten::text::jinja {

class ExpressionParser {
 protected:
  ExpressionParser(std::string_view source, Arena& arena, int32_t max_depth)
      : arena_(arena), tokens_(tokenize(source, arena)), max_depth_(max_depth) {}

  /// Counts nesting while it lives.
  class Depth {
   public:
    explicit Depth(ExpressionParser& parser);
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  /// The number of tokens read, and whether a name occurs among those read since.
  size_t position() const { return at_; }
  bool names_since(size_t begin, std::string_view name) const;
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect(TokenKind kind, std::string_view what);
  std::string_view expect_name();
  [[noreturn]] void fail(std::string_view message) const { syntax_error(peek().line, message); }
  [[noreturn]] void unexpected() const;

  /// An expression; `x if c else y` only when `conditional`.
  const Expression* expression(bool conditional = true);
  /// An expression, or several with commas between them, which make a tuple. Ends before the name
  /// `stop`.
  const Expression* tuple(bool conditional = true, std::string_view stop = {});
  /// |name(arguments)|…, the first without its bar if `inline_first`.
  std::span<const Suffix> filters(bool inline_first);
  CallArguments call_arguments();

  template <class T>
  std::span<const T> keep(const std::vector<T>& items) {
    return arena_.copy(std::span<const T>(items));
  }

  Arena& arena_;

 private:
  const Expression* binary(int level);
  const Expression* logical_not();
  const Expression* extend(const Expression* left, int level, uint8_t op, const Expression* right);
  const Expression* unary(bool with_filters);
  const Expression* suffixes(const Expression* base, bool with_filters);
  const Expression* primary();
  const Expression* name_or_constant();
  const Expression* string_constant();
  const Expression* list_display();
  const Expression* dict_display();
  bool is_tuple_end(std::string_view stop) const;
  Suffix dot_suffix();
  Suffix subscript();
  Suffix filter_suffix();
  Suffix test_suffix();
  bool starts_test_argument() const;

  Expression* make(Expression::Kind kind, std::initializer_list<const Expression*> items = {});
  const Expression* constant(const Value& value);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int32_t depth_ = 0;
  int32_t max_depth_;
};

}  // namespace hasten::text::jinja
