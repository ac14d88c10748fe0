// SPDX-License-Identifier: Apache-2.0
// Statistics: what a workload's requests met with, in the field's terms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "workload/distribution.h"

namespace hasten::workload {

/// What a request must keep to be counted as good (goodput; Zhong et al., DistServe, 2024).
/// Milliseconds; 0: anything is good.
struct Targets {
  double ttft_ms = 0;
  double tpot_ms = 0;
  double e2e_ms = 0;

  bool any() const { return ttft_ms > 0 || tpot_ms > 0 || e2e_ms > 0; }
};

/// One answer while it comes. Times are microseconds of one clock.
struct Answer {
  int64_t arrival_us = 0;  // when the workload meant it to come, however late it was sent
  int64_t first_us = -1;   // of the first token; -1: none yet
  int64_t last_us = -1;    // of the latest one
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, taken from a prefix cache
  int64_t output_tokens = 0;
  int64_t deadline_us = 0;       // from its arrival, for its last token; 0: none
  std::string_view tenant = {};  // whose it is, if that is known; outlives the answer
  int64_t program_us = -1;  // arrival of the first call of the program that it ends; -1: of none
  // Between its deliveries, until it is known whether they count.
  std::vector<int64_t> gaps_us = {};
};

/// What the machine allows at best for the same work; 0: not known.
struct BestCase {
  double ttft_ms = 0;  // a prompt of the mean length alone
  double tpot_ms = 0;  // a token of one answer alone
  double output_tokens_per_second = 0;
  bool is_open_loop = false;  // requests come by themselves: no more can be answered
};

/// Gathers answers and tells of them:
///  - TTFT, time to first token: from arrival to the first token;
///  - TBT, time between tokens: each gap between two deliveries of an answer that became whole;
///  - TPOT, time per output token: of an answer, from its first token to its last, per token after
///    the first;
///  - normalised latency: from arrival to the end, per generated token (Yu et al., Orca, 2022);
///  - end to end: from arrival to the end; where there are several tenants, also of each;
///  - program: from the arrival of a program's first call to the end of its last one.
/// One thread.
class Statistics {
 public:
  explicit Statistics(const Targets& targets = {}) : targets_(targets) {}

  /// `count` further tokens of an answer were delivered together.
  void deliver(Answer& answer, int64_t now_us, int64_t count);
  /// The answer is whole.
  void finish(Answer& answer, int64_t now_us);
  /// It will not become so; `kind` in a few words, one of few.
  void fail(const Answer& answer, int64_t now_us, std::string_view kind);
  /// A request was sent so much later than it was meant to be: the measuring side's own delay.
  void sent_late(int64_t us) { lateness_.add(us < 0 ? 0 : us); }

  int64_t num_finished() const { return ttft_.count(); }
  int64_t num_failed() const { return num_failed_; }
  /// How many, by kind.
  const std::map<std::string, int64_t, std::less<>>& failures() const { return failures_; }
  double output_tokens_per_second() const;
  double mean_prompt_tokens() const;
  double mean_cached_tokens() const;
  double mean_output_tokens() const;
  const Distribution& ttft_us() const { return ttft_; }
  const Distribution& tbt_us() const { return tbt_; }
  const Distribution& e2e_us() const { return e2e_; }
  const Distribution& program_us() const { return program_; }

  json::Object to_json(const BestCase& best = {}) const;
  /// For people: several lines, and a table where any answer came.
  std::string to_text(const BestCase& best = {}) const;

 private:
  double seconds() const;
  double per_second(int64_t count) const;
  double per_answer(int64_t count) const;
  void span(const Answer& answer, int64_t now_us);
  Distribution& e2e_of(std::string_view tenant);

  Targets targets_;
  Distribution ttft_, tbt_, tpot_, normalized_, e2e_, program_, lateness_;  // microseconds
  std::map<std::string, Distribution, std::less<>> tenants_;                // end to end, of each
  std::map<std::string, int64_t, std::less<>> failures_;                    // by kind
  int64_t num_failed_ = 0;
  int64_t num_good_ = 0;
  int64_t num_due_ = 0;        // had a deadline
  int64_t num_met_ = 0;        // and met it
  int64_t prompt_tokens_ = 0;  // of finished answers, as the next two
  int64_t cached_tokens_ = 0;
  int64_t output_tokens_ = 0;
  int64_t begin_us_ = -1;  // the first arrival
  int64_t end_us_ = 0;     // the last end
};

}  // namespace hasten::workload
