// SPDX-License-Identifier: Apache-2.0
// The way of an engine's chunks from its thread to the strand of the connection that waits for
// them: never blocks the engine, and holds so much at most.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hasten/engine.h"
#include "server/task.h"

namespace hasten::server {

/// A chunk of the request that was submitted as number `request`.
struct Arrival {
  int32_t request = 0;
  int64_t time_us = 0;  // monotonic, when the engine delivered it
  Chunk chunk;
};

/// Belongs to one strand; its sinks belong to the engine's thread and may outlive it.
class ChunkQueue {
 public:
  /// `executor`: the strand. More than `max_bytes` waiting means that the client does not read:
  /// then `cut` is called, on the strand.
  ChunkQueue(boost::asio::any_io_executor executor, int64_t max_bytes, std::function<void()> cut);
  ~ChunkQueue();
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;

  /// For Engine::submit of request number `request`.
  Engine::Sink sink(int32_t request);
  /// What has arrived, as soon as it is not nothing; empty after `patience`. Throws
  /// Error{resource_exhausted} once more than max_bytes have been waiting, Error{internal} when
  /// memory ran out for a chunk.
  Task<std::vector<Arrival>> next(std::chrono::milliseconds patience);

 private:
  struct Mailbox;  // what the sinks share with the queue

  boost::asio::any_io_executor executor_;
  std::shared_ptr<boost::asio::steady_timer> timer_;  // expires early when something arrives
  std::shared_ptr<Mailbox> mailbox_;
  int64_t max_bytes_;
};

}  // namespace hasten::server
