// SPDX-License-Identifier: Apache-2.0
// Has the system map the pages of a model's tensors while something else is read of it.
#pragma once

#include <span>
#include <thread>

#include "weights/checkpoint.h"

namespace hasten::weights {

/// While it lives, a thread reads a byte here and there of the tensors, in their order, so that
/// whoever reads all of them later finds their pages mapped, which takes a third of the time to
/// pack weights otherwise, or of a file that is not in the system's cache on their way from the
/// disk. The tensors must outlive it. It ends within the time to read some of the file.
class MapAhead {
 public:
  /// No effect where tensors are small, there is one processor, or the system gives no thread.
  explicit MapAhead(std::span<const NamedTensor> tensors);

 private:
  std::jthread thread_;
};

}  // namespace hasten::weights
