// SPDX-License-Identifier: Apache-2.0
// The backward pass, whose sets of instructions are numbered and cached, and the forward pass.
#include "text/regex/linear_search.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace hasten::text::regex {
namespace {

// Positions are worked through in blocks: the backward pass keeps one set per block, and makes the
// others again when the forward pass comes there. Bounds memory to about the square root of a text.
constexpr size_t kMinBlock = 1024;
constexpr size_t kMaxBlock = 8192;
// Kept between blocks and texts, in entries of rows and words of sets; what occurs in texts takes a
// few thousand. 4 MiB each at most, but for one block.
constexpr size_t kMaxKept = size_t{1} << 20;
constexpr size_t kMaxWords = size_t{1} << 19;
// Wider rows, of expressions that look behind with many symbols, are not kept.
constexpr size_t kMaxRowWidth = 1024;
constexpr size_t kMaxWalkWidth = 256;

}  // namespace

// One call of find_all.
class LinearSearch::Pass {
 public:
  Pass(const LinearSearch& search, std::string_view text, std::optional<size_t> last_end,
       Scratch& scratch, std::vector<Match>& matches)
      : program_(search.program_),
        alphabet_(search.alphabet_),
        search_(search),
        text_(text),
        matches_(matches),
        last_end_(last_end),
        num_words_(search.num_words_),
        row_width_(search.row_width_),
        walk_width_(search.walk_width_),
        symbols_(scratch.symbols),
        offsets_(scratch.offsets),
        viable_(scratch.viable),
        sets_(scratch.sets),
        steps_(scratch.steps),
        walks_(scratch.walks),
        numbers_by_hash_(scratch.numbers_by_hash),
        stack_(scratch.stack),
        visited_(scratch.visited),
        stamp_(scratch.stamp) {
    visited_.resize(program_.instructions.size());
    stack_.clear();
  }

  void run(size_t at) {
    uint32_t previous = alphabet_.edge();
    if (search_.separates_.empty()) {
      search_segment(at, text_.size(), previous);
      return;
    }
    // Between separators, each stretch is searched by itself.
    while (at < text_.size()) {
      const Alphabet::Step step = alphabet_.step(text_, at);
      if (search_.separates_[step.symbol] != 0) {
        previous = step.symbol;
        at += step.length;
        continue;
      }
      size_t end = at;
      uint32_t last = previous;
      while (end < text_.size()) {
        const Alphabet::Step within = alphabet_.step(text_, end);
        if (search_.separates_[within.symbol] != 0) break;
        last = within.symbol;
        end += within.length;
      }
      search_segment(at, end, previous);
      previous = last;
      at = end;
    }
  }

 private:
  // Which instructions lead to a match, as bits.
  using Bits = std::vector<uint64_t>;
  static constexpr uint32_t kNothing = 0;  // the number of the empty set, which is the first

  bool has(uint32_t set, int32_t instruction) const {
    const auto i = static_cast<size_t>(instruction);
    return (sets_[set * num_words_ + i / 64] >> (i % 64) & 1) != 0;
  }

  struct Block {
    size_t begin;
    size_t end;
    uint32_t previous;   // the symbol before it
    Bits viable_at_end;  // what leads to a match from its end
  };

  // The matches that begin within [begin, end]: where `end` is not the end of the text, a separator
  // stands there.
  void search_segment(size_t begin, size_t end, uint32_t previous) {
    const uint32_t terminator =
        end < text_.size() ? alphabet_.step(text_, end).symbol : alphabet_.edge();
    if (end - begin <= kMinBlock) {  // what most segments are
      prepare_cache();
      decode(begin, end);
      symbols_.push_back(terminator);
      offsets_.push_back(end);
      look_back(previous, kNothing);
      forward();
      return;
    }
    const size_t block_size = std::clamp((end - begin) / kMinBlock, kMinBlock, kMaxBlock);
    std::vector<Block> blocks;
    size_t count = 0;
    for (size_t at = begin; at < end; ++count) {
      if (count % block_size == 0) blocks.push_back({at, end, previous, {}});
      if (count % block_size == 0 && count > 0) blocks[blocks.size() - 2].end = at;
      const Alphabet::Step step = alphabet_.step(text_, at);
      previous = step.symbol;
      at += step.length;
    }
    const Bits viable_at_end = predecessors_of(Bits(num_words_), terminator, previous);
    Bits bits = viable_at_end;
    for (size_t b = blocks.size(); b-- > 0;) {
      blocks[b].viable_at_end = bits;
      if (b == 0) break;
      load(blocks[b]);
      bits = bits_of(viable_[0]);
    }
    for (const Block& block : blocks) {
      load(block);
      forward();
    }
    // The position behind the last character.
    prepare_cache();
    symbols_.assign(1, terminator);
    offsets_.assign(1, end);
    look_back(previous, kNothing);
    forward();
  }

  void load(const Block& block) {
    prepare_cache();
    decode(block.begin, block.end);
    look_back(block.previous, number_of(block.viable_at_end));
  }

  // Fills symbols_ and offsets_.
  void decode(size_t begin, size_t end) {
    symbols_.clear();
    offsets_.clear();
    for (size_t at = begin; at < end;) {
      const Alphabet::Step step = alphabet_.step(text_, at);
      symbols_.push_back(step.symbol);
      offsets_.push_back(at);
      at += step.length;
    }
  }

  // Fills viable_, given the symbol before them and the number of the set behind.
  void look_back(uint32_t before, uint32_t behind) {
    viable_.resize(symbols_.size() + 1);
    viable_.back() = behind;
    for (size_t i = symbols_.size(); i-- > 0;) {
      const uint32_t previous = i > 0 ? symbols_[i - 1] : before;
      const size_t step =
          program_.looks_behind ? symbols_[i] * alphabet_.num_symbols() + previous : symbols_[i];
      const size_t entry = viable_[i + 1] * row_width_ + step;
      if (row_width_ > 0 && steps_[entry] != Scratch::kUnknown) {
        viable_[i] = steps_[entry];
        continue;
      }
      viable_[i] = number_of(predecessors_of(bits_of(viable_[i + 1]), symbols_[i], previous));
      if (row_width_ > 0) steps_[entry] = viable_[i];
    }
  }

  Bits bits_of(uint32_t number) const {
    const auto first = sets_.begin() + static_cast<std::ptrdiff_t>(number * num_words_);
    return Bits(first, first + static_cast<std::ptrdiff_t>(num_words_));
  }

  // What leads to a match at a position, given what does behind its symbol.
  Bits predecessors_of(const Bits& next, uint32_t symbol, uint32_t previous) {
    Bits bits(num_words_);
    const auto test = [](const Bits& in, int32_t instruction) {
      const auto i = static_cast<size_t>(instruction);
      return (in[i / 64] >> (i % 64) & 1) != 0;
    };
    const auto mark = [&](size_t i) {
      if ((bits[i / 64] >> (i % 64) & 1) != 0) return;
      bits[i / 64] |= uint64_t{1} << (i % 64);
      stack_.push_back(static_cast<int32_t>(i));
    };
    const auto in_set = [&](const Instruction& instruction, uint32_t of) {
      return program_.symbol_sets[static_cast<size_t>(instruction.set)][of] != 0;
    };
    size_t region = 0;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      // A region is finished before one that looks at it begins.
      if (region + 1 < program_.region_begins.size() &&
          i == static_cast<size_t>(program_.region_begins[region + 1])) {
        ++region;
      }
      const Instruction& base = program_.instructions[i];
      if (base.op == Op::match ||
          (base.op == Op::take && in_set(base, symbol) && test(next, base.next))) {
        mark(i);
      }
      while (!stack_.empty()) {
        const auto reached = static_cast<size_t>(stack_.back());
        stack_.pop_back();
        for (const int32_t before : search_.predecessors_[reached]) {
          const auto p = static_cast<size_t>(before);
          const Instruction& instruction = program_.instructions[p];
          bool passes = true;
          if (instruction.op == Op::next_is) {
            passes = in_set(instruction, symbol);
          } else if (instruction.op == Op::prev_is) {
            passes = in_set(instruction, previous);
          } else if (instruction.op == Op::look) {
            const int32_t start = program_.look_starts[static_cast<size_t>(instruction.other)];
            passes = test(bits, start) != instruction.negated;
          }
          if (passes) mark(p);
        }
      }
    }
    return bits;
  }

  // Walks over the positions of the block that is loaded.
  void forward() {
    for (size_t i = 0; i < symbols_.size();) {
      if (!matching_) {
        if (!has(viable_[i], program_.start)) {
          ++i;
          continue;
        }
        matching_ = true;
        at_ = program_.start;
        begin_ = offsets_[i];
      }
      if (!go_on(i)) {  // took the symbol
        ++i;
        continue;
      }
      matching_ = false;
      const size_t end = offsets_[i];
      const bool empty = end == begin_;
      // As engines have it: no empty match where another has just ended.
      if (!empty || last_end_ != end) matches_.push_back({begin_, end});
      last_end_ = end;
      if (empty) ++i;
    }
  }

  // As walk, which it asks once for each instruction and set.
  bool go_on(size_t i) {
    if (walk_width_ == 0) return walk(i);
    uint32_t& known = walks_[viable_[i] * walk_width_ + static_cast<size_t>(at_)];
    if (known == Scratch::kUnknown) {
      const bool matched = walk(i);
      known = matched ? 1 : static_cast<uint32_t>(at_) << 1;
    }
    at_ = static_cast<int32_t>(known >> 1);
    return (known & 1) != 0;
  }

  // From instruction at_ to the preferred one that takes the symbol at `i`, whose successor becomes
  // at_; true: to a match before the symbol. One of them is there.
  bool walk(size_t i) {
    ++stamp_;
    stack_.assign(1, at_);
    while (!stack_.empty()) {
      const int32_t at = stack_.back();
      stack_.pop_back();
      uint64_t& visited = visited_[static_cast<size_t>(at)];
      if (visited == stamp_ || !has(viable_[i], at)) continue;
      visited = stamp_;
      const Instruction& instruction = program_.instructions[static_cast<size_t>(at)];
      if (instruction.op == Op::match || instruction.op == Op::take) {
        stack_.clear();
        at_ = instruction.next;
        return instruction.op == Op::match;
      }
      // Assertions that fail are not viable.
      if (instruction.op == Op::split) stack_.push_back(instruction.other);
      stack_.push_back(instruction.next);
    }
    HASTEN_CHECK(false);
  }

  uint32_t number_of(const Bits& bits) {
    const uint64_t hash =
        hash_bytes({reinterpret_cast<const char*>(bits.data()), bits.size() * sizeof(uint64_t)});
    std::vector<uint32_t>& candidates = numbers_by_hash_[hash];
    for (const uint32_t candidate : candidates) {
      if (std::equal(bits.begin(), bits.end(),
                     sets_.begin() + static_cast<std::ptrdiff_t>(candidate * num_words_))) {
        return candidate;
      }
    }
    const auto number = static_cast<uint32_t>(sets_.size() / num_words_);
    sets_.insert(sets_.end(), bits.begin(), bits.end());
    steps_.resize(steps_.size() + row_width_, Scratch::kUnknown);
    walks_.resize(walks_.size() + walk_width_, Scratch::kUnknown);
    candidates.push_back(number);
    return number;
  }

  // No number that is in use may be lost: only between blocks.
  void prepare_cache() {
    if (sets_.size() >= kMaxWords || steps_.size() >= kMaxKept || walks_.size() >= kMaxKept) {
      sets_.clear();
      numbers_by_hash_.clear();
      steps_.clear();
      walks_.clear();
    }
    if (sets_.empty()) number_of(Bits(num_words_));
  }

  const Program& program_;
  const Alphabet& alphabet_;
  const LinearSearch& search_;
  std::string_view text_;
  std::vector<Match>& matches_;

  // The match that is under way.
  bool matching_ = false;
  int32_t at_ = -1;
  size_t begin_ = 0;
  std::optional<size_t> last_end_;

  size_t num_words_;
  size_t row_width_;
  size_t walk_width_;
  // Of the scratch.
  std::vector<uint32_t>& symbols_;
  std::vector<size_t>& offsets_;
  std::vector<uint32_t>& viable_;
  std::vector<uint64_t>& sets_;
  std::vector<uint32_t>& steps_;
  std::vector<uint32_t>& walks_;
  std::unordered_map<uint64_t, std::vector<uint32_t>>& numbers_by_hash_;
  std::vector<int32_t>& stack_;
  std::vector<uint64_t>& visited_;
  uint64_t& stamp_;
};

LinearSearch::LinearSearch(const Program& program, const Alphabet& alphabet)
    : program_(program),
      alphabet_(alphabet),
      predecessors_(program.instructions.size()),
      num_words_((program.instructions.size() + 63) / 64),
      row_width_(program.looks_behind ? size_t{alphabet.num_symbols()} * alphabet.num_symbols()
                                      : alphabet.num_symbols()),
      walk_width_(program.instructions.size()) {
  if (row_width_ > kMaxRowWidth) row_width_ = 0;
  if (walk_width_ > kMaxWalkWidth) walk_width_ = 0;
  const auto& instructions = program.instructions;
  separates_.assign(alphabet.num_symbols(), 1);
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.op == Op::take) {
      const auto& set = program.symbol_sets[static_cast<size_t>(instruction.set)];
      for (size_t symbol = 0; symbol < set.size(); ++symbol) {
        if (set[symbol] != 0) separates_[symbol] = 0;
      }
    } else if (instruction.op != Op::match) {
      predecessors_[static_cast<size_t>(instruction.next)].push_back(static_cast<int32_t>(i));
    }
    if (instruction.op == Op::split) {
      predecessors_[static_cast<size_t>(instruction.other)].push_back(static_cast<int32_t>(i));
    }
  }
  // Where a match might begin at a separator, or at the end, nothing separates.
  std::vector<uint8_t> visited(instructions.size());
  std::vector<int32_t> stack{program.start};
  while (!stack.empty()) {
    const auto at = static_cast<size_t>(stack.back());
    stack.pop_back();
    if (visited[at] != 0) continue;
    visited[at] = 1;
    const Instruction& instruction = instructions[at];
    if (instruction.op == Op::match) separates_.clear();
    if (instruction.op == Op::take || instruction.op == Op::match) continue;
    stack.push_back(instruction.next);
    if (instruction.op == Op::split) stack.push_back(instruction.other);
  }
}

size_t LinearSearch::next_candidate(std::string_view text, size_t at) const {
  while (!separates_.empty() && at < text.size()) {
    const Alphabet::Step step = alphabet_.step(text, at);
    if (separates_[step.symbol] == 0) break;
    at += step.length;
  }
  return at;
}

void LinearSearch::find_all(std::string_view text, size_t at, std::optional<size_t> last_end,
                            Scratch& scratch, std::vector<Match>& matches) const {
  // Most texts hold nothing but separators.
  if (!separates_.empty() && next_candidate(text, at) == text.size()) return;
  Pass(*this, text, last_end, scratch, matches).run(at);
}

}  // namespace hasten::text::regex
