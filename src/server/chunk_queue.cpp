// SPDX-License-Identifier: Apache-2.0
// A locked mailbox, and a timer that its first letter cuts short.
#include "server/chunk_queue.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace hasten::server {

namespace asio = boost::asio;

namespace {

int64_t logprob_bytes(const std::vector<TokenLogprob>& logprobs) {
  int64_t count = 0;
  for (const TokenLogprob& logprob : logprobs) {
    count += 1 + static_cast<int64_t>(logprob.top.size());
  }
  return count * static_cast<int64_t>(sizeof(TokenProbability));
}

/// Without the prompt's logprobs: they come once, and the prompt's own limit bounds them.
int64_t size_bytes(const Chunk& chunk) {
  return static_cast<int64_t>(sizeof(Arrival) + chunk.text.size() + chunk.tokens.size() * 4) +
         logprob_bytes(chunk.logprobs);
}

}  // namespace

struct ChunkQueue::Mailbox {
  std::mutex mutex;  // guards all members
  std::vector<Arrival> arrivals;
  int64_t bytes = 0;
  bool overflown = false;
  bool lost = false;               // memory ran out for a chunk
  std::function<void()> wake;      // called for the first arrival; empty once the queue is gone
  std::function<void()> overflow;  // called once, when there are too many
};

ChunkQueue::ChunkQueue(asio::any_io_executor executor, int64_t max_bytes, std::function<void()> cut)
    : executor_(std::move(executor)),
      timer_(std::make_shared<asio::steady_timer>(executor_)),
      mailbox_(std::make_shared<Mailbox>()),
      max_bytes_(max_bytes) {
  mailbox_->wake = [executor = executor_, timer = timer_] {
    asio::post(executor, [timer] { timer->cancel(); });
  };
  mailbox_->overflow = [executor = executor_, cut = std::move(cut)] { asio::post(executor, cut); };
}

ChunkQueue::~ChunkQueue() {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->wake = nullptr;
  mailbox_->overflow = nullptr;
}

Engine::Sink ChunkQueue::sink(int32_t request) {
  return [mailbox = mailbox_, request, max_bytes = max_bytes_](const Chunk& chunk) {
    const std::lock_guard lock(mailbox->mutex);
    if (!mailbox->wake || mailbox->overflown || mailbox->lost) return;
    try {
      mailbox->bytes += size_bytes(chunk);
      mailbox->overflown = mailbox->bytes > max_bytes;
      const bool first = mailbox->arrivals.empty();
      mailbox->arrivals.push_back({request, monotonic_us(), chunk});
      if (first) mailbox->wake();
      if (mailbox->overflown) mailbox->overflow();
    } catch (const std::exception&) {  // `next` tells of it, when it wakes by itself
      mailbox->lost = true;
    }
  };
}

Task<std::vector<Arrival>> ChunkQueue::next(std::chrono::milliseconds patience) {
  const auto deadline = asio::steady_timer::clock_type::now() + patience;
  for (;;) {
    std::vector<Arrival> arrivals;
    {
      const std::lock_guard lock(mailbox_->mutex);
      if (mailbox_->overflown) {
        fail(ErrorCode::resource_exhausted, "the answer waits unread; more than {} bytes of it",
             max_bytes_);
      }
      if (mailbox_->lost) fail(ErrorCode::internal, "no memory for a chunk of the answer");
      arrivals.swap(mailbox_->arrivals);
      mailbox_->bytes = 0;
    }
    if (!arrivals.empty() || asio::steady_timer::clock_type::now() >= deadline) co_return arrivals;
    timer_->expires_at(deadline);
    boost::system::error_code cut_short;
    co_await timer_->async_wait(asio::redirect_error(asio::use_awaitable, cut_short));
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none) {
      throw boost::system::system_error(asio::error::operation_aborted);
    }
  }
}

}  // namespace hasten::server
