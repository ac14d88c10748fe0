// SPDX-License-Identifier: Apache-2.0
// What is staged, what is to be written, and the thread that moves both.
#include "engine/kv_cache/disk_tier.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string_view>
#include <tuple>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"

namespace hasten::engine {
namespace {

// Before anything is measured: the speed of a SATA disk without moving parts, 500 MB/s.
constexpr double kUsPerByte = 1.0 / 500;
// A measurement is believed for about a minute, or one slow hour would turn the tier off for good.
constexpr double kMeasurementUs = 60e6;
// What was read ahead for a request that went away makes room for others after a while.
constexpr int64_t kStaleUs = 10'000'000;

}  // namespace

bool DiskTier::Block::is(const BlockName& name) const {
  return key == name.key && parent == name.parent && group == name.group &&
         std::ranges::equal(tokens, name.tokens);
}

DiskTier::DiskTier(const DiskTierOptions& options)
    : folder_(options.folder), options_(options), us_per_byte_(kUsPerByte) {
  int64_t slots_bytes = 0;  // a slot of each group
  for (const int64_t bytes : options.block_bytes)
    slots_bytes += BlockFile::slot_bytes(options.block_tokens, bytes);
  const int64_t num_slots = options.max_bytes / slots_bytes;
  if (num_slots < 1)
    fail_param("kv_disk_bytes", "--kv-disk-bytes is {}; a block of {} takes {}",
               size_text(options.max_bytes), counted(options.block_tokens, "token"),
               size_text(slots_bytes));
  // Nothing would ever count, overwrite or shorten those of a model that had more groups.
  const int64_t num_removed = folder_.remove_files([&](std::string_view name) {
    return group_of_block_file(name) >= std::ssize(options.block_bytes);
  });
  if (num_removed > 0)
    log::info("{}: removed {} of a model with more cache groups", folder_.path().string(),
              counted(num_removed, "file"));
  const Hash128 seal = siphash(options.model, folder_.secret());
  int64_t other_bytes = 0;
  for (size_t g = 0; g < options.block_bytes.size(); ++g) {
    const int64_t bytes = options.block_bytes[g];
    groups_.push_back(std::make_unique<Group>(
        folder_.open_file(block_file_name(static_cast<int64_t>(g))),
        BlockFileOptions{
            .block_tokens = options.block_tokens,
            .payload_bytes = bytes,
            .max_bytes = num_slots * BlockFile::slot_bytes(options.block_tokens, bytes),
            .seal = seal}));
    other_bytes += find_blocks(g);
  }
  tell_what_was_found(other_bytes);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "hasten-kv-disk");
    run();
  });
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    reads_.clear();
  }
  work_.notify_one();
  thread_.join();
}

/// Takes up what an earlier process has left, in the order in which it was written. Returns how
/// many bytes have something else in them: slots, as how large its blocks are cannot be known.
int64_t DiskTier::find_blocks(size_t g) {
  Group& group = *groups_[g];
  std::vector<std::tuple<uint64_t, int64_t, Hash128>> found;  // serial, slot, key
  const int64_t num_others =
      group.file.scan([&](int64_t slot, const Hash128& key, uint64_t serial) {
        found.emplace_back(serial, slot, key);
      });
  std::ranges::sort(found, {}, [](const auto& entry) { return std::get<0>(entry); });
  for (const auto& [serial, slot, key] : found) {
    group.index.restore(slot, key);
    serial_ = std::max(serial_, serial);
  }
  return num_others * BlockFile::slot_bytes(options_.block_tokens, group.block_bytes);
}

/// Says what was found, and that `other_bytes` more cannot be used.
void DiskTier::tell_what_was_found(int64_t other_bytes) const {
  int64_t num_found = 0;
  for (const auto& group : groups_) num_found += group->index.num_used();
  const std::string others = other_bytes == 0
                                 ? ""
                                 : fmt::format(
                                       "; {} of another model, of other flags or damaged, to be "
                                       "overwritten",
                                       size_text(other_bytes));
  log::info("{}: {} of keys and values from an earlier run{}", folder_.path().string(),
            num_found == 0 ? "no blocks" : counted(num_found, "block"), others);
}

bool DiskTier::contains(const BlockName& name) {
  const std::lock_guard lock(mutex_);
  Group& group = this->group(name.group);
  // Whoever asks has a use for it: it shall not be the next to be written over.
  return group.index.touch(name.key) || group.unwritten.contains(name.key);
}

TierState DiskTier::fetch(const BlockName& name, int64_t round) {
  const std::lock_guard lock(mutex_);
  Group& group = this->group(name.group);
  const auto known = group.staged.find(name.key);
  if (known != group.staged.end()) {
    Staged& staged = *known->second;
    if (!staged.block->is(name)) return TierState::absent;
    if (round > 0) {
      staged.round = round;
      staged_.splice(staged_.end(), staged_, known->second);
    }
    return staged.state;
  }
  const auto unwritten = group.unwritten.find(name.key);
  const bool is_unwritten = unwritten != group.unwritten.end();
  if (is_unwritten ? !unwritten->second->is(name) : group.index.find(name.key) < 0)
    return TierState::absent;
  const SharedBlock waiting = is_unwritten ? unwritten->second : nullptr;
  if (!make_room(group.block_bytes, round)) return TierState::no_room;
  const auto at = staged_.insert(staged_.end(), Staged{.block = waiting, .round = round});
  group.staged.emplace(name.key, at);
  staged_bytes_ += group.block_bytes;
  if (is_unwritten) {
    at->state = TierState::ready;
    at->ready_us = monotonic_us();
  } else {
    at->block = new_block(name);
    reads_.push_back(at->block);
    reading_bytes_ += group.block_bytes;
    work_.notify_one();
  }
  return at->state;
}

std::span<const std::byte> DiskTier::take(const BlockName& name) {
  const std::lock_guard lock(mutex_);
  Group& group = this->group(name.group);
  const auto at = group.staged.at(name.key);
  HASTEN_CHECK(at->state == TierState::ready);
  if (!std::exchange(at->taken, true)) taken_.push_back(at);
  group.index.touch(name.key);
  return at->block->contents;
}

std::span<std::byte> DiskTier::save(const BlockName& name) {
  const std::lock_guard lock(mutex_);
  const int64_t bytes = group(name.group).block_bytes;
  if (!writable_) return {};
  if (unwritten_bytes_ + bytes > options_.staging_bytes) {
    ++stats_.num_dropped;
    return {};
  }
  unwritten_bytes_ += bytes;
  saves_.push_back(new_block(name));
  return saves_.back()->contents;
}

void DiskTier::end_step(bool saved) {
  const std::lock_guard lock(mutex_);
  for (const auto at : taken_) drop(at);
  taken_.clear();
  for (SharedBlock& block : saves_) {
    if (saved && group(block->group).unwritten.emplace(block->key, block).second) {
      writes_.push_back(std::move(block));
    } else {
      unwritten_bytes_ -= group(block->group).block_bytes;
      recycle(std::move(block));
    }
  }
  saves_.clear();
  if (!writes_.empty()) work_.notify_one();
}

double DiskTier::load_us(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return read_us(bytes);
}

double DiskTier::backlog_us() {
  const std::lock_guard lock(mutex_);
  return read_us(reading_bytes_);
}

/// By the last measurement, the less it counts the older it is.
double DiskTier::read_us(int64_t bytes) const {
  if (options_.always_load) return 0;
  const double age = static_cast<double>(monotonic_us() - measured_us_) / kMeasurementUs;
  const double us_per_byte = kUsPerByte + (us_per_byte_ - kUsPerByte) * std::exp(-age);
  return static_cast<double>(bytes) * us_per_byte;
}

void DiskTier::expect_newest_first() {
  const std::lock_guard lock(mutex_);
  if (newest_first_) return;
  newest_first_ = true;
  for (const auto& group : groups_) serial_ += static_cast<uint64_t>(group->index.num_slots());
}

int64_t DiskTier::num_slots() const {
  int64_t least = INT64_MAX;
  for (const auto& group : groups_) least = std::min(least, group->index.num_slots());
  return least;
}

void DiskTier::await_read(int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, std::chrono::microseconds(timeout_us),
                 [&] { return num_reads_ended_ > 0 || reading_bytes_ == 0; });
  num_reads_ended_ = 0;
}

bool DiskTier::await_writes(int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, std::chrono::microseconds(timeout_us),
                        [&] { return unwritten_bytes_ == 0; });
}

TierStats DiskTier::stats() const {
  const std::lock_guard lock(mutex_);
  TierStats stats = stats_;
  for (const auto& group : groups_) {
    stats.num_blocks += group->index.num_used();
    stats.kept_bytes += group->index.num_used() * group->block_bytes;
  }
  return stats;
}

bool DiskTier::is_there() const {
  return folder_.has_secret() &&
         std::ranges::all_of(groups_, [](const auto& group) { return group->file.is_there(); });
}

DiskTier::SharedBlock DiskTier::new_block(const BlockName& name) {
  Group& group = this->group(name.group);
  SharedBlock block;
  if (group.unused.empty()) {
    block = std::make_shared<Block>();
    block->contents.resize(static_cast<size_t>(group.block_bytes));
  } else {
    block = std::move(group.unused.back());
    group.unused.pop_back();
  }
  block->key = name.key;
  block->parent = name.parent;
  block->group = name.group;
  block->tokens.assign(name.tokens.begin(), name.tokens.end());
  return block;
}

/// Keeps the memory of a block that nobody else has.
void DiskTier::recycle(SharedBlock block) {
  if (block.use_count() == 1) group(block->group).unused.push_back(std::move(block));
}

/// Whether so many bytes more may be staged, if need be in place of what nobody waits for.
bool DiskTier::make_room(int64_t bytes, int64_t round) {
  const int64_t now = monotonic_us();
  for (auto at = staged_.begin(); staged_bytes_ + bytes > options_.staging_bytes;) {
    if (at == staged_.end() || (round > 0 && at->round == round)) return false;
    const auto oldest = at++;
    const bool is_ready = oldest->state == TierState::ready && !oldest->taken;
    if (is_ready && (round > 0 || now - oldest->ready_us > kStaleUs))
      drop(oldest);
    else if (round == 0)
      return false;
  }
  return true;
}

void DiskTier::drop(StagedList::iterator staged) {
  Group& group = this->group(staged->block->group);
  group.staged.erase(staged->block->key);
  staged_bytes_ -= group.block_bytes;
  recycle(std::move(staged->block));
  staged_.erase(staged);
}

/// A block is written, or will never be.
void DiskTier::forget_write(const SharedBlock& block) {
  Group& group = this->group(block->group);
  group.unwritten.erase(block->key);
  unwritten_bytes_ -= group.block_bytes;
}

/// The thread: reads first, because somebody waits for them.
void DiskTier::run() try {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !reads_.empty() || !writes_.empty(); });
    if (!reads_.empty())
      read_next(lock);
    else if (!writes_.empty())
      write_next(lock);
    else
      return;
    done_.notify_all();
  }
} catch (const std::exception& error) {
  // What is being read never comes, and nobody waits for it for long.
  const std::lock_guard lock(mutex_);
  writable_ = false;
  log::error("no more blocks are read from or written to {}: {}", folder_.path().string(),
             error.what());
}

void DiskTier::read_next(std::unique_lock<std::mutex>& lock) {
  SharedBlock block = std::move(reads_.front());
  reads_.pop_front();
  Group& group = this->group(block->group);
  const int64_t slot = group.index.find(block->key);
  auto outcome = BlockFile::Outcome::absent;  // it may have gone since it was asked for
  if (slot >= 0) {
    lock.unlock();
    const int64_t begin = monotonic_us();
    outcome = group.file.read(slot, block->name(), block->contents);
    const int64_t us = monotonic_us() - begin;
    lock.lock();
    if (outcome == BlockFile::Outcome::ok) measure(us, group.block_bytes);
  }
  reading_bytes_ -= group.block_bytes;
  ++num_reads_ended_;
  const auto at = group.staged.at(block->key);
  if (outcome == BlockFile::Outcome::ok) {
    at->state = TierState::ready;
    at->ready_us = monotonic_us();
    stats_.read_bytes += group.block_bytes;
    return;
  }
  if (outcome == BlockFile::Outcome::corrupt) ++stats_.num_corrupt;
  group.index.forget(block->key);
  block.reset();
  drop(at);
}

void DiskTier::write_next(std::unique_lock<std::mutex>& lock) {
  SharedBlock block = std::move(writes_.front());
  writes_.pop_front();
  Group& group = this->group(block->group);
  if (writable_ && group.index.find(block->key) < 0) {
    const int64_t slot = group.index.claim();
    HASTEN_CHECK(slot >= 0);
    const uint64_t serial = newest_first_ ? serial_-- : ++serial_;
    lock.unlock();
    const std::string error = group.file.write(slot, block->name(), serial, block->contents);
    lock.lock();
    if (error.empty()) {
      group.index.publish(slot, block->key);
      stats_.written_bytes += group.block_bytes;
    } else {
      group.index.release(slot);
      writable_ = false;
      log::warn("no more blocks are written to {}: {}", folder_.path().string(), error);
    }
  }
  forget_write(block);
  recycle(std::move(block));
}

void DiskTier::measure(int64_t us, int64_t bytes) {
  constexpr double kShare = 1.0 / 8;
  const double now = static_cast<double>(us) / static_cast<double>(bytes);
  us_per_byte_ += kShare * (now - us_per_byte_);
  measured_us_ = monotonic_us();
}

}  // namespace hasten::engine
