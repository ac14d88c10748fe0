// SPDX-License-Identifier: Apache-2.0
// The subset construction over ordered lists.
#include "text/regex/dfa.h"

#include <unordered_map>

#include "base/hash.h"

namespace hasten::text::regex {
namespace {

// 1 MiB of table, which the caches hold; published expressions take under 200 KB.
constexpr size_t kMaxTable = size_t{1} << 18;
// Instructions visited: some 20 ms.
constexpr int64_t kMaxWork = int64_t{1} << 22;

using Threads = std::vector<int32_t>;  // instructions, the preferred first

class Builder {
 public:
  Builder(const Program& program, uint32_t num_symbols)
      : program_(program),
        num_symbols_(num_symbols),
        visited_(program.instructions.size()),
        listed_(program.instructions.size()) {}

  // Fills `table`; false: too large. The state of no return is 0, the start is 1.
  bool build(std::vector<uint32_t>& table) {
    number_of({});
    number_of({program_.start});
    for (size_t state = 0; state < states_.size(); ++state) {
      table.resize(states_.size() * num_symbols_);
      if (table.size() > kMaxTable || work_ > kMaxWork) return false;
      for (uint32_t symbol = 0; symbol < num_symbols_; ++symbol) {
        Threads next;
        const bool matched = step(state, symbol, next);
        const auto row = static_cast<uint32_t>(number_of(std::move(next)) * num_symbols_);
        table[state * num_symbols_ + symbol] = row << 1 | (matched ? 1 : 0);
      }
    }
    table.resize(states_.size() * num_symbols_);
    return table.size() <= kMaxTable;
  }

 private:
  // What `symbol` makes of a state; whether the expression matches before the symbol, which cuts
  // off whatever is less preferred.
  bool step(size_t state, uint32_t symbol, Threads& next) {
    ++stamp_;
    for (const int32_t thread : states_[state]) {
      stack_.assign(1, thread);
      while (!stack_.empty()) {
        const auto at = static_cast<size_t>(stack_.back());
        stack_.pop_back();
        if (visited_[at] == stamp_) continue;
        visited_[at] = stamp_;
        ++work_;
        const Instruction& instruction = program_.instructions[at];
        if (instruction.op == Op::match) return true;
        if (instruction.op == Op::split) {
          stack_.push_back(instruction.other);
        } else if (program_.symbol_sets[static_cast<size_t>(instruction.set)][symbol] == 0) {
          continue;
        }
        if (instruction.op != Op::take) {
          stack_.push_back(instruction.next);
        } else if (listed_[static_cast<size_t>(instruction.next)] != stamp_) {
          listed_[static_cast<size_t>(instruction.next)] = stamp_;
          next.push_back(instruction.next);
        }
      }
    }
    return false;
  }

  size_t number_of(Threads threads) {
    const uint64_t hash = hash_bytes(
        {reinterpret_cast<const char*>(threads.data()), threads.size() * sizeof(int32_t)});
    work_ += static_cast<int64_t>(threads.size());
    std::vector<size_t>& candidates = states_by_hash_[hash];
    for (const size_t candidate : candidates) {
      if (states_[candidate] == threads) return candidate;
    }
    states_.push_back(std::move(threads));
    candidates.push_back(states_.size() - 1);
    return states_.size() - 1;
  }

  const Program& program_;
  size_t num_symbols_;
  std::vector<Threads> states_;
  std::unordered_map<uint64_t, std::vector<size_t>> states_by_hash_;
  std::vector<int32_t> stack_;
  std::vector<uint64_t> visited_;  // by instruction: the step that last came by
  std::vector<uint64_t> listed_;
  uint64_t stamp_ = 0;
  int64_t work_ = 0;
};

}  // namespace

std::optional<Dfa> Dfa::build(const Program& program, const Alphabet& alphabet) {
  if (program.looks_behind || !program.look_starts.empty()) return std::nullopt;
  Dfa dfa;
  dfa.num_symbols_ = alphabet.num_symbols();
  dfa.start_ = dfa.num_symbols_;
  if (!Builder(program, dfa.num_symbols_).build(dfa.table_)) return std::nullopt;
  return dfa;
}

}  // namespace hasten::text::regex
