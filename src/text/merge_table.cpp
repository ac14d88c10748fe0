// SPDX-License-Identifier: Apache-2.0
// Three ways to the same merges: a scan for words of a few symbols, a heap for longer ones, and for
// the longest a round for each rank, which costs one pass over what it joins.
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
// From here on rounds are faster than a heap.
constexpr size_t kLongWord = 256;
constexpr int32_t kNoRank = INT32_MAX;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t num_pairs, uint64_t seed) : seed_(seed) { make_room(num_pairs); }

void MergeTable::make_room(size_t num_pairs) {
  const std::vector<Entry> entries = std::move(slots_);
  slots_.assign(std::bit_ceil(2 * num_pairs + 1), Entry{});
  filter_.assign(std::bit_ceil(num_pairs / 8 + 1), 0);  // at least 8 bits for each pair
  for (const Entry& entry : entries) {
    if (entry.pair != kNoPair) insert(entry);
  }
}

void MergeTable::insert(const Entry& entry) {
  const uint64_t hash = mix64(entry.pair ^ seed_);
  slots_[slot_of(entry.pair, hash)] = entry;
  filter_[(hash >> 32) & (filter_.size() - 1)] |= uint64_t{1} << (hash >> 58);
}

void MergeTable::add(int32_t left, int32_t right, int32_t merged, int32_t rank) {
  HASTEN_CHECK(left >= 0 && right >= 0 && merged >= 0);
  const Entry* present = find(left, right);
  if (present != nullptr && present->rank <= rank) return;
  if (present == nullptr && 2 * ++num_pairs_ > slots_.size()) make_room(2 * num_pairs_);
  insert({.pair = pair_of(left, right), .rank = rank, .merged = merged});

  const auto largest = static_cast<size_t>(std::max({left, right, merged}));
  if (largest >= ranks_.size()) ranks_.resize(std::max(largest + 1, 2 * ranks_.size()));
  const auto ranks_of = [&](int32_t symbol) -> Ranks& {
    return ranks_[static_cast<size_t>(symbol)];
  };
  ranks_of(merged).made = std::max(ranks_of(merged).made, rank);
  for (const int32_t part : {left, right}) {
    ranks_of(part).joined = std::min(ranks_of(part).joined, rank);
  }
}

size_t MergeTable::slot_of(uint64_t pair, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].pair != pair && slots_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

const MergeTable::Entry* MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return nullptr;
  const uint64_t pair = pair_of(left, right);
  const uint64_t hash = mix64(pair ^ seed_);
  if ((filter_[(hash >> 32) & (filter_.size() - 1)] >> (hash >> 58) & 1) == 0) return nullptr;
  const Entry& entry = slots_[slot_of(pair, hash)];
  return entry.pair == kNoPair ? nullptr : &entry;
}

void MergeTable::merge_by_scan(std::vector<int32_t>& symbols) const {
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

// What joins node `left` and the next one, if anything does.
const MergeTable::Entry* MergeTable::pair_at(int32_t left, const Scratch& scratch) const {
  const Scratch::Node& node = scratch.nodes_[static_cast<size_t>(left)];
  if (node.next < 0) return nullptr;
  return find(node.symbol, scratch.nodes_[static_cast<size_t>(node.next)].symbol);
}

// Joins a pair, unless it has changed since it was seen.
const MergeTable::Entry* MergeTable::join(Scratch::Candidate candidate, Scratch& scratch) const {
  const Entry* entry = pair_at(candidate.left, scratch);
  if (entry == nullptr || entry->rank != candidate.rank) return nullptr;
  auto& nodes = scratch.nodes_;
  Scratch::Node& left = nodes[static_cast<size_t>(candidate.left)];
  Scratch::Node& right = nodes[static_cast<size_t>(left.next)];
  left.symbol = entry->merged;
  left.next = right.next;
  right.symbol = -1;  // no candidate may find it again
  if (left.next >= 0) nodes[static_cast<size_t>(left.next)].previous = candidate.left;
  return entry;
}

void MergeTable::merge_by_heap(Scratch& scratch) const {
  auto& heap = scratch.heap_;
  heap.clear();
  const auto later = [](Scratch::Candidate a, Scratch::Candidate b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto add = [&](int32_t left) {
    const Entry* entry = pair_at(left, scratch);
    if (entry != nullptr) heap.push_back({.rank = entry->rank, .left = left});
    return entry != nullptr;
  };
  for (size_t i = 0; i + 1 < scratch.nodes_.size(); ++i) add(static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const Scratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    if (join(best, scratch) == nullptr) continue;
    const int32_t previous = scratch.nodes_[static_cast<size_t>(best.left)].previous;
    for (const int32_t changed : {previous, best.left}) {
      if (changed >= 0 && add(changed)) std::push_heap(heap.begin(), heap.end(), later);
    }
  }
}

// Puts the pair that begins at node `left`, if there is one, into the round of its rank.
void MergeTable::add_to_round(int32_t left, Scratch& scratch) const {
  const Entry* entry = pair_at(left, scratch);
  if (entry == nullptr) return;
  if (entry->rank != scratch.last_rank_) {
    const auto [place, is_new] =
        scratch.round_of_rank_.try_emplace(entry->rank, scratch.num_rounds_);
    scratch.last_rank_ = entry->rank;
    scratch.last_round_ = place->second;
    if (is_new) {
      if (++scratch.num_rounds_ > scratch.rounds_.size()) scratch.rounds_.emplace_back();
      scratch.rounds_[place->second].clear();
      scratch.ranks_.push_back(entry->rank);
      std::push_heap(scratch.ranks_.begin(), scratch.ranks_.end(), std::greater<>());
    }
  }
  scratch.rounds_[scratch.last_round_].push_back(left);
}

// Gives up, with the nodes in disorder, when it makes a symbol that joins at a rank which may have
// passed. In the order of training that does not happen: a symbol is made before it joins.
bool MergeTable::merge_by_rounds(Scratch& scratch) const {
  auto& nodes = scratch.nodes_;
  scratch.num_rounds_ = 0;
  scratch.round_of_rank_.clear();
  scratch.ranks_.clear();
  scratch.last_rank_ = -1;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) add_to_round(static_cast<int32_t>(i), scratch);
  std::vector<int32_t> candidates;
  while (!scratch.ranks_.empty()) {
    std::pop_heap(scratch.ranks_.begin(), scratch.ranks_.end(), std::greater<>());
    const int32_t rank = scratch.ranks_.back();
    scratch.ranks_.pop_back();
    candidates.swap(scratch.rounds_[scratch.round_of_rank_.at(rank)]);
    if (!std::is_sorted(candidates.begin(), candidates.end())) {
      std::sort(candidates.begin(), candidates.end());
    }
    scratch.grown_.clear();
    for (const int32_t left : candidates) {
      const Entry* entry = join({.rank = rank, .left = left}, scratch);
      if (entry == nullptr) continue;
      const Ranks& ranks = ranks_[static_cast<size_t>(entry->merged)];
      if (ranks.made >= ranks.joined) return false;
      scratch.grown_.push_back(left);
    }
    int32_t last_grown = -1;
    for (const int32_t node : scratch.grown_) {
      const int32_t previous = nodes[static_cast<size_t>(node)].previous;
      if (previous != last_grown) add_to_round(previous, scratch);
      add_to_round(node, scratch);
      last_grown = node;
    }
  }
  return true;
}

void MergeTable::merge(std::vector<int32_t>& symbols, Scratch& scratch) const {
  if (symbols.size() <= kShortWord) return merge_by_scan(symbols);
  HASTEN_CHECK(symbols.size() < static_cast<size_t>(INT32_MAX));

  auto& nodes = scratch.nodes_;
  const auto size = static_cast<int32_t>(symbols.size());
  const auto make_nodes = [&] {
    nodes.resize(symbols.size());
    for (int32_t i = 0; i < size; ++i) {
      nodes[static_cast<size_t>(i)] = {.symbol = symbols[static_cast<size_t>(i)],
                                       .previous = i - 1,
                                       .next = i + 1 < size ? i + 1 : -1};
    }
  };
  make_nodes();
  if (symbols.size() < kLongWord) {
    merge_by_heap(scratch);
  } else if (!merge_by_rounds(scratch)) {
    make_nodes();
    merge_by_heap(scratch);
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0; i = nodes[static_cast<size_t>(i)].next) {
    symbols.push_back(nodes[static_cast<size_t>(i)].symbol);
  }
}

}  // namespace hasten::text
