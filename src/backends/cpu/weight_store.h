// SPDX-License-Identifier: Apache-2.0
// Where packed weights live, and how their packing is shared among threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pack.h"
#include "backends/cpu/workers.h"
#include "tensor/tensor.h"

namespace hasten::cpu {

/// Weights are packed many at a time: threads that share a small one wait for each other at its
/// end, and for a page that both write to, which the system has to clear. Not thread-safe.
class WeightStore {
 public:
  WeightStore(const KernelTable& kernels, Workers& workers)
      : kernels_(kernels), workers_(workers) {}

  /// Memory of layout.num_bytes() for a weight, which is written when there are enough of them, at
  /// the latest by pack_added(); until then `source` must be there, unless the memory is given up.
  /// Null where memory is short, which the log says once.
  Arena::Piece add(const WeightLayout& layout, const Tensor& source);

  /// Has memory for weights of these matrices brought in, on this thread and until `stop`, before
  /// the first is added; nothing where memory is not plenty. A hint: what is more than they need is
  /// given back with finish(). Returns how many bytes there are.
  int64_t bring_in(std::span<const Tensor> sources, const std::stop_token& stop);

  /// Packs all that was added and still has an owner, on all threads.
  void pack_added() {
    if (!added_.empty()) pack();
  }
  /// pack_added(), and what was brought in ahead and no weight needs is given back.
  void finish() {
    pack_added();
    arena_.give_back_ahead();
  }

 private:
  struct Added {
    WeightLayout layout;
    Tensor source;
    std::weak_ptr<uint8_t> memory;
  };

  Arena::Piece allocate(int64_t num_bytes);
  void pack();
  void warn_of_scales(const Tensor& source, int64_t uneven_rows);

  const KernelTable& kernels_;
  Workers& workers_;
  Arena arena_;
  std::vector<Added> added_;      // on the arena's latest chunk
  int64_t added_bytes_ = 0;       // of them
  int64_t unmeasured_bytes_ = 0;  // that may be taken before free memory is measured again
  bool told_of_memory_ = false;
  bool told_of_scales_ = false;
};

}  // namespace hasten::cpu
