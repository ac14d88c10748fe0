// SPDX-License-Identifier: Apache-2.0
// Refines the code points by one set after the other until each symbol lies within or without each.
#include "text/regex/alphabet.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"

namespace hasten::text::regex {
namespace {

constexpr uint32_t kNumCodePoints = kMaxCodePoint + 1;
// Published expressions need about 40. Bounds the tables, whose rows are one entry per symbol.
constexpr uint32_t kMaxSymbols = 4096;

}  // namespace

Alphabet::Alphabet(const std::vector<CodePointSet>& sets) {
  number_symbols(sets);
  build_blocks();
}

void Alphabet::number_symbols(const std::vector<CodePointSet>& sets) {
  starts_.push_back(0);
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      starts_.push_back(range.first);
      if (range.last < kMaxCodePoint) starts_.push_back(range.last + 1);
    }
  }
  std::sort(starts_.begin(), starts_.end());
  starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
  symbol_of_interval_.assign(starts_.size(), 0);
  const auto interval_of = [&](uint32_t start) {
    return static_cast<size_t>(std::lower_bound(starts_.begin(), starts_.end(), start) -
                               starts_.begin());
  };
  const auto for_intervals = [&](const CodePointSet& set, auto&& action) {
    for (const CodePointRange& range : set.ranges()) {
      for (size_t i = interval_of(range.first); i < starts_.size() && starts_[i] <= range.last;
           ++i) {
        action(i);
      }
    }
  };

  // Each symbol that a set cuts gives the part inside a new number, unless it lies inside whole.
  uint32_t num = 1;
  std::vector<size_t> size_of{starts_.size()};  // intervals, by symbol
  for (const CodePointSet& set : sets) {
    std::unordered_map<uint16_t, size_t> inside;
    for_intervals(set, [&](size_t i) { ++inside[symbol_of_interval_[i]]; });
    std::unordered_map<uint16_t, uint16_t> renumbered;
    for (const auto& [symbol, count] : inside) {
      if (count == size_of[symbol]) continue;
      if (num + 1 >= kMaxSymbols) {
        fail(
            ErrorCode::unsupported,
            "it tells more than {} kinds of characters apart; leave some out, or put them into one "
            "class",
            kMaxSymbols - 1);
      }
      size_of[symbol] -= count;
      size_of.push_back(count);
      renumbered.emplace(symbol, static_cast<uint16_t>(num++));
    }
    if (renumbered.empty()) continue;
    for_intervals(set, [&](size_t i) {
      const auto found = renumbered.find(symbol_of_interval_[i]);
      if (found != renumbered.end()) symbol_of_interval_[i] = found->second;
    });
  }
  num_symbols_ = num + 1;
  symbols_of_.assign(sets.size(), std::vector<uint8_t>(num_symbols_));
  for (size_t s = 0; s < sets.size(); ++s) {
    for_intervals(sets[s], [&](size_t i) { symbols_of_[s][symbol_of_interval_[i]] = 1; });
  }
}

void Alphabet::build_blocks() {
  block_of_.resize(kNumCodePoints / kBlockSize);
  std::unordered_map<uint64_t, std::vector<uint16_t>> blocks_by_hash;
  std::vector<int32_t> uniform(num_symbols_, -1);  // the block that is this symbol throughout
  std::vector<uint16_t> block(kBlockSize);
  const auto append = [&] {
    blocks_.insert(blocks_.end(), block.begin(), block.end());
    return static_cast<uint16_t>(blocks_.size() / kBlockSize - 1);
  };
  const auto find_or_append = [&] {
    auto& candidates = blocks_by_hash[hash_bytes(
        {reinterpret_cast<const char*>(block.data()), kBlockSize * sizeof(uint16_t)})];
    for (const uint16_t candidate : candidates) {
      if (std::equal(block.begin(), block.end(), blocks_.begin() + candidate * kBlockSize)) {
        return candidate;
      }
    }
    candidates.push_back(append());
    return candidates.back();
  };

  size_t interval = 0;
  for (uint32_t b = 0; b < block_of_.size(); ++b) {
    const uint32_t first = b * kBlockSize;
    const uint32_t end = first + kBlockSize;
    while (interval + 1 < starts_.size() && starts_[interval + 1] <= first) ++interval;
    const uint16_t symbol = symbol_of_interval_[interval];
    if (interval + 1 == starts_.size() || starts_[interval + 1] >= end) {
      int32_t& known = uniform[symbol];
      if (known < 0) {
        std::fill(block.begin(), block.end(), symbol);
        known = append();
      }
      block_of_[b] = static_cast<uint16_t>(known);
      continue;
    }
    size_t at = interval;
    for (uint32_t c = first; c < end; ++c) {
      while (at + 1 < starts_.size() && starts_[at + 1] <= c) ++at;
      block[c - first] = symbol_of_interval_[at];
    }
    block_of_[b] = find_or_append();
  }
  for (uint32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = static_cast<uint16_t>(symbol(c));
}

}  // namespace hasten::text::regex
