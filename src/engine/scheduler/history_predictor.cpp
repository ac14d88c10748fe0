// SPDX-License-Identifier: Apache-2.0
// Lengths from history: what answers to prompts of a like length have had of late.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/hash.h"
#include "engine/scheduler/predictor.h"

namespace hasten::engine {
namespace {

// Eight to each doubling of a prompt: prompts that an application builds from a template differ by
// a few percent, and answers to prompts of one application are alike.
constexpr double kBucketsPerDoubling = 8;
constexpr size_t kNumBuckets = 8 * 24;  // prompts of up to 2^24 tokens
// Tenants share 64 tables by the hash of their names: what a stranger adds to a table is the same
// kind of evidence, and memory stays bounded (0.4 MB).
constexpr size_t kNumTables = 64;
constexpr double kNewestShare = 1.0 / 16;  // of the newest answer in a mean

/// The mean of logarithms that forgets: a geometric mean, as lengths spread over orders of
/// magnitude.
struct Mean {
  double log_tokens = 0;
  double count = 0;  // answers in it, up to 1 / kNewestShare

  void add(double value) {
    count = std::min(count + 1, 1 / kNewestShare);
    log_tokens += (value - log_tokens) / count;
  }
};

/// Prefers the tenant's own answers to prompts of this length, then everybody's, then the tenant's
/// of any length, and everybody's of any length at last.
class HistoryPredictor : public LengthPredictor {
 public:
  int64_t predict(const Sequence& sequence) const override {
    const size_t bucket = bucket_of(sequence);
    const Table& own = tables_[table_of(sequence)];
    for (const Mean* mean : {&own.buckets[bucket], &all_.buckets[bucket], &own.any, &all_.any})
      if (mean->count > 0) return tokens_of_log(mean->log_tokens);
    return 0;
  }

  void learn(const Sequence& sequence) override {
    const double value =
        std::log(static_cast<double>(std::max<size_t>(1, sequence.generated.size())));
    const size_t bucket = bucket_of(sequence);
    for (Table* table : {&tables_[table_of(sequence)], &all_}) {
      table->buckets[bucket].add(value);
      table->any.add(value);
    }
  }

 private:
  struct Table {
    std::array<Mean, kNumBuckets> buckets;
    Mean any;
  };

  static size_t bucket_of(const Sequence& sequence) {
    const double doublings = std::log2(static_cast<double>(sequence.num_prompt()));
    return std::min(kNumBuckets - 1, static_cast<size_t>(kBucketsPerDoubling * doublings));
  }
  static size_t table_of(const Sequence& sequence) {
    return hash_bytes(sequence.tenant) % kNumTables;
  }

  std::vector<Table> tables_ = std::vector<Table>(kNumTables);
  Table all_;
};

}  // namespace

const PredictorKind kHistoryPredictor = {
    .name = "history",
    .summary = "as long as its tenant's latest answers to prompts of about this length",
    .make = []() -> std::unique_ptr<LengthPredictor> {
      return std::make_unique<HistoryPredictor>();
    }};

}  // namespace hasten::engine
