// SPDX-License-Identifier: Apache-2.0
// Has the system map the pages of a model's tensors while something else is read of it.
#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <thread>

#include "weights/checkpoint.h"

namespace hasten::weights {

/// While it lives, a thread reads a byte here and there of the tensors, in their order. Whoever
/// reads all of them later finds pages mapped; those of a file that is not in the system's cache
/// are on their way from the disk. Then the thread calls `then`, for what else can be done ahead,
/// which should soon end when it is told to. The tensors must outlive it. To end, it waits for one
/// reading, or for that.
class MapAhead {
 public:
  /// No effect where tensors are small, this thread may use one processor only, or the system gives
  /// no other thread.
  explicit MapAhead(std::span<const NamedTensor> tensors,
                    std::function<void(const std::stop_token&)> then = {});

 private:
  std::jthread thread_;
};

}  // namespace hasten::weights
