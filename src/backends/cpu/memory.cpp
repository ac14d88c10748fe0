// SPDX-License-Identifier: Apache-2.0
// Aligned allocation with a hint for huge pages.
#include "backends/cpu/memory.h"

#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/fresh_memory.h"
#include "base/log.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kLine = 64;

#if defined(__SANITIZE_ADDRESS__)
// To hide and to show it takes time, and a test has many backends of few weights each. Huge pages
// all the same, and all small pieces of a test fit.
constexpr int64_t kChunkBytes = 6 * kHugePage;

/// Has AddressSanitizer report what reads or writes memory that belongs to nobody.
void hide(const uint8_t* data, int64_t num_bytes) {
  __asan_poison_memory_region(data, static_cast<size_t>(num_bytes));
}
void show(const uint8_t* data, int64_t num_bytes) {
  __asan_unpoison_memory_region(data, static_cast<size_t>(num_bytes));
}
constexpr int64_t kHiddenBytes = kLine;  // behind each piece
#else
// Small pieces fill it. What a large one leaves at its end, half of it at worst, is addresses only.
constexpr int64_t kChunkBytes = 32 * kHugePage;

void hide(const uint8_t* /*data*/, int64_t /*num_bytes*/) {}
void show(const uint8_t* /*data*/, int64_t /*num_bytes*/) {}
constexpr int64_t kHiddenBytes = 0;
#endif

}  // namespace

Memory::Memory(int64_t num_bytes) : Memory(try_allocate(num_bytes)) {
  if (num_bytes > 0 && data_ == nullptr) {
    fail(ErrorCode::resource_exhausted, "cannot allocate {} bytes of memory", num_bytes);
  }
}

Memory Memory::try_allocate(int64_t num_bytes) {
  HASTEN_CHECK(num_bytes >= 0);
  Memory memory;
  if (num_bytes == 0) return memory;
  const int64_t alignment = num_bytes >= kLeastOnHugePages ? kHugePage : kLine;
  const auto size = static_cast<size_t>(round_up(num_bytes, alignment));
  memory.data_.reset(
      static_cast<uint8_t*>(std::aligned_alloc(static_cast<size_t>(alignment), size)));
  if (memory.data_ == nullptr) return memory;
  memory.num_bytes_ = num_bytes;
  if (alignment == kHugePage) ask_for_huge_pages(memory.data_.get(), size);
  return memory;
}

void Memory::Free::operator()(uint8_t* p) const { std::free(p); }

int64_t Arena::piece_bytes(int64_t num_bytes) { return round_up(num_bytes, kLine) + kHiddenBytes; }

bool Arena::has_room(int64_t num_bytes) const {
  const std::shared_ptr<Memory> chunk = chunk_.lock();
  return chunk != nullptr && chunk->num_bytes() - used_ >= piece_bytes(num_bytes);
}

Arena::Piece Arena::allocate(int64_t num_bytes) {
  const int64_t size = piece_bytes(num_bytes);
  std::shared_ptr<Memory> chunk = chunk_.lock();
  if (!has_room(num_bytes)) {
    chunk = begin_chunk(size);
    if (chunk == nullptr) return nullptr;
    hide(chunk->data(), chunk->num_bytes());
  }
  begun_ = nullptr;
  uint8_t* data = chunk->data() + used_;
  piece_end_ = used_ + num_bytes;
  used_ += size;
  show(data, num_bytes);
  return {data, [chunk = std::move(chunk), num_bytes](uint8_t* piece) mutable {
            hide(piece, num_bytes);
            chunk.reset();  // now, not with the last weak_ptr to the piece
          }};
}

std::shared_ptr<Memory> Arena::begin_chunk(int64_t num_bytes) {
  give_back_ahead();
  Memory memory = Memory::try_allocate(std::max(kChunkBytes, round_up(num_bytes, kHugePage)));
  if (memory.data() == nullptr) return nullptr;
  auto chunk = std::make_shared<Memory>(std::move(memory));
  chunk_ = chunk;
  used_ = 0;
  piece_end_ = 0;
  touched_ = 0;
  ahead_ = 0;
  return chunk;
}

/// By writing to them: who asks the system for a page (madvise) has other threads wait that
/// allocate memory.
void Arena::bring_in(int64_t num_bytes, const std::stop_token& stop) {
  const std::shared_ptr<Memory> chunk = begin_chunk(num_bytes);
  if (chunk == nullptr) return;
  const int64_t end = round_up(num_bytes, kHugePage);
  for (; touched_ < end && !stop.stop_requested(); touched_ += kHugePage) {
    bring_in_pages({reinterpret_cast<std::byte*>(chunk->data() + touched_), kHugePage});
  }
  ahead_ = touched_;
  hide(chunk->data(), chunk->num_bytes());
  begun_ = chunk;
}

const uint8_t* Arena::end_of_ahead() const {
  const std::shared_ptr<Memory> chunk = chunk_.lock();
  return chunk == nullptr || ahead_ == 0 ? nullptr : chunk->data() + ahead_;
}

int64_t Arena::bytes_ahead() const {
  return chunk_.expired() ? 0 : std::max<int64_t>(0, ahead_ - used_);
}

void Arena::give_back_ahead() {
  const std::shared_ptr<Memory> chunk = chunk_.lock();
  const int64_t kept = round_up(used_, kHugePage);
  if (chunk == nullptr || ahead_ <= kept) return;
  madvise(chunk->data() + kept, static_cast<size_t>(ahead_ - kept), MADV_DONTNEED);
  ahead_ = kept;
  touched_ = kept;
}

NewPages Arena::new_pages() {
  const std::shared_ptr<Memory> chunk = chunk_.lock();
  if (chunk == nullptr || piece_end_ <= touched_) return {};
  const int64_t first = std::exchange(touched_, round_up(piece_end_, kHugePage));
  return {chunk->data() + first, (touched_ - first) / kHugePage};
}

int64_t NewPages::bring_in(const uint8_t* begin, const uint8_t* end) {
  if (states_.empty() || end <= first_) return 0;
  const int64_t first = std::max<int64_t>(0, begin - first_) / kHugePage;
  const int64_t last = std::min((end - 1 - first_) / kHugePage, count() - 1);
  int64_t num_brought = 0;
  for (int64_t page = first; page <= last; ++page) {
    std::atomic<State>& state = states_[static_cast<size_t>(page)];
    State seen = state.load(std::memory_order_acquire);
    if (seen == State::there) continue;
    if (seen != State::fresh || !state.compare_exchange_strong(seen, State::coming)) {
      state.wait(State::coming);
      continue;
    }
#if defined(MADV_POPULATE_WRITE)
    // A hint as well: without it pages come in when they are written.
    madvise(first_ + page * kHugePage, static_cast<size_t>(kHugePage), MADV_POPULATE_WRITE);
#endif
    state.store(State::there);
    state.notify_all();
    ++num_brought;
  }
  return num_brought;
}

uint8_t* Scratch::get(int64_t num_bytes) {
  if (num_bytes > memory_.num_bytes()) {
    if (reserved_) {
      log::warn("a step needs {} bytes of scratch memory, {} were reserved; allocating more",
                num_bytes, memory_.num_bytes());
    }
    memory_ = Memory();
    memory_ = Memory(num_bytes);
  }
  return memory_.data();
}

void Scratch::reserve(int64_t num_bytes) {
  reserved_ = false;
  get(num_bytes);
  reserved_ = true;
}

}  // namespace hasten::cpu
