// SPDX-License-Identifier: Apache-2.0
// A hash table over a ring in order of use.
#include "engine/kv_cache/block_index.h"

#include "base/error.h"

namespace hasten::engine {

int64_t BlockIndex::find(const Hash128& key) const {
  const auto found = slot_of_.find(key);
  return found == slot_of_.end() ? -1 : found->second;
}

int64_t BlockIndex::claim() {
  while (true) {
    // In the list are slots, too, that were free when it was made and are in use since (restore).
    if (free_.empty() && std::ssize(slots_) <= num_slots_) extend(std::ssize(slots_));
    if (free_.empty()) break;
    const int64_t slot = free_.back();
    free_.pop_back();
    if (at(slot).use != Use::free) continue;
    at(slot).use = Use::claimed;
    return slot;
  }
  const int64_t oldest = at(-1).next;
  if (oldest < 0) return -1;
  slot_of_.erase(at(oldest).key);
  unlink(oldest);
  at(oldest).use = Use::claimed;
  return oldest;
}

void BlockIndex::publish(int64_t slot, const Hash128& key) {
  HASTEN_CHECK(at(slot).use == Use::claimed);
  if (!slot_of_.emplace(key, slot).second) return release(slot);
  at(slot).key = key;
  link_last(slot);
}

void BlockIndex::release(int64_t slot) {
  HASTEN_CHECK(at(slot).use == Use::claimed);
  at(slot).use = Use::free;
  free_.push_back(slot);
}

bool BlockIndex::restore(int64_t slot, const Hash128& key) {
  HASTEN_CHECK(slot >= 0 && slot < num_slots_);
  extend(slot + 1);
  if (at(slot).use != Use::free || !slot_of_.emplace(key, slot).second) return false;
  at(slot).key = key;
  link_last(slot);
  return true;
}

bool BlockIndex::touch(const Hash128& key) {
  const int64_t slot = find(key);
  if (slot < 0) return false;
  unlink(slot);
  link_last(slot);
  return true;
}

void BlockIndex::forget(const Hash128& key) {
  const int64_t slot = find(key);
  if (slot < 0) return;
  slot_of_.erase(key);
  unlink(slot);
  at(slot).use = Use::free;
  free_.push_back(slot);
}

/// Makes slots [0, count) known.
void BlockIndex::extend(int64_t count) {
  for (int64_t slot = std::ssize(slots_) - 1; slot < count; ++slot) {
    slots_.emplace_back();
    free_.push_back(slot);
  }
}

void BlockIndex::link_last(int64_t slot) {
  const int64_t last = at(-1).previous;
  at(slot).previous = last;
  at(slot).next = -1;
  at(slot).use = Use::used;
  at(last).next = slot;
  at(-1).previous = slot;
}

void BlockIndex::unlink(int64_t slot) {
  const Slot& gone = at(slot);
  at(gone.previous).next = gone.next;
  at(gone.next).previous = gone.previous;
}

}  // namespace hasten::engine
