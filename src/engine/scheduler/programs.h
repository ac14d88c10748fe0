// SPDX-License-Identifier: Apache-2.0
// Programs: what is known of clients that ask in many calls, and what is held for their next one.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/scheduler/tenant_service.h"
#include "engine/sequence/sequence.h"

namespace hasten::engine {

/// What all calls of a program have had so far.
struct ProgramService {
  double units = 0;       // of service
  int64_t num_calls = 0;  // that have run, so that units are theirs
};

/// A program is an agent, a pipeline, or whoever else asks one thing in many calls, each of which
/// builds on those before it (Luo et al., Autellix, 2025): the sequences of a tenant with the same
/// `Sequence::program`. Another tenant's program of the same name is another program.
///
/// One of which nothing waits or runs pauses: a tool works, or somebody thinks. How long that takes
/// is learnt. Beyond `max_idle` programs that pause the one that has done so for longest is
/// forgotten, so names that are made up for each request fill no memory. One thread.
class Programs {
 public:
  explicit Programs(const ServiceWeights& weights = {}, size_t max_idle = 1024)
      : weights_(weights), max_idle_(max_idle) {}

  /// A sequence comes that names a program. Returns its index, which is its own until the last of
  /// its sequences has left.
  int32_t join(const Sequence& sequence);
  /// One of those that have come goes for good, as the last one of the last call if it says so.
  void leave(const Sequence& sequence, int64_t now_us);
  /// A sequence of a program runs for the first time, the first choice of a call before others.
  void begin(const Sequence& sequence);
  /// So many tokens of a prompt were computed for a program, and so many of an answer.
  void charge(int32_t program, int64_t input_tokens, int64_t output_tokens);

  /// By index. Valid until the next `join`.
  std::span<const ProgramService> services() const { return services_; }
  /// How long a program pauses between two calls: the geometric mean, as some tools take a thousand
  /// times as long as others; 0: not known yet.
  double pause_us(int32_t program) const;

  /// Keeps holds for a program that is known, in place of what it has.
  void hold(int32_t program, std::vector<BlockHold> holds, int64_t until_us);
  /// Lets go of what was to be held until then.
  void expire(int64_t now_us);

  /// Programs that are known, those included that pause.
  size_t num_programs() const { return indices_.size(); }

 private:
  struct Program {
    std::string name;          // with its tenant's
    int64_t num_live = 0;      // sequences that wait or run
    int64_t paused_us = -1;    // since when
    double sum_log_pause = 0;  // of microseconds
    int64_t num_pauses = 0;
    std::vector<BlockHold> holds = {};          // the first blocks first
    int64_t until_us = INT64_MAX;               // of holds
    std::list<int32_t>::iterator idle_at = {};  // in idle_, while it pauses
  };

  Program& at(int32_t program) { return programs_[static_cast<size_t>(program)]; }
  const Program& at(int32_t program) const { return programs_[static_cast<size_t>(program)]; }
  int32_t add(std::string name);
  void forget(int32_t program);

  const ServiceWeights weights_;
  const size_t max_idle_;
  std::vector<Program> programs_;  // by index
  std::vector<ProgramService> services_;
  std::vector<int32_t> free_;               // indices of nobody
  std::map<std::string, int32_t> indices_;  // by name, which clients choose
  std::list<int32_t> idle_;                 // that pause, the one since longest first
  int64_t next_expiry_us_ = INT64_MAX;
};

}  // namespace hasten::engine
