// SPDX-License-Identifier: Apache-2.0
// A lower tier in memory that is slow, forgets, refuses and fails, all from one seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "engine/kv_cache/block_tier.h"

namespace hasten::engine {

class RandomTier final : public BlockTier {
 public:
  RandomTier(uint64_t seed, int64_t max_blocks, size_t block_bytes)
      : random_(seed), max_blocks_(max_blocks), block_bytes_(block_bytes) {}

  bool contains(const BlockName& name) override { return blocks_.contains(id(name)); }

  TierState fetch(const BlockName& name, int64_t /*round*/) override {
    if (chance(50)) blocks_.erase(id(name));  // it could not be read
    const auto at = blocks_.find(id(name));
    if (at == blocks_.end()) return TierState::absent;
    if (staged_.contains(id(name))) return TierState::ready;
    if (chance(8)) {
      ++num_not_yet;
      return TierState::no_room;
    }
    if (!chance(3)) {
      ++num_not_yet;
      return TierState::reading;
    }
    staged_.emplace(id(name), at->second);
    return TierState::ready;
  }

  std::span<const std::byte> take(const BlockName& name) override {
    taken_.push_back(id(name));
    ++num_taken;
    return staged_.at(id(name));
  }

  std::span<std::byte> save(const BlockName& name) override {
    if (chance(8)) return {};
    return saves_.emplace_back(id(name), std::vector<std::byte>(block_bytes_)).second;
  }

  void end_step(bool saved) override {
    for (const Id& id : taken_) staged_.erase(id);
    taken_.clear();
    for (auto& [id, contents] : saves_) {
      if (!saved || chance(20)) continue;  // it could not be written
      if (std::ssize(blocks_) >= max_blocks_)
        blocks_.erase(std::next(blocks_.begin(), draw(0, std::ssize(blocks_) - 1)));
      blocks_.emplace(id, std::move(contents));
    }
    saves_.clear();
  }

  double load_us(int64_t /*bytes*/) override {
    return chance(4) ? static_cast<double>(draw(0, 40)) : 0;
  }
  double backlog_us() override { return chance(4) ? static_cast<double>(draw(0, 40)) : 0; }

  int64_t num_taken = 0;
  int64_t num_not_yet = 0;  // answers that contents are there, but not ready

 private:
  using Id = std::tuple<uint64_t, uint64_t, int32_t>;
  static Id id(const BlockName& name) { return {name.key.low, name.key.high, name.group}; }
  int64_t draw(int64_t min, int64_t max) {
    return min + static_cast<int64_t>(random_() % static_cast<uint64_t>(max - min + 1));
  }
  bool chance(int64_t one_in) { return draw(1, one_in) == 1; }

  std::mt19937_64 random_;
  int64_t max_blocks_;
  size_t block_bytes_;
  std::map<Id, std::vector<std::byte>> blocks_;
  std::map<Id, std::vector<std::byte>> staged_;
  std::vector<Id> taken_;
  std::vector<std::pair<Id, std::vector<std::byte>>> saves_;
};

}  // namespace hasten::engine
