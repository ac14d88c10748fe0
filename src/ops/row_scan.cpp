// SPDX-License-Identifier: Apache-2.0
// A loop over a row that the compiler vectorises.
#include "ops/row_scan.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hasten::ops {
namespace {

constexpr size_t kBlock = 1024;  // of which the best one is looked through
constexpr size_t kLanes = 16;    // of a maximum and a count each, to stay in registers

}  // namespace

RowScan scan_row(std::span<const float> row) {
  RowScan scan;
  size_t best_block = 0;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const auto block = row.subspan(begin, std::min(kBlock, row.size() - begin));
    std::array<float, kLanes> lanes;
    lanes.fill(-std::numeric_limits<float>::infinity());
    std::array<int32_t, kLanes> bad{};
    const auto look = [&](float value, size_t lane) {
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
      bad[lane] += static_cast<int32_t>(!(value <= std::numeric_limits<float>::max()));
    };
    const size_t whole = block.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j) look(block[i + j], j);
    }
    for (size_t i = whole; i < block.size(); ++i) look(block[i], i - whole);
    for (const int32_t count : bad) scan.num_not_finite += count;
    const float most_here = *std::ranges::max_element(lanes);
    if (!(most_here > scan.most)) continue;
    scan.most = most_here;
    best_block = begin;
  }
  if (scan.most == -std::numeric_limits<float>::infinity()) return scan;
  const auto rest = row.subspan(best_block);
  scan.likeliest =
      static_cast<int64_t>(best_block) + (std::ranges::find(rest, scan.most) - rest.begin());
  return scan;
}

}  // namespace hasten::ops
