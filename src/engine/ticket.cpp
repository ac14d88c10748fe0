// SPDX-License-Identifier: Apache-2.0
// Delivery of chunks against cancellation from other threads.
#include "engine/ticket.h"

namespace hasten::engine {

void Ticket::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_.store(true, std::memory_order_release);
}

void Ticket::drop() {
  const std::lock_guard lock(mutex_);
  cancelled_.store(true, std::memory_order_release);
  dropped_ = true;
}

void Ticket::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return done_; });
}

bool Ticket::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Ticket::deliver(const Chunk& chunk) {
  const std::lock_guard lock(mutex_);
  if (!dropped_ && (!cancelled() || chunk.finish == Finish::cancelled)) {
    sink_(chunk);
  } else if (!dropped_ && chunk.last) {
    // The request ended in another way just as it was cancelled.
    Chunk last;
    last.choice = chunk.choice;
    last.finish = Finish::cancelled;
    last.last = true;
    last.usage = chunk.usage;
    sink_(last);
  }
  if (chunk.last) close();
}

void Ticket::close() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  sink_ = nullptr;  // what it holds may hold this ticket
  ended_.notify_all();
}

}  // namespace hasten::engine
