// SPDX-License-Identifier: Apache-2.0
// Batcher: holds sequences back until a batch of them may start, as servers did before sequences
// joined and left in every step.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/scheduler/policy.h"
#include "engine/sequence/sequence.h"

namespace hasten::engine {

/// When sequences that wait join those that run.
enum class Batching : uint8_t {
  continuous,     // in any step that has room for them (Yu et al., Orca, 2022)
  static_batch,   // a batch starts when all of the one before have ended, with those that wait
  dynamic_batch,  // likewise, but not before enough of them wait or one has waited long enough
};

struct BatchingMode {
  Batching batching;
  std::string_view name;
  std::string_view summary;  // for users, one line
};

/// Those that there are, the default first.
std::span<const BatchingMode* const> batching_modes();

/// The mode of that name. Throws Error{invalid_argument} that lists the known ones.
Batching find_batching(std::string_view name);

struct BatcherOptions {
  Batching batching = Batching::static_batch;  // not continuous, which holds nobody back
  int64_t max_size = 1;                        // sequences in a batch at most
  int64_t preferred = 1;  // so many make a dynamic batch start at once; max_size at most
  int64_t wait_us = 0;    // how long a dynamic batch waits for them, counted from its first
};

/// Sequences that are not yet in a batch. One thread.
class Batcher {
 public:
  explicit Batcher(const BatcherOptions& options);

  /// `sequence` waits since its `arrival_us`.
  void add(Sequence& sequence) { held_.push_back(&sequence); }
  /// False when it was not held.
  bool remove(const Sequence& sequence) { return std::erase(held_, &sequence) > 0; }

  /// The next batch, in order of the policy's rank; nobody is left of the one before. Empty when
  /// none may start yet.
  std::vector<Sequence*> next(const Policy& policy, const QueueView& view);

  /// The time from which on `next` is not empty though nobody else comes; INT64_MAX: never.
  int64_t start_us() const;

  /// In no order.
  std::span<Sequence* const> held() const { return held_; }
  int64_t num_held() const { return static_cast<int64_t>(held_.size()); }

 private:
  const BatcherOptions options_;
  std::vector<Sequence*> held_;  // in no order
};

}  // namespace hasten::engine
