// SPDX-License-Identifier: Apache-2.0
// Names, pauses and holds of programs.
#include "engine/scheduler/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace hasten::engine {
namespace {

/// The length keeps a tenant whose name ends like a program's begins apart from others.
std::string name_of(const Sequence& sequence) {
  return fmt::format("{}:{}{}", sequence.tenant.size(), sequence.tenant, sequence.program);
}

/// From the last block on, so that it is evicted first: without those before it, it is of no use.
void let_go(std::vector<BlockHold>& holds) {
  while (!holds.empty()) holds.pop_back();
}

}  // namespace

int32_t Programs::join(const Sequence& sequence) {
  std::string name = name_of(sequence);
  const auto known = indices_.find(name);
  const int32_t index = known != indices_.end() ? known->second : add(std::move(name));
  Program& program = at(index);
  if (program.num_live++ == 0 && program.paused_us >= 0) {
    const int64_t pause_us = std::max<int64_t>(1, sequence.arrival_us - program.paused_us);
    program.sum_log_pause += std::log(static_cast<double>(pause_us));
    ++program.num_pauses;
    program.paused_us = -1;
    idle_.erase(program.idle_at);
  }
  return index;
}

void Programs::leave(const Sequence& sequence, int64_t now_us) {
  Program& program = at(sequence.program_index);
  HASTEN_CHECK(program.num_live > 0);
  if (--program.num_live > 0) return;
  if (sequence.program_calls_left == 0) return forget(sequence.program_index);
  program.paused_us = std::max(now_us, sequence.arrival_us);
  program.idle_at = idle_.insert(idle_.end(), sequence.program_index);
  if (idle_.size() > max_idle_) {
    const int32_t oldest = idle_.front();
    idle_.pop_front();
    forget(oldest);
  }
}

void Programs::begin(const Sequence& sequence) {
  if (sequence.choice == 0) ++services_[static_cast<size_t>(sequence.program_index)].num_calls;
}

void Programs::charge(int32_t program, int64_t input_tokens, int64_t output_tokens) {
  services_[static_cast<size_t>(program)].units +=
      weights_.input * static_cast<double>(input_tokens) +
      weights_.output * static_cast<double>(output_tokens);
}

double Programs::pause_us(int32_t program) const {
  const Program& known = at(program);
  if (known.num_pauses == 0) return 0;
  return std::exp(known.sum_log_pause / static_cast<double>(known.num_pauses));
}

void Programs::hold(int32_t program, std::vector<BlockHold> holds, int64_t until_us) {
  // The new ones are on most of the same blocks, which shall not be evicted next for that.
  std::vector<BlockHold> old = std::exchange(at(program).holds, std::move(holds));
  let_go(old);
  at(program).until_us = at(program).holds.empty() ? INT64_MAX : until_us;
  next_expiry_us_ = std::min(next_expiry_us_, at(program).until_us);
}

void Programs::expire(int64_t now_us) {
  if (now_us < next_expiry_us_) return;
  next_expiry_us_ = INT64_MAX;
  for (Program& program : programs_) {
    if (program.until_us <= now_us) {
      let_go(program.holds);
      program.until_us = INT64_MAX;
    }
    next_expiry_us_ = std::min(next_expiry_us_, program.until_us);
  }
}

/// A program without calls, at a free index.
int32_t Programs::add(std::string name) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(programs_.size()));
    programs_.emplace_back();
    services_.emplace_back();
  }
  const int32_t index = free_.back();
  free_.pop_back();
  at(index) = {.name = name};
  services_[static_cast<size_t>(index)] = {};
  indices_.emplace(std::move(name), index);
  return index;
}

void Programs::forget(int32_t program) {
  hold(program, {}, INT64_MAX);
  indices_.erase(at(program).name);
  free_.push_back(program);
  at(program) = {};
}

}  // namespace hasten::engine
