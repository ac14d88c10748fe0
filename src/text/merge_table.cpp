// SPDX-License-Identifier: Apache-2.0
// Two ways to the same merges: a scan for words of a few symbols, a heap for everything longer.
#include "text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "base/hash.h"

namespace hasten::text {
namespace {

// Up to here a scan of all ranks is faster than a heap: nearly every word of ordinary text.
constexpr size_t kShortWord = 16;
constexpr int32_t kNoRank = INT32_MAX;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t num_pairs, uint64_t seed)
    : slots_(std::bit_ceil(2 * num_pairs + 1)), seed_(seed) {}

size_t MergeTable::slot_of(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = mix64(pair ^ seed_) & mask;
  while (slots_[slot].pair != pair && slots_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::add(int32_t left, int32_t right, int32_t merged, int32_t rank) {
  HASTEN_CHECK(left >= 0 && right >= 0 && merged >= 0);
  Entry& entry = slots_[slot_of(pair_of(left, right))];
  if (entry.pair == kNoPair || rank < entry.rank) {
    entry = {.pair = pair_of(left, right), .rank = rank, .merged = merged};
  }
}

const MergeTable::Entry* MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return nullptr;
  const Entry& entry = slots_[slot_of(pair_of(left, right))];
  return entry.pair == kNoPair ? nullptr : &entry;
}

void MergeTable::merge_short(std::vector<int32_t>& symbols) const {
  static constexpr Entry kNone{.rank = kNoRank};
  std::array<Entry, kShortWord> joins;  // joins[i]: of symbols i and i + 1
  size_t size = symbols.size();
  const auto look_up = [&](size_t i) {
    const Entry* entry = find(symbols[i], symbols[i + 1]);
    joins[i] = entry != nullptr ? *entry : kNone;
  };
  for (size_t i = 0; i + 1 < size; ++i) look_up(i);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (joins[i].rank < joins[best].rank) best = i;
    }
    if (joins[best].rank == kNoRank) break;
    symbols[best] = joins[best].merged;
    for (size_t i = best + 1; i + 1 < size; ++i) {
      symbols[i] = symbols[i + 1];
      joins[i - 1] = joins[i];
    }
    --size;
    if (best > 0) look_up(best - 1);
    if (best + 1 < size) look_up(best);
  }
  symbols.resize(size);
}

// Puts the pair that begins at node `left` on the heap if it is in the table.
void MergeTable::consider(int32_t left, Scratch& scratch) const {
  const Scratch::Node& node = scratch.nodes_[static_cast<size_t>(left)];
  if (node.next < 0) return;
  const int32_t right_symbol = scratch.nodes_[static_cast<size_t>(node.next)].symbol;
  const Entry* entry = find(node.symbol, right_symbol);
  if (entry == nullptr) return;
  scratch.heap_.push_back({.rank = entry->rank,
                           .left = left,
                           .left_symbol = node.symbol,
                           .right_symbol = right_symbol,
                           .merged = entry->merged});
}

void MergeTable::merge(std::vector<int32_t>& symbols, Scratch& scratch) const {
  if (symbols.size() <= kShortWord) return merge_short(symbols);
  HASTEN_CHECK(symbols.size() < static_cast<size_t>(INT32_MAX));

  auto& nodes = scratch.nodes_;
  auto& heap = scratch.heap_;
  const auto size = static_cast<int32_t>(symbols.size());
  nodes.clear();
  heap.clear();
  for (int32_t i = 0; i < size; ++i) {
    nodes.push_back({symbols[static_cast<size_t>(i)], i - 1, i + 1 < size ? i + 1 : -1});
  }
  for (int32_t i = 0; i + 1 < size; ++i) consider(i, scratch);

  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const Scratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Scratch::Node& left = nodes[static_cast<size_t>(best.left)];
    if (left.symbol != best.left_symbol || left.next < 0) continue;
    Scratch::Node& right = nodes[static_cast<size_t>(left.next)];
    if (right.symbol != best.right_symbol) continue;

    left.symbol = best.merged;
    left.next = right.next;
    right.symbol = -1;  // no candidate may find it again
    if (left.next >= 0) nodes[static_cast<size_t>(left.next)].previous = best.left;
    for (const int32_t changed : {left.previous, best.left}) {
      const size_t before = heap.size();
      if (changed >= 0) consider(changed, scratch);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0; i = nodes[static_cast<size_t>(i)].next) {
    symbols.push_back(nodes[static_cast<size_t>(i)].symbol);
  }
}

}  // namespace hasten::text
