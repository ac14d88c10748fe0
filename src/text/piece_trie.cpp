// SPDX-License-Identifier: Apache-2.0
// Builds the double array, each node's children at the first place where all of them fit.
#include "text/piece_trie.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace hasten::text {

class PieceTrie::Builder {
 public:
  Builder(std::vector<Node>& nodes, std::vector<Entry> entries)
      : nodes_(nodes), entries_(std::move(entries)) {}

  void build() {
    std::erase_if(entries_, [](const Entry& entry) { return entry.text.empty(); });
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.text < b.text; });
    const auto last = std::unique(entries_.begin(), entries_.end(),
                                  [](const Entry& a, const Entry& b) { return a.text == b.text; });
    entries_.erase(last, entries_.end());
    grow();
    take(0);
    std::vector<Task> tasks{{.node = 0, .begin = 0, .end = entries_.size(), .depth = 0}};
    while (!tasks.empty()) {
      const Task task = tasks.back();
      tasks.pop_back();
      place_children(task, tasks);
    }
    grow();  // room behind the last base
  }

 private:
  // The entries [begin, end) share their first `depth` bytes, which lead to `node`.
  struct Task {
    uint32_t node;
    size_t begin;
    size_t end;
    size_t depth;
  };
  struct Child {
    uint8_t byte;
    size_t begin;
    size_t end;
  };

  uint8_t byte_at(size_t entry, size_t depth) const {
    return static_cast<uint8_t>(entries_[entry].text[depth]);
  }

  void place_children(Task task, std::vector<Task>& tasks) {
    if (entries_.empty()) return;
    if (entries_[task.begin].text.size() == task.depth) {
      nodes_[task.node].value = entries_[task.begin].value;
      ++task.begin;
    }
    children_.clear();
    for (size_t i = task.begin; i < task.end;) {
      const uint8_t byte = byte_at(i, task.depth);
      size_t end = i + 1;
      while (end < task.end && byte_at(end, task.depth) == byte) ++end;
      children_.push_back({byte, i, end});
      i = end;
    }
    if (children_.empty()) return;
    const uint32_t base = find_base();
    nodes_[task.node].base = base;
    for (const Child& child : children_) {
      const uint32_t node = base + child.byte;
      take(node);
      nodes_[node].parent = task.node;
      tasks.push_back({node, child.begin, child.end, task.depth + 1});
    }
  }

  // The first base at which all children fall on free places. After kMaxTries a place at the end:
  // this bounds the time whatever the entries are, and costs little room.
  uint32_t find_base() {
    constexpr int kMaxTries = 64;
    const uint32_t first = children_.front().byte;
    uint32_t free = first_free_;
    for (int tries = 0; tries < kMaxTries && free != kNone; ++tries, free = next_free_[free]) {
      if (free < first) continue;
      const uint32_t base = free - first;
      if (base + kNumBytes > nodes_.size()) break;
      const bool fits = std::all_of(children_.begin(), children_.end(), [&](const Child& child) {
        return is_free_[base + child.byte];
      });
      if (fits) return base;
    }
    const auto base = static_cast<uint32_t>(nodes_.size());
    grow();
    return base;
  }

  void grow() {
    const size_t size = nodes_.size() + kNumBytes;
    if (size > std::numeric_limits<uint32_t>::max() - kNumBytes) {
      fail(ErrorCode::invalid_data,
           "the vocabulary is too large: its trie has more than 2^32 nodes");
    }
    for (auto place = static_cast<uint32_t>(nodes_.size()); place < size; ++place) {
      next_free_.push_back(kNone);
      previous_free_.push_back(last_free_);
      if (last_free_ == kNone) {
        first_free_ = place;
      } else {
        next_free_[last_free_] = place;
      }
      last_free_ = place;
    }
    is_free_.resize(size, true);
    nodes_.resize(size);
  }

  void take(uint32_t place) {
    const uint32_t before = previous_free_[place];
    const uint32_t after = next_free_[place];
    (before == kNone ? first_free_ : next_free_[before]) = after;
    (after == kNone ? last_free_ : previous_free_[after]) = before;
    is_free_[place] = false;
  }

  std::vector<Node>& nodes_;
  std::vector<Entry> entries_;
  std::vector<Child> children_;  // of the node that is placed
  // The free places as a doubly linked list.
  std::vector<uint32_t> next_free_;
  std::vector<uint32_t> previous_free_;
  std::vector<bool> is_free_;
  uint32_t first_free_ = kNone;
  uint32_t last_free_ = kNone;
};

PieceTrie::PieceTrie(std::vector<Entry> entries) { Builder(nodes_, std::move(entries)).build(); }

}  // namespace hasten::text
