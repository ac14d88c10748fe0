// SPDX-License-Identifier: Apache-2.0
// The grammar of expressions; the statements' parser is built on it.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/template.h"

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

  /// Takes `name` for a variable of the template.
  void bind_name(std::string_view name) { bound_.push_back(name); }
  /// Takes the names for known whose truth decides whether what stands under `condition` is
  /// reached.
  void bind_names_of(const Expression& condition);
  /// How many names were used so far that nothing seems to have; those since then may stay unknown,
  /// as they stand under a condition.
  size_t num_unknown() const { return unknown_.size(); }
  void allow_unknown_since(size_t first);
  /// At the end of the template, where all its variables are known. Throws for a name that must not
  /// be unknown.
  std::span<const UnknownName> unknown_names();

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
  void note_use(std::string_view what, std::string_view name, int32_t line, bool allowed);
  void note_named_by_text(const Suffix& filter);
  void note_name_of_chain(const Expression& base, const Suffix& first);

  Expression* make(Expression::Kind kind, std::initializer_list<const Expression*> items = {});
  const Expression* constant(const Value& value);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int32_t depth_ = 0;
  int32_t max_depth_;

  struct Use {
    UnknownName name;
    bool allowed;  // by a condition around it, or since only a render can tell
  };
  // Both grow as the template's names do, and borrow them. No hash table has them, since the file
  // could choose them to be of one hash.
  std::vector<Use> unknown_;
  std::vector<std::string_view> bound_;  // assigned somewhere, or asked for before use
};

}  // namespace hasten::text::jinja
