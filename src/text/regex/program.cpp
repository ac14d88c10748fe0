// SPDX-License-Identifier: Apache-2.0
// Thompson's construction, from the end of an expression to its beginning.
#include "text/regex/program.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace hasten::text::regex {
namespace {

// Jais 2, with counts up to 512, needs 1,100. Bounds the time per character of the general search.
constexpr size_t kMaxInstructions = 4096;
// Nested counts of what takes no instructions would still take time.
constexpr int64_t kMaxEmits = int64_t{1} << 18;

class Compiler {
 public:
  Compiler(const Syntax& syntax, const Alphabet& alphabet) : syntax_(syntax), alphabet_(alphabet) {}

  Program compile() {
    nullable_.resize(syntax_.nodes.size());
    for (size_t i = 0; i < nullable_.size(); ++i) nullable_[i] = is_nullable(syntax_.nodes[i]);
    // Children precede their parents among the nodes, and so do the look-aheads of look-aheads.
    for (size_t i = 0; i < syntax_.nodes.size(); ++i) {
      const Node& node = syntax_.nodes[i];
      if (node.kind != NodeKind::look_ahead) continue;
      program_.region_begins.push_back(static_cast<int32_t>(program_.instructions.size()));
      const int32_t accept = add({.op = Op::match});
      look_of_node_[static_cast<int32_t>(i)] = static_cast<int32_t>(program_.look_starts.size());
      program_.look_starts.push_back(emit(node.children[0], accept));
    }
    program_.region_begins.push_back(static_cast<int32_t>(program_.instructions.size()));
    program_.start = emit(syntax_.root, add({.op = Op::match}));
    return std::move(program_);
  }

 private:
  const Node& node(int32_t index) const { return syntax_.nodes[static_cast<size_t>(index)]; }

  bool is_nullable(const Node& node) const {
    const auto nullable = [&](int32_t child) { return nullable_[static_cast<size_t>(child)] != 0; };
    switch (node.kind) {
      case NodeKind::set:
        return false;
      case NodeKind::sequence:
        return std::all_of(node.children.begin(), node.children.end(), nullable);
      case NodeKind::alternatives:
        return std::any_of(node.children.begin(), node.children.end(), nullable);
      case NodeKind::repeat:
        return node.min == 0 || nullable(node.children[0]);
      default:
        return true;
    }
  }

  int32_t add(Instruction instruction) {
    if (program_.instructions.size() >= kMaxInstructions) {
      fail(
          ErrorCode::unsupported,
          "it takes more than {} states; lower the counts in its braces, or leave alternatives out",
          kMaxInstructions);
    }
    program_.instructions.push_back(instruction);
    return static_cast<int32_t>(program_.instructions.size()) - 1;
  }

  // The symbols of set `set`, with or without edge; `complement`: the others.
  int32_t symbol_set(int32_t set, bool edge, bool complement = false) {
    const auto [known, is_new] = set_numbers_.try_emplace(
        {set, edge, complement}, static_cast<int32_t>(program_.symbol_sets.size()));
    if (!is_new) return known->second;
    std::vector<uint8_t> symbols = alphabet_.symbols_of(set);
    for (uint8_t& symbol : symbols) symbol = static_cast<uint8_t>(symbol ^ (complement ? 1 : 0));
    symbols[alphabet_.edge()] = edge ? 1 : 0;
    program_.symbol_sets.push_back(std::move(symbols));
    return known->second;
  }

  int32_t split(int32_t preferred, int32_t other) {
    return add({.op = Op::split, .next = preferred, .other = other});
  }
  int32_t split(Greed greed, int32_t into, int32_t past) {
    return greed == Greed::lazy ? split(past, into) : split(into, past);
  }

  // The start of what matches `index` and goes on at `next`.
  int32_t emit(int32_t index, int32_t next) {
    if (++num_emits_ > kMaxEmits) {
      fail(ErrorCode::unsupported,
           "the counts in its braces multiply to more than {} steps; lower them", kMaxEmits);
    }
    const Node& current = node(index);
    switch (current.kind) {
      case NodeKind::empty:
        return next;
      case NodeKind::set:
        return add({.op = Op::take, .set = symbol_set(current.set, false), .next = next});
      case NodeKind::sequence:
        for (auto child = current.children.rbegin(); child != current.children.rend(); ++child) {
          next = emit(*child, next);
        }
        return next;
      case NodeKind::alternatives: {
        int32_t start = emit(current.children.back(), next);
        for (size_t i = current.children.size() - 1; i > 0; --i) {
          start = split(emit(current.children[i - 1], next), start);
        }
        return start;
      }
      case NodeKind::repeat:
        return emit_repeat(current, next);
      case NodeKind::look_ahead:
        return add({.op = Op::look,
                    .negated = current.negated,
                    .next = next,
                    .other = look_of_node_.at(index)});
      case NodeKind::next_is:
        return add({.op = Op::next_is, .set = symbol_set(current.set, current.edge), .next = next});
      case NodeKind::previous_is:
        program_.looks_behind = true;
        return add({.op = Op::prev_is, .set = symbol_set(current.set, current.edge), .next = next});
    }
    HASTEN_CHECK(false);
  }

  // x* as a loop; where x can be empty, (x+)?, so that an empty round ends the loop as Perl has it.
  int32_t emit_star(int32_t child, Greed greed, int32_t next) {
    if (nullable_[static_cast<size_t>(child)] != 0) {
      return split(greed, emit_plus(child, greed, next), next);
    }
    const int32_t loop = split(greed, next, next);
    const int32_t body = emit(child, loop);
    Instruction& made = program_.instructions[static_cast<size_t>(loop)];
    (greed == Greed::lazy ? made.other : made.next) = body;
    return loop;
  }

  int32_t emit_plus(int32_t child, Greed greed, int32_t next) {
    const int32_t loop = split(greed, next, next);
    const int32_t body = emit(child, loop);
    Instruction& made = program_.instructions[static_cast<size_t>(loop)];
    (greed == Greed::lazy ? made.other : made.next) = body;
    return body;
  }

  int32_t emit_repeat(const Node& repeat, int32_t next) {
    const int32_t child = repeat.children[0];
    int32_t past = next;
    if (repeat.greed == Greed::possessive) {
      // Of one character: may end early only where that character does not follow.
      past = add({.op = Op::next_is,
                  .set = symbol_set(node(child).set, /*edge=*/true, /*complement=*/true),
                  .next = next});
    }
    int32_t start = next;
    if (repeat.max == kUnbounded) {
      start = repeat.min > 0 ? emit_plus(child, repeat.greed, past)
                             : emit_star(child, repeat.greed, past);
    } else {
      for (int32_t i = repeat.min; i < repeat.max; ++i) {
        start = split(repeat.greed, emit(child, start), past);
      }
    }
    const int32_t copies = repeat.max == kUnbounded ? repeat.min - 1 : repeat.min;
    for (int32_t i = 0; i < copies; ++i) start = emit(child, start);
    return start;
  }

  const Syntax& syntax_;
  const Alphabet& alphabet_;
  Program program_;
  int64_t num_emits_ = 0;
  std::vector<uint8_t> nullable_;  // by node
  std::map<int32_t, int32_t> look_of_node_;
  struct SetKey {
    int32_t set;
    bool edge;
    bool complement;
    auto operator<=>(const SetKey&) const = default;
  };
  std::map<SetKey, int32_t> set_numbers_;
};

}  // namespace

Program compile(const Syntax& syntax, const Alphabet& alphabet) {
  return Compiler(syntax, alphabet).compile();
}

}  // namespace hasten::text::regex
