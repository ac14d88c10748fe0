// SPDX-License-Identifier: Apache-2.0
// A recursive-descent parser whose depth is bounded.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "text/regex/syntax.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace hasten::text::regex {
namespace {

// The longest published expression, DeepSeek-LLM's letters, has 1,200 bytes.
constexpr size_t kMaxPatternBytes = size_t{1} << 14;
constexpr int kMaxDepth = 48;
// The largest published count is 512.
constexpr int32_t kMaxRepeat = 1000;

constexpr uint32_t kMaxFoldedRange = 4096;

constexpr uint32_t kLongS = 0x17F;        // folds to s
constexpr uint32_t kKelvinSign = 0x212A;  // folds to k

bool is_ascii_letter(uint32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80; }

// The union of many sets, in time near-linear in their ranges.
class Union {
 public:
  void add(const CodePointSet& set) {
    pending_.insert(pending_.end(), set.ranges().begin(), set.ranges().end());
    if (pending_.size() < limit_) return;
    pending_ = CodePointSet(std::move(pending_)).ranges();
    limit_ = std::max(limit_, 2 * pending_.size());
  }
  CodePointSet take() { return CodePointSet(std::exchange(pending_, {})); }

 private:
  std::vector<CodePointRange> pending_;
  size_t limit_ = 8192;  // ranges; the largest property has some 700
};

class Parser {
 public:
  Parser(std::string_view pattern, Dialect dialect) : pattern_(pattern), dialect_(dialect) {}

  Syntax parse() {
    if (pattern_.size() > kMaxPatternBytes) {
      fail(ErrorCode::unsupported, "regular expression: it has {} bytes; the limit is {}: {}",
           pattern_.size(), kMaxPatternBytes, printable(pattern_, kMaxQuoted));
    }
    syntax_.root = parse_alternatives(0);
    if (!at_end()) fail_invalid("an unmatched )");
    return std::move(syntax_);
  }

 private:
  struct Flags {
    bool any_case = false;
  };
  // What an escape outside or inside a class stands for.
  struct Escape {
    std::optional<uint32_t> literal = std::nullopt;
    CodePointSet set = {};  // where there is no literal
  };

  bool at_end() const { return at_ >= pattern_.size(); }
  std::string_view rest() const { return pattern_.substr(at_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }
  bool take(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }
  uint32_t take_character() {
    const Utf8Char next = decode_utf8(rest());
    if (!next.valid) fail_invalid("malformed UTF-8");
    at_ += next.length;
    return next.code_point;
  }

  [[noreturn]] void fail_unsupported(std::string_view what) const {
    fail(ErrorCode::unsupported, "regular expression: {} at byte {} is not supported: {}", what,
         at_, printable(pattern_, kMaxQuoted));
  }
  [[noreturn]] void fail_invalid(std::string_view what) const {
    fail(ErrorCode::invalid_data, "regular expression: {} at byte {}: {}", what, at_,
         printable(pattern_, kMaxQuoted));
  }

  int32_t add_node(Node node) {
    syntax_.nodes.push_back(std::move(node));
    return static_cast<int32_t>(syntax_.nodes.size()) - 1;
  }
  int32_t add_set(CodePointSet set) {
    const auto& ranges = set.ranges();
    const uint64_t hash = hash_bytes(
        {reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(CodePointRange)});
    auto& candidates = sets_by_hash_[hash];
    for (const int32_t candidate : candidates) {
      if (syntax_.sets[static_cast<size_t>(candidate)] == set) return candidate;
    }
    syntax_.sets.push_back(std::move(set));
    candidates.push_back(static_cast<int32_t>(syntax_.sets.size()) - 1);
    return candidates.back();
  }
  int32_t set_node(CodePointSet set) {
    return add_node({.kind = NodeKind::set, .set = add_set(std::move(set))});
  }
  int32_t next_is(CodePointSet set, bool edge) {
    return add_node({.kind = NodeKind::next_is, .set = add_set(std::move(set)), .edge = edge});
  }
  int32_t previous_is(CodePointSet set, bool edge) {
    return add_node({.kind = NodeKind::previous_is, .set = add_set(std::move(set)), .edge = edge});
  }
  Node& node(int32_t index) { return syntax_.nodes[static_cast<size_t>(index)]; }
  const CodePointSet& set_of(const Node& owner) const {
    return syntax_.sets[static_cast<size_t>(owner.set)];
  }

  // The set with the other case of its letters, where case does not count.
  CodePointSet fold(CodePointSet set) const {
    if (!flags_.any_case) return set;
    std::vector<CodePointRange> added;
    for (const CodePointRange& range : set.ranges()) {
      for (uint32_t c = range.first; c <= range.last && c < 0x80; ++c) {
        if (!is_ascii_letter(c)) continue;
        added.push_back({c ^ 0x20, c ^ 0x20});
        if ((c | 0x20) == 's') added.push_back({kLongS, kLongS});
        if ((c | 0x20) == 'k') added.push_back({kKelvinSign, kKelvinSign});
      }
      if (range.last < 0x80) continue;
      if (range.last - range.first > kMaxFoldedRange) {
        fail_unsupported("ignoring the case of a long range");
      }
      for (uint32_t c = std::max(range.first, uint32_t{0x80}); c <= range.last; ++c) {
        const Category category = char_properties(c).category;
        if (category >= Category::lu && category <= Category::lt) {
          fail_unsupported("ignoring the case of letters beyond ASCII");
        }
      }
    }
    set.add(CodePointSet(std::move(added)));
    return set;
  }

  int32_t parse_alternatives(int depth) {
    if (depth > kMaxDepth) fail_unsupported("nesting deeper than 48 groups");
    const Flags outer = flags_;
    if (take("(?i)")) flags_.any_case = true;
    std::vector<int32_t> branches{parse_sequence(depth)};
    while (take("|")) branches.push_back(parse_sequence(depth));
    flags_ = outer;
    if (branches.size() == 1) return branches[0];
    return add_node({.kind = NodeKind::alternatives, .children = std::move(branches)});
  }

  int32_t parse_sequence(int depth) {
    std::vector<int32_t> items;
    while (!at_end() && !looking_at("|") && !looking_at(")")) {
      items.push_back(parse_repeated(depth));
    }
    if (items.empty()) return add_node({.kind = NodeKind::empty});
    if (items.size() == 1) return items[0];
    return add_node({.kind = NodeKind::sequence, .children = std::move(items)});
  }

  struct Count {
    int32_t min = 0;
    int32_t max = 0;
    bool braces = false;
  };

  std::optional<int32_t> take_number() {
    std::optional<int32_t> number;
    while (!at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      number = number.value_or(0) * 10 + (pattern_[at_++] - '0');
      if (*number > kMaxRepeat) fail_unsupported("a repeat count above 1000");
    }
    return number;
  }

  std::optional<Count> take_count() {
    if (take("*")) return Count{0, kUnbounded};
    if (take("+")) return Count{1, kUnbounded};
    if (take("?")) return Count{0, 1};
    if (!looking_at("{")) return std::nullopt;
    const size_t start = at_++;
    const std::optional<int32_t> min = take_number();
    Count count{min.value_or(0), min.value_or(0), /*braces=*/true};
    if (take(",")) {
      const std::optional<int32_t> max = take_number();
      count.max = max.value_or(kUnbounded);
      if (!min && !max) count.max = -2;
      if (!min && dialect_ == Dialect::perl) count.max = -2;
    } else if (!min) {
      count.max = -2;
    }
    if (count.max == -2 || !take("}")) {  // a brace that stands for itself, as engines have it
      at_ = start;
      fail_unsupported("a { that counts nothing");
    }
    if (count.max != kUnbounded && count.max < count.min) fail_invalid("a count that runs down");
    return count;
  }

  int32_t repeat(int32_t child, const Count& count, Greed greed) {
    const NodeKind kind = node(child).kind;
    if (kind == NodeKind::look_ahead || kind == NodeKind::next_is ||
        kind == NodeKind::previous_is) {
      fail_unsupported("a repeated assertion");
    }
    if (greed == Greed::possessive && kind != NodeKind::set) {
      fail_unsupported("a possessive quantifier on more than one character");
    }
    return add_node({.kind = NodeKind::repeat,
                     .children = {child},
                     .min = count.min,
                     .max = count.max,
                     .greed = greed});
  }

  int32_t parse_repeated(int depth) {
    const int32_t atom = parse_atom(depth);
    const std::optional<Count> count = take_count();
    if (!count) return atom;
    const bool ruby_braces = dialect_ == Dialect::ruby && count->braces;
    int32_t repeated = -1;
    if (ruby_braces && looking_at("+")) {
      at_++;
      repeated = repeat(repeat(atom, *count, Greed::greedy), {1, kUnbounded}, Greed::greedy);
    } else if (ruby_braces && count->min == count->max && looking_at("?")) {
      at_++;
      repeated = repeat(repeat(atom, *count, Greed::greedy), {0, 1}, Greed::greedy);
    } else if (take("+")) {
      repeated = repeat(atom, *count, Greed::possessive);
    } else if (take("?")) {
      repeated = repeat(atom, *count, Greed::lazy);
    } else {
      repeated = repeat(atom, *count, Greed::greedy);
    }
    if (!at_end() && (looking_at("*") || looking_at("+") || looking_at("?") || looking_at("{"))) {
      fail_unsupported("a quantifier of a quantifier");
    }
    return repeated;
  }

  int32_t word_boundary(bool negated) {
    const CodePointSet& word = word_characters();
    const CodePointSet other = word.complement();
    const auto pair = [&](bool before, bool after) {
      const int32_t left = previous_is(before ? word : other, /*edge=*/!before);
      const int32_t right = next_is(after ? word : other, /*edge=*/!after);
      return add_node({.kind = NodeKind::sequence, .children = {left, right}});
    };
    const int32_t first = pair(true, negated);
    const int32_t second = pair(false, !negated);
    return add_node({.kind = NodeKind::alternatives, .children = {first, second}});
  }

  int32_t parse_atom(int depth) {
    if (looking_at("*") || looking_at("+") || looking_at("?")) fail_invalid("nothing to repeat");
    if (looking_at("{")) fail_unsupported("a { that counts nothing");
    if (looking_at("(")) return parse_group(depth);
    if (looking_at("[")) return set_node(parse_class(depth));
    const CodePointSet newline('\n');
    if (take(".")) return set_node(newline.complement());
    if (take("^")) {
      // A line does not begin behind the last newline of the text.
      if (dialect_ == Dialect::perl) return previous_is({}, /*edge=*/true);
      const int32_t start = previous_is({}, /*edge=*/true);
      const int32_t after = previous_is(newline, /*edge=*/false);
      const int32_t before = next_is(CodePointSet().complement(), /*edge=*/false);
      const int32_t line = add_node({.kind = NodeKind::sequence, .children = {after, before}});
      return add_node({.kind = NodeKind::alternatives, .children = {start, line}});
    }
    if (take("$")) return next_is(dialect_ == Dialect::ruby ? newline : CodePointSet(), true);
    if (take("\\A")) return previous_is({}, /*edge=*/true);
    if (take("\\z")) return next_is({}, /*edge=*/true);
    if (take("\\b")) return word_boundary(/*negated=*/false);
    if (take("\\B")) return word_boundary(/*negated=*/true);
    if (looking_at("\\")) {
      Escape escape = take_escape();
      return set_node(escape.literal ? fold(CodePointSet(*escape.literal)) : escape.set);
    }
    return set_node(fold(CodePointSet(take_character())));
  }

  // Leaves `at_` behind the closing parenthesis.
  int32_t group_body(int depth) {
    const int32_t body = parse_alternatives(depth + 1);
    if (!take(")")) fail_invalid("a ( without its )");
    return body;
  }

  int32_t parse_group(int depth) {
    const size_t start = at_;
    if (take("(?:")) return group_body(depth);
    if (take("(?i:") || take("(?-i:")) {
      const Flags outer = flags_;
      flags_.any_case = pattern_[start + 2] == 'i';
      const int32_t body = group_body(depth);
      flags_ = outer;
      return body;
    }
    if (take("(?=")) return look_ahead(group_body(depth), /*negated=*/false);
    if (take("(?!")) return look_ahead(group_body(depth), /*negated=*/true);
    if (take("(?<=")) return look_behind(group_body(depth), /*negated=*/false);
    if (take("(?<!")) return look_behind(group_body(depth), /*negated=*/true);
    if (take("(?>")) return atomic(group_body(depth));
    if (looking_at("(?")) fail_unsupported(printable(pattern_.substr(at_, 4)));
    ++at_;
    return group_body(depth);
  }

  // The characters of which one must follow (or precede), for bodies that say no more than that.
  struct OneCharacter {
    CodePointSet set;
    bool edge = false;
  };
  std::optional<OneCharacter> as_one_character(int32_t body, NodeKind assertion) {
    const Node& top = node(body);
    if (top.kind == NodeKind::set) return OneCharacter{set_of(top)};
    if (top.kind == assertion) return OneCharacter{set_of(top), top.edge};
    if (top.kind != NodeKind::alternatives) return std::nullopt;
    OneCharacter any;
    for (const int32_t child : top.children) {
      const std::optional<OneCharacter> one = as_one_character(child, assertion);
      if (!one) return std::nullopt;
      any.set.add(one->set);
      any.edge = any.edge || one->edge;
    }
    return any;
  }

  int32_t look_ahead(int32_t body, bool negated) {
    const std::optional<OneCharacter> one = as_one_character(body, NodeKind::next_is);
    if (one) return next_is(negated ? one->set.complement() : one->set, one->edge != negated);
    return add_node({.kind = NodeKind::look_ahead, .children = {body}, .negated = negated});
  }

  int32_t look_behind(int32_t body, bool negated) {
    const std::optional<OneCharacter> one = as_one_character(body, NodeKind::previous_is);
    if (!one) fail_unsupported("a look-behind of more than one character");
    return previous_is(negated ? one->set.complement() : one->set, one->edge != negated);
  }

  int32_t atomic(int32_t body) {
    Node& inner = node(body);
    if (inner.kind == NodeKind::set) return body;
    if (inner.kind != NodeKind::repeat || inner.greed == Greed::lazy ||
        node(inner.children[0]).kind != NodeKind::set) {
      fail_unsupported("an atomic group of more than one repeated character");
    }
    inner.greed = Greed::possessive;
    return body;
  }

  uint32_t take_hex(size_t min_digits, size_t max_digits) {
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < max_digits && !at_end(); ++digits, ++at_) {
      const char c = pattern_[at_];
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uint32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
      } else {
        break;
      }
    }
    if (digits < min_digits || value > kMaxCodePoint) fail_invalid("no hexadecimal code point");
    return value;
  }

  uint32_t take_code_point(size_t plain_digits) {
    if (!take("{")) return take_hex(plain_digits, plain_digits);
    const uint32_t value = take_hex(1, 8);
    if (!take("}")) fail_invalid("a code point without its }");
    return value;
  }

  CodePointSet take_property(bool negated) {
    std::string_view name;
    if (take("{")) {
      const size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) fail_invalid("a property without its }");
      if (take("^")) negated = !negated;
      name = pattern_.substr(at_, end - at_);
      at_ = end;
    } else {
      name = pattern_.substr(at_, 1);
    }
    std::optional<CodePointSet> set = find_property(name);
    if (!set) fail_unsupported("this property");
    ++at_;
    return negated ? set->complement() : *set;
  }

  Escape take_escape() {
    const size_t start = at_++;
    if (at_end()) fail_invalid("a pattern that ends in a backslash");
    const char c = pattern_[at_];
    const auto literal = [&](uint32_t code_point) {
      ++at_;
      return Escape{.literal = code_point};
    };
    const auto set = [&](const CodePointSet& positive, bool negated) {
      ++at_;
      return Escape{.set = negated ? positive.complement() : positive};
    };
    switch (c) {
      case 'n':
        return literal('\n');
      case 'r':
        return literal('\r');
      case 't':
        return literal('\t');
      case 'f':
        return literal('\f');
      case 'v':
        return literal('\v');
      case 'a':
        return literal('\a');
      case 's':
      case 'S':
        return set(white_space(), c == 'S');
      case 'd':
      case 'D':
        return set(decimal_digits(), c == 'D');
      case 'w':
      case 'W':
        return set(word_characters(), c == 'W');
      case 'p':
      case 'P':
        ++at_;
        return {.set = take_property(c == 'P')};
      case 'u':
        ++at_;
        return {.literal = take_code_point(4)};
      case 'x':
        ++at_;
        return {.literal = take_code_point(2)};
      default:
        break;
    }
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x80 && (is_ascii_letter(byte) || (c >= '0' && c <= '9'))) {
      at_ = start;
      fail_unsupported(printable(pattern_.substr(start, 2)));
    }
    return {.literal = take_character()};
  }

  // From [ to behind its ].
  CodePointSet parse_class(int depth) {
    if (depth > kMaxDepth) fail_unsupported("nesting deeper than 48 groups");
    if (looking_at("[:")) fail_unsupported("a POSIX class");
    ++at_;
    const bool negated = take("^");
    if (looking_at("]")) fail_unsupported("an empty class");
    Union united;
    std::optional<CodePointSet> intersected;
    while (!looking_at("]")) {
      if (at_end()) fail_invalid("a [ without its ]");
      if (take("&&")) {
        const CodePointSet operand = united.take();
        intersected = intersected ? intersected->intersection(operand) : operand;
      } else {
        united.add(looking_at("[") ? parse_class(depth + 1) : take_class_item());
      }
    }
    ++at_;
    CodePointSet set = united.take();
    if (intersected) set = intersected->intersection(set);
    return negated ? set.complement() : set;
  }

  // A character, a range or an escape.
  CodePointSet take_class_item() {
    uint32_t first = 0;
    if (looking_at("\\")) {
      const Escape escape = take_escape();
      if (!escape.literal) return escape.set;
      first = *escape.literal;
    } else {
      first = take_character();
    }
    const bool range = looking_at("-") && !looking_at("-]") && at_ + 1 < pattern_.size() &&
                       pattern_[at_ + 1] != '[';
    if (!range) return fold(CodePointSet(first));
    ++at_;
    uint32_t last = 0;
    if (looking_at("\\")) {
      const Escape escape = take_escape();
      if (!escape.literal) fail_unsupported("a range that ends in a class");
      last = *escape.literal;
    } else {
      last = take_character();
    }
    if (last < first) fail_invalid("a range that runs down");
    return fold(CodePointSet({{first, last}}));
  }

  std::string_view pattern_;
  Dialect dialect_;
  size_t at_ = 0;
  Flags flags_;
  Syntax syntax_;
  std::unordered_map<uint64_t, std::vector<int32_t>> sets_by_hash_;
};

}  // namespace

Syntax parse(std::string_view pattern, Dialect dialect) { return Parser(pattern, dialect).parse(); }

}  // namespace hasten::text::regex
