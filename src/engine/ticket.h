// SPDX-License-Identifier: Apache-2.0
// Ticket: what ties a submitted request to its submitter: the sink, cancellation and the end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "hasten/request.h"

namespace hasten::engine {

/// Called on the engine's thread with each chunk in order; must not block.
using Sink = std::function<void(const Chunk&)>;

/// Shared by the submitter and the engine, and may outlive the engine. All members are safe from
/// any thread; `cancel` and `drop` also from the sink itself.
class Ticket {
 public:
  explicit Ticket(Sink sink) : sink_(std::move(sink)) {}

  /// Asks for the end. Once it has returned, the sink is called at most once more, with
  /// Finish::cancelled and `last`. Waits for a call in progress on another thread.
  void cancel();
  /// The same without that call: once it has returned, the sink is not called.
  void drop();
  /// Waits until the request has ended and the sink has returned from its last chunk. Not from a
  /// sink.
  void wait();
  bool done() const;
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // For the engine's thread.

  /// Calls the sink, unless the submitter wants no more; what the sink throws comes through. After
  /// a chunk with `last` the ticket is done.
  void deliver(const Chunk& chunk);
  /// The request has ended without a last chunk, because its sink threw.
  void close();

 private:
  std::atomic<bool> cancelled_ = false;
  mutable std::recursive_mutex mutex_;  // recursive: a sink may cancel its own request
  std::condition_variable_any ended_;
  Sink sink_;             // guarded by mutex_, as are the following
  bool dropped_ = false;  // the sink is not called any more
  bool done_ = false;
};

}  // namespace hasten::engine
