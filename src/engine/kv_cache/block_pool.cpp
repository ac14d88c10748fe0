// SPDX-License-Identifier: Apache-2.0
// The free lists and the reference counts of a BlockPool.
#include "engine/kv_cache/block_pool.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace hasten::engine {
namespace {

// How many blocks before its eviction one is fetched, and what its owner has of it: as long as a
// way to memory takes.
constexpr int64_t kFar = 16;
constexpr int64_t kNear = 8;

}  // namespace

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(id_);
}

BlockHold::~BlockHold() {
  if (pool_ != nullptr) pool_->let_go(id_, era_);
}

BlockRef BlockRef::share() const { return pool_ != nullptr ? pool_->refer(id_) : BlockRef(); }

BlockPool::BlockPool(int64_t num_blocks, double tenant_share, int64_t first_ticket)
    : free_(static_cast<size_t>(num_blocks)),
      blocks_(static_cast<size_t>(num_blocks)),
      queue_(std::bit_ceil(2 * static_cast<size_t>(num_blocks) + 1)),
      first_ticket_(first_ticket),
      next_ticket_(first_ticket),
      has_shares_(tenant_share < 1),
      share_(static_cast<int64_t>(tenant_share * static_cast<double>(num_blocks))),
      tenants_(1) {
  HASTEN_CHECK(tenant_share > 0 && tenant_share <= 1);
  HASTEN_CHECK(queue_.size() <= size_t{1} << 31);
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
}

BlockRef BlockPool::allocate() {
  if (num_free() == 0) return {};
  int32_t id = -1;
  allocate(std::span(&id, 1));
  return BlockRef(this, id);
}

void BlockPool::allocate(std::span<int32_t> ids) {
  for (int32_t& id : ids) {
    if (free_.empty()) HASTEN_CHECK(evict());
    id = free_.back();
    free_.pop_back();
    at(id).state = 1;
  }
}

void BlockPool::keep(int32_t id, int32_t owner, int32_t tenant) {
  HASTEN_CHECK(ref_count(id) > 0 && !is_kept(id) && owner >= 0 && tenant >= 0);
  at(id).owner = owner;
  if (has_shares()) count(id, tenant);
}

/// Contents are kept for a tenant from now on.
void BlockPool::count(int32_t id, int32_t tenant) {
  if (tenant > 0 && links_.empty()) tell_tenants_apart();
  if (!links_.empty()) link(id).tenant = tenant;
  if (static_cast<size_t>(tenant) >= tenants_.size())
    tenants_.resize(static_cast<size_t>(tenant) + 1);
  if (++at_tenant(tenant).num_kept == share_ + 1) above_.push_back(tenant);
}

/// They are no longer. Returns the tenant if they were its last, or else -1.
int32_t BlockPool::uncount(int32_t id) {
  const int32_t tenant = tenant_of(id);
  const int64_t num_kept = --at_tenant(tenant).num_kept;
  if (num_kept == share_) std::erase(above_, tenant);
  return num_kept == 0 ? tenant : -1;
}

BlockRef BlockPool::share(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  if (at(id).state <= 0) end_idle(id);
  ++at(id).state;
  return BlockRef(this, id);
}

void BlockPool::forget(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  const int32_t owner = std::exchange(at(id).owner, -1);
  if (ref_count(id) == 0) {
    end_idle(id);
    free_.push_back(id);
  }
  if (!held_.empty()) {
    if (held(id).count > 0) count_held(id, -1);
    held(id) = {.era = held(id).era + 1};
  }
  const int32_t gone = has_shares() ? uncount(id) : -1;
  if (on_evict_) on_evict_(id, owner);
  if (gone >= 0 && on_last_of_) on_last_of_(gone);
}

bool BlockPool::evict() {
  if (num_idle_ == 0) return false;
  if (num_idle_ == num_idle_held_) {
    forget(held_.back().next);
    return true;
  }
  if (const int32_t id = above_.empty() ? -1 : first_above_share(); id >= 0) {
    if (const int32_t next = link(id).next; next >= 0) fetch(next);
    forget(id);
    return true;
  }
  while (true) {
    if (first_ticket_ + kFar < next_ticket_) fetch(queued(first_ticket_ + kFar));
    const int32_t id = queued(first_ticket_);
    if (at(id).state == state_with(first_ticket_++)) {
      forget(id);
      return true;
    }
  }
}

bool BlockPool::evict_newest() {
  if (num_idle_ == num_idle_held_) return evict();
  while (true) {
    const int32_t id = queued(--next_ticket_);
    if (at(id).state != state_with(next_ticket_)) continue;
    forget(id);
    return true;
  }
}

int32_t BlockPool::owner_ahead() const {
  if (const int32_t id = above_.empty() ? -1 : first_above_share(); id >= 0) return at(id).owner;
  const int64_t ticket = first_ticket_ + kNear;
  return ticket < next_ticket_ ? at(queued(ticket)).owner : -1;
}

BlockRef BlockPool::refer(int32_t id) {
  ++at(id).state;
  return BlockRef(this, id);
}

void BlockPool::release(int32_t id) {
  Block& block = at(id);
  if (--block.state > 0) return;
  if (block.owner < 0) {
    free_.push_back(id);  // built with room for every block, so this never allocates
    return;
  }
  make_idle(id);
}

/// Puts a block at the end of those that are free with their contents kept.
void BlockPool::make_idle(int32_t id) {
  ++num_idle_;
  if (is_held(id)) {
    const auto end = static_cast<int32_t>(num_blocks());
    held(id).previous = held(end).previous;
    held(id).next = end;
    held(held(id).previous).next = held(end).previous = id;
    ++num_idle_held_;
    return;
  }
  if (next_ticket_ - first_ticket_ == std::ssize(queue_)) close_gaps();
  at(id).state = state_with(next_ticket_);
  queued(next_ticket_++) = id;
  if (!links_.empty()) add_last(id);
}

/// Takes it out of those.
void BlockPool::end_idle(int32_t id) {
  --num_idle_;
  at(id).state = 0;
  if (!is_held(id)) {
    if (!links_.empty()) take_out(id);
    return;
  }
  held(held(id).previous).next = held(id).next;
  held(held(id).next).previous = held(id).previous;
  --num_idle_held_;
}

/// So many blocks more are held, of the tenant of this one.
void BlockPool::count_held(int32_t id, int64_t change) {
  num_held_ += change;
  at_tenant(tenant_of(id)).num_held += change;
}

BlockHold BlockPool::hold(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  if (held_.empty()) {
    held_.resize(static_cast<size_t>(num_blocks()) + 1);
    held_.back().previous = held_.back().next = static_cast<int32_t>(num_blocks());
  }
  if (held(id).count == 0) {
    if (ref_count(id) == 0) end_idle(id);
    ++held(id).count;
    count_held(id, 1);
    if (ref_count(id) == 0) make_idle(id);
  } else {
    ++held(id).count;
  }
  return BlockHold(this, id, held(id).era);
}

void BlockPool::let_go(int32_t id, uint32_t era) {
  if (held(id).era != era) return;
  if (held(id).count > 1) {
    --held(id).count;
    return;
  }
  if (ref_count(id) == 0) end_idle(id);
  held(id).count = 0;
  count_held(id, -1);
  if (ref_count(id) == 0) make_idle(id);
}

/// Hands out the tickets anew. At least half of the queue were gaps.
void BlockPool::close_gaps() {
  int64_t last = first_ticket_;
  for (int64_t ticket = first_ticket_; ticket < next_ticket_; ++ticket) {
    const int32_t id = queued(ticket);
    if (at(id).state != state_with(ticket)) continue;
    queued(last) = id;
    at(id).state = state_with(last++);
  }
  next_ticket_ = last;
}

/// There is a second tenant: what is kept so far is the first one's.
void BlockPool::tell_tenants_apart() {
  links_.resize(blocks_.size());
  for (int64_t ticket = first_ticket_; ticket < next_ticket_; ++ticket)
    if (const int32_t id = queued(ticket); at(id).state == state_with(ticket)) add_last(id);
}

/// Puts a block behind the idle ones of its tenant.
void BlockPool::add_last(int32_t id) {
  Tenant& tenant = at_tenant(link(id).tenant);
  link(id).previous = tenant.last;
  link(id).next = -1;
  (tenant.last >= 0 ? link(tenant.last).next : tenant.first) = id;
  tenant.last = id;
}

/// Takes it out of those.
void BlockPool::take_out(int32_t id) {
  const Link gone = link(id);
  Tenant& tenant = at_tenant(gone.tenant);
  (gone.previous >= 0 ? link(gone.previous).next : tenant.first) = gone.next;
  (gone.next >= 0 ? link(gone.next).previous : tenant.last) = gone.previous;
}

/// Of the tenants that have more than their share, and idle blocks, the one that has most: its
/// block that has been free for longest; -1: there is none. Of equals whose block that is.
int32_t BlockPool::first_above_share() const {
  if (links_.empty()) return -1;  // as the queue has it
  int32_t best = -1;
  int64_t most = 0;
  for (const int32_t number : above_) {
    const Tenant& tenant = at_tenant(number);
    if (tenant.first < 0 || tenant.num_kept < most) continue;
    if (tenant.num_kept == most && num_before(best) < num_before(tenant.first)) continue;
    best = tenant.first;
    most = tenant.num_kept;
  }
  return best;
}

}  // namespace hasten::engine
