// SPDX-License-Identifier: Apache-2.0
// StepPlan and StepResult: what a step shall compute and what came of it, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/sequence/sequence.h"
#include "hasten/request.h"
#include "hasten/step_record.h"

namespace hasten::engine {

/// Tokens [begin, begin + count) of one sequence, to be run in a step.
struct PlannedSequence {
  Sequence* sequence = nullptr;
  int64_t begin = 0;       // position of the first token; the sequence's num_computed
  int64_t count = 0;       // tokens, at least one
  int64_t num_logits = 0;  // the last so many of them need their logits
  bool samples = false;    // the last token is the sequence's last: the next one is drawn

  int64_t end() const { return begin + count; }
};

/// A block whose contents a sequence takes over before its tokens run.
struct BlockCopy {
  int32_t sequence = 0;  // index in StepPlan::sequences of the taker
  int32_t group = 0;     // cache group
  int32_t from = 0;      // block id
  int32_t to = 0;        // block id
};

/// Contents of a block that go to a lower tier, before anything is written in this step.
struct BlockSave {
  int32_t group = 0;  // cache group
  int32_t block = 0;  // block id
  std::span<std::byte> to;
};

/// Contents of a block that come from a lower tier, after all that is saved and before all else.
struct BlockLoad {
  int32_t group = 0;  // cache group
  int32_t block = 0;  // block id
  std::span<const std::byte> from;
};

/// One step. Views are valid until the next plan.
struct StepPlan {
  std::vector<PlannedSequence> sequences;  // in order of admission
  // [sequences.size(), num_groups]: block ids of each sequence; -1: not in the window any more.
  std::vector<std::span<const int32_t>> block_tables;
  std::vector<BlockCopy> copies;
  std::vector<BlockSave> saves;  // these and the loads are to be done even without sequences
  std::vector<BlockLoad> loads;
  int64_t num_groups = 0;
  int64_t num_tokens = 0;           // of all sequences
  int64_t num_logits = 0;           // rows, of all sequences
  int64_t num_preemptions = 0;      // sequences that gave their blocks back for this step
  int64_t kv_tokens_allocated = 0;  // as in StepRecord
  int64_t kv_tokens_used = 0;

  bool empty() const { return sequences.empty(); }
  std::span<const int32_t> block_table(size_t sequence, size_t group) const {
    return block_tables[sequence * static_cast<size_t>(num_groups) + group];
  }
};

/// What a plan takes to run, without its time. Windows are not looked at.
inline StepRecord describe(const StepPlan& plan) {
  StepRecord step{.sequences = static_cast<int64_t>(plan.sequences.size()),
                  .tokens = plan.num_tokens,
                  .kv_tokens_allocated = plan.kv_tokens_allocated,
                  .kv_tokens_used = plan.kv_tokens_used};
  for (const PlannedSequence& planned : plan.sequences) {
    step.key_reads += planned.end();
    step.key_products += planned.count * planned.begin + planned.count * (planned.count + 1) / 2;
  }
  return step;
}

/// What a step brought one sequence.
struct SequenceResult {
  int32_t token = -1;                         // drawn; -1: the plan asked for none
  TokenLogprob logprob;                       // of `token`, when the request asks for it
  std::vector<TokenLogprob> prompt_logprobs;  // of the prompt tokens that this step scored
  std::string error;                          // why the request must end; empty: all is well
};

struct StepResult {
  std::vector<SequenceResult> sequences;  // in the order of the plan
};

}  // namespace hasten::engine
