// SPDX-License-Identifier: Apache-2.0
// Buckets: the values below 128 each, then 128 for each power of two.
#include "workload/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace hasten::workload {
namespace {

constexpr int kBits = 7;  // a power of two has 2^kBits buckets

size_t bucket_of(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - kBits - 1);
  return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(bits >> shift);
}

/// The value in the middle of a bucket.
int64_t middle_of(size_t bucket) {
  const int shift = std::max(0, static_cast<int>(bucket >> kBits) - 1);
  const auto low = static_cast<int64_t>(bucket - (static_cast<size_t>(shift) << kBits)) << shift;
  return low + ((int64_t{1} << shift) - 1) / 2;
}

}  // namespace

void Distribution::add(int64_t value) {
  HASTEN_CHECK(value >= 0);
  const size_t bucket = bucket_of(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

double Distribution::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

int64_t Distribution::quantile(double q) const {
  HASTEN_CHECK(q > 0 && q <= 1);
  // Less a little, or a product such as 0.07 * 100 would ask for one value too many.
  const auto rank = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(q * static_cast<double>(count_) * (1 - 1e-12))));
  if (rank >= count_) return max_;
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) return std::clamp(middle_of(bucket), min_, max_);
  }
  return max_;
}

}  // namespace hasten::workload
