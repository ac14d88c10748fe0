// SPDX-License-Identifier: Apache-2.0
// Ways to the same merges: a scan for words of a few symbols, a heap for longer ones, and for the
// longest one rank after the other, in passes over all symbols while many join, then in rounds that
// look only at what joins.
#include "text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace hasten::text {
namespace {

// Up to here a scan of all ranks is faster than a heap: nearly every word of ordinary text.
constexpr size_t kShortWord = 32;
// Joins that are compared without a branch.
constexpr size_t kJoinsAtOnce = 4;
// Words that are merged at once: enough to wait for memory together, few enough for L1 (20 KiB).
constexpr size_t kAtOnce = 16;
// From here on rounds are faster than a heap.
constexpr size_t kLongWord = 256;
// A pass looks at all symbols, a round only at what joins, which costs some twenty times as much a
// symbol: a pass pays where at least one in so many joins.
constexpr size_t kSymbolsPerJoin = 16;
// What stands before or behind a run often joins first: a few passes that do not pay may lead to
// those that do.
constexpr int kMaxSparsePasses = 4;

}  // namespace

MergeTable::MergeTable(size_t num_pairs, uint64_t seed) : seed_(seed) { make_room(num_pairs); }

void MergeTable::make_room(size_t num_pairs) {
  const std::vector<Entry> entries = std::move(slots_);
  slots_.assign(std::bit_ceil(num_pairs + num_pairs / 3 + 2), Entry{});
  filter_.assign(std::bit_ceil(num_pairs / 8 + 1), 0);  // at least 8 bits for each pair
  for (const Entry& entry : entries) {
    if (entry.pair == kNoPair) continue;
    const uint64_t hash = this->hash(entry.pair);
    slots_[slot_of(entry.pair, hash)] = entry;
    set_filter(hash);
  }
}

void MergeTable::add(int32_t left, int32_t right, int32_t merged, int32_t rank) {
  HASTEN_CHECK(left >= 0 && right >= 0 && merged >= 0);
  if (4 * (num_pairs_ + 1) > 3 * slots_.size()) make_room(2 * num_pairs_ + 1);
  const uint64_t pair = pair_of(left, right);
  const uint64_t hash = this->hash(pair);
  Entry& entry = slots_[slot_of(pair, hash)];
  if (entry.pair == pair && entry.rank <= rank) return;
  if (entry.pair == kNoPair) ++num_pairs_;
  entry = {.pair = pair, .rank = rank, .merged = merged};
  set_filter(hash);

  if ((left | right) < kNumDirect) {
    direct_.resize(size_t{kNumDirect} * kNumDirect);
    direct_[direct_index(left, right)] = {rank, merged};
  }

  const auto largest = static_cast<size_t>(std::max({left, right, merged}));
  if (largest >= ranks_.size()) ranks_.resize(std::max(largest + 1, 2 * ranks_.size()));
  const auto ranks_of = [&](int32_t symbol) -> Ranks& {
    return ranks_[static_cast<size_t>(symbol)];
  };
  max_rank_ = std::max(max_rank_, rank);
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
  const uint64_t hash = this->hash(pair);
  if (!may_have(hash)) return nullptr;
  const Entry& entry = slots_[slot_of(pair, hash)];
  return entry.pair == kNoPair ? nullptr : &entry;
}

// A word of at most kShortWord symbols on its way. What two symbols join to stands at the place of
// the left one, and nothing moves. Joins are looked up in two steps, so that memory can answer for
// many at once.
struct MergeTable::ShortWord {
  struct Question {
    uint64_t pair;
    uint64_t hash;
    size_t place;  // of the left symbol
  };

  size_t next(size_t place) const {
    return static_cast<size_t>(std::countr_zero(present & ~uint64_t{1} << place));
  }
  size_t previous(size_t place) const {
    const uint64_t before = present & ((uint64_t{1} << place) - 1);
    return static_cast<size_t>(63 - std::countl_zero(before));
  }

  int32_t* symbols;
  size_t size;       // places
  size_t num_left;   // symbols
  uint64_t present;  // a bit for each place that has a symbol, and one behind the last
  size_t num_joins;  // of those below, a multiple of kJoinsAtOnce
  // Of the symbols at place i and the next one: the rank above, i below, so that the least is the
  // first of the lowest.
  std::array<uint64_t, kShortWord> joins;
  std::array<int32_t, kShortWord> merged;
  std::array<Question, kShortWord> asked;
  size_t num_asked;
};

// Asks what joins the symbol at `place` and the one at `next`. Inlined, since a call costs as much
// as what it does.
[[gnu::always_inline]] inline void MergeTable::ask(ShortWord& word, size_t place,
                                                   size_t next) const {
  const int32_t left = word.symbols[place];
  const int32_t right = word.symbols[next];
  const uint64_t pair = pair_of(left, right);
  const uint64_t hash = this->hash(pair);
  word.joins[place] = key_of(kNoRank, place);
  word.asked[word.num_asked] = {.pair = pair, .hash = hash, .place = place};
  word.num_asked += (may_have(hash) && (left | right) >= 0) ? 1 : 0;
  prefetch(hash);
}

void MergeTable::begin(std::vector<int32_t>& symbols, ShortWord& word) const {
  const size_t size = symbols.size();
  word.symbols = symbols.data();
  word.size = size;
  word.num_left = size;
  word.present = (uint64_t{2} << size) - 1;
  word.num_joins = (size + kJoinsAtOnce - 1) / kJoinsAtOnce * kJoinsAtOnce;
  word.num_asked = 0;
  for (size_t i = 0; i + 1 < size; ++i) {
    const int32_t left = symbols[i];
    const int32_t right = symbols[i + 1];
    if (static_cast<uint32_t>(left | right) < kNumDirect && !direct_.empty()) {
      const Scratch::Join& join = direct_[direct_index(left, right)];
      word.joins[i] = key_of(join.rank, i);
      word.merged[i] = join.merged;
    } else {
      ask(word, i, i + 1);
    }
  }
  for (size_t i = size > 0 ? size - 1 : 0; i < word.num_joins; ++i) {
    word.joins[i] = key_of(kNoRank, i);
  }
}

// False: nothing joins, or `min_left` symbols are left.
[[gnu::always_inline]] inline bool MergeTable::join_lowest(ShortWord& word, size_t min_left) const {
  if (word.num_left <= min_left) return false;
  int32_t* const symbols = word.symbols;
  for (size_t k = 0; k < word.num_asked; ++k) {
    const ShortWord::Question& question = word.asked[k];
    const Entry& entry = slots_[slot_of(question.pair, question.hash)];
    if (entry.pair != question.pair) continue;
    word.joins[question.place] = key_of(entry.rank, question.place);
    word.merged[question.place] = entry.merged;
  }
  word.num_asked = 0;
  uint64_t lowest = key_of(kNoRank, 0);
  for (size_t i = 0; i < word.num_joins; i += kJoinsAtOnce) {
    for (size_t k = 0; k < kJoinsAtOnce; ++k) lowest = std::min(lowest, word.joins[i + k]);
  }
  if (lowest >> 32 == kNoRank) return false;
  const size_t place = lowest & UINT32_MAX;
  const size_t joined = word.next(place);
  symbols[place] = word.merged[place];
  word.joins[joined] = key_of(kNoRank, joined);
  word.present &= ~(uint64_t{1} << joined);
  if (--word.num_left <= min_left) return false;
  const size_t next = word.next(place);
  if (next < word.size) {
    ask(word, place, next);
  } else {
    word.joins[place] = key_of(kNoRank, place);
  }
  if (place > 0) ask(word, word.previous(place), place);
  return true;
}

// Closes the gaps.
void MergeTable::finish(const ShortWord& word, std::vector<int32_t>& symbols) {
  size_t kept = 0;
  for (size_t i = 0; i < word.size; i = word.next(i)) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

void MergeTable::merge_by_scan(std::vector<int32_t>& symbols) const {
  ShortWord word;
  begin(symbols, word);
  while (join_lowest(word, /*min_left=*/1)) {
  }
  finish(word, symbols);
}

void MergeTable::merge_each_to_pair(std::span<std::vector<int32_t>> words, Scratch& scratch) const {
  std::array<ShortWord, kAtOnce> work;
  std::array<size_t, kAtOnce> active;  // of work
  while (!words.empty()) {
    const auto some = words.first(std::min(words.size(), work.size()));
    words = words.subspan(some.size());
    size_t num_active = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      if (some[i].size() > kShortWord) {
        merge(some[i], scratch);
      } else {
        active[num_active++] = i;
        begin(some[i], work[i]);
      }
    }
    while (num_active > 0) {
      size_t kept = 0;
      for (size_t i = 0; i < num_active; ++i) {
        ShortWord& word = work[active[i]];
        if (join_lowest(word, /*min_left=*/2)) {
          active[kept++] = active[i];
        } else {
          finish(word, some[active[i]]);
        }
      }
      num_active = kept;
    }
  }
}

// Whether the symbol that is made joins others only at higher ranks. In the order of training all
// do: a symbol is made before it joins. Then what a rank joins makes no pair of this or a lower
// one.
bool MergeTable::follows_its_parts(const Scratch::Join& join) const {
  const Ranks& ranks = ranks_[static_cast<size_t>(join.merged)];
  return ranks.made < ranks.joined;
}

// One rank after the other, the lowest first, while it joins many: what a run of few different
// symbols comes to. False: nothing is left to join.
bool MergeTable::merge_by_passes(std::vector<int32_t>& symbols, Scratch& scratch) const {
  // A run looks up few pairs again and again.
  struct Known {
    uint64_t pair = kNoPair;
    Scratch::Join join{kNoRank, -1};
  };
  std::array<Known, 16> known;
  const auto look_up = [&](int32_t left, int32_t right) {
    const uint64_t pair = pair_of(left, right);
    Known& slot = known[(pair ^ pair >> 31) % known.size()];
    if (slot.pair != pair) {
      const Entry* entry = find(left, right);
      slot = {pair, entry != nullptr ? Scratch::Join{entry->rank, entry->merged}
                                     : Scratch::Join{kNoRank, -1}};
    }
    return slot.join;
  };
  auto& joins = scratch.joins_;  // joins[i]: of symbols i and i + 1
  joins.resize(symbols.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i) joins[i] = look_up(symbols[i], symbols[i + 1]);
  joins.back() = {kNoRank, -1};

  int32_t lowest = kNoRank;  // of all joins
  size_t num_lowest = 0;
  const auto find_lowest = [&] {
    lowest = kNoRank;
    num_lowest = 0;
    for (const Scratch::Join& join : joins) {
      if (join.rank < lowest) num_lowest = 0;
      lowest = std::min(lowest, join.rank);
      num_lowest += join.rank == lowest ? 1 : 0;
    }
  };
  find_lowest();
  int num_sparse = 0;
  while (lowest != kNoRank) {
    const bool sparse = num_lowest * kSymbolsPerJoin < symbols.size();
    if (sparse && ++num_sparse > kMaxSparsePasses) break;
    const int32_t rank = lowest;
    // symbols[0, kept) and their joins are done, but that the last symbol, if it is new, may join
    // the one before it at this rank or a lower one. Whatever else does stands behind.
    size_t kept = 0;
    bool last_is_new = false;
    const auto replace_last = [&](int32_t merged) {
      symbols[kept - 1] = merged;
      last_is_new = true;
      if (kept > 1) joins[kept - 2] = look_up(symbols[kept - 2], merged);
    };
    for (size_t i = 0; i < symbols.size() || last_is_new;) {
      Scratch::Join ahead{kNoRank, -1};
      if (kept > 0 && i < symbols.size()) {
        ahead = last_is_new ? look_up(symbols[kept - 1], symbols[i]) : joins[i - 1];
      }
      const bool back = last_is_new && kept > 1 && joins[kept - 2].rank <= rank &&
                        joins[kept - 2].rank <= ahead.rank;
      if (back) {
        const int32_t merged = joins[kept - 2].merged;
        --kept;
        replace_last(merged);
      } else if (ahead.rank <= rank) {
        replace_last(ahead.merged);
        ++i;
      } else if (i < symbols.size()) {
        if (kept > 0) joins[kept - 1] = ahead;
        symbols[kept++] = symbols[i++];
        last_is_new = false;
      } else {
        break;
      }
    }
    symbols.resize(kept);
    joins.resize(kept);
    joins.back() = {kNoRank, -1};
    find_lowest();
  }
  return lowest != kNoRank;
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

// Puts the pair that begins at node `left` on the heap if it joins at `max_rank` or lower.
void MergeTable::add_to_heap(int32_t left, int32_t max_rank, Scratch& scratch) const {
  const Entry* entry = left >= 0 ? pair_at(left, scratch) : nullptr;
  if (entry == nullptr || entry->rank > max_rank) return;
  scratch.heap_.push_back({.rank = entry->rank, .left = left});
  std::push_heap(scratch.heap_.begin(), scratch.heap_.end(), std::greater<>());
}

// Until the heap is empty: joins its first pair, and adds those that this makes. `joined(left)` for
// each.
template <class Joined>
void MergeTable::join_heap(int32_t max_rank, Scratch& scratch, const Joined& joined) const {
  auto& heap = scratch.heap_;
  while (!heap.empty()) {
    const Scratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    if (join(best, scratch) == nullptr) continue;
    joined(best.left);
    add_to_heap(scratch.nodes_[static_cast<size_t>(best.left)].previous, max_rank, scratch);
    add_to_heap(best.left, max_rank, scratch);
  }
}

void MergeTable::merge_by_heap(Scratch& scratch) const {
  auto& heap = scratch.heap_;
  heap.clear();
  for (size_t i = 0; i + 1 < scratch.nodes_.size(); ++i) {
    const auto left = static_cast<int32_t>(i);
    const Entry* entry = pair_at(left, scratch);
    if (entry != nullptr) heap.push_back({.rank = entry->rank, .left = left});
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  join_heap(kNoRank, scratch, [](int32_t) {});
}

// Puts the pair that begins at node `left`, if there is one, into the round of its rank.
void MergeTable::add_to_round(int32_t left, Scratch& scratch) const {
  const Entry* entry = pair_at(left, scratch);
  if (entry == nullptr) return;
  int32_t& round = scratch.round_of_rank_[static_cast<size_t>(entry->rank)];
  if (round < 0) {
    round = static_cast<int32_t>(scratch.num_rounds_++);
    if (scratch.num_rounds_ > scratch.rounds_.size()) scratch.rounds_.emplace_back();
    scratch.rounds_[static_cast<size_t>(round)].clear();
    scratch.ranks_.push_back(entry->rank);
    std::push_heap(scratch.ranks_.begin(), scratch.ranks_.end(), std::greater<>());
  }
  scratch.rounds_[static_cast<size_t>(round)].push_back(left);
}

// The round of a rank, from the left to the right, is what a heap would do next, unless a symbol
// that it makes joins at this rank or a lower one: that comes first, and the heap does it.
void MergeTable::merge_by_rounds(Scratch& scratch) const {
  auto& nodes = scratch.nodes_;
  scratch.num_rounds_ = 0;
  // The call before has left no round of any rank.
  const auto num_ranks = static_cast<size_t>(max_rank_) + 1;
  if (scratch.round_of_rank_.size() < num_ranks) scratch.round_of_rank_.resize(num_ranks, -1);
  scratch.ranks_.clear();
  for (size_t i = 0; i + 1 < nodes.size(); ++i) add_to_round(static_cast<int32_t>(i), scratch);
  std::vector<int32_t> candidates;
  while (!scratch.ranks_.empty()) {
    std::pop_heap(scratch.ranks_.begin(), scratch.ranks_.end(), std::greater<>());
    const int32_t rank = scratch.ranks_.back();
    scratch.ranks_.pop_back();
    int32_t& round = scratch.round_of_rank_[static_cast<size_t>(rank)];
    candidates.swap(scratch.rounds_[static_cast<size_t>(round)]);
    round = -1;
    if (!std::is_sorted(candidates.begin(), candidates.end())) {
      std::sort(candidates.begin(), candidates.end());
    }
    scratch.grown_.clear();
    for (const int32_t left : candidates) {
      const Entry* entry = join({.rank = rank, .left = left}, scratch);
      if (entry == nullptr) continue;
      scratch.grown_.push_back(left);
      if (follows_its_parts({entry->rank, entry->merged})) continue;
      add_to_heap(nodes[static_cast<size_t>(left)].previous, rank, scratch);
      add_to_heap(left, rank, scratch);
      join_heap(rank, scratch, [&](int32_t node) { scratch.grown_.push_back(node); });
    }
    int32_t last_grown = -1;
    for (const int32_t node : scratch.grown_) {
      const int32_t previous = nodes[static_cast<size_t>(node)].previous;
      if (previous >= 0 && previous != last_grown) add_to_round(previous, scratch);
      add_to_round(node, scratch);
      last_grown = node;
    }
  }
}

void MergeTable::merge(std::vector<int32_t>& symbols, Scratch& scratch) const {
  if (symbols.size() <= kShortWord) return merge_by_scan(symbols);
  if (symbols.size() >= static_cast<size_t>(INT32_MAX)) {
    fail(ErrorCode::invalid_argument, "a word of {} symbols is too long to merge; the limit is {}",
         symbols.size(), INT32_MAX - 1);
  }
  if (symbols.size() >= kLongWord && !merge_by_passes(symbols, scratch)) return;

  auto& nodes = scratch.nodes_;
  const auto size = static_cast<int32_t>(symbols.size());
  nodes.resize(symbols.size());
  for (int32_t i = 0; i < size; ++i) {
    nodes[static_cast<size_t>(i)] = {.symbol = symbols[static_cast<size_t>(i)],
                                     .previous = i - 1,
                                     .next = i + 1 < size ? i + 1 : -1};
  }
  if (symbols.size() < kLongWord) {
    merge_by_heap(scratch);
  } else {
    merge_by_rounds(scratch);
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0; i = nodes[static_cast<size_t>(i)].next) {
    symbols.push_back(nodes[static_cast<size_t>(i)].symbol);
  }
}

}  // namespace hasten::text
