// SPDX-License-Identifier: Apache-2.0
// The layout of a slot, and how one is read, written and believed.
#include "engine/kv_cache/block_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace hasten::engine {
namespace {

constexpr uint64_t kMagic = 0x31766b6e65747361;  // "astenkv1"; where a file has grown, there is 0
constexpr int64_t kPage = 4096;                  // slots begin where pages of memory and disk do
// Room is asked of the disk for so much at a time: a call for each block would be one too many.
constexpr int64_t kGrowBytes = int64_t{16} << 20;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

/// Little-endian, as all machines that hasten is built for; the tokens follow it.
struct BlockFile::Header {
  uint64_t magic = kMagic;
  Hash128 head_hash;  // of what follows, the tokens included
  Hash128 contents_hash;
  Hash128 key;
  Hash128 parent;
  uint64_t serial = 0;
  int64_t num_tokens = 0;
  int64_t payload_bytes = 0;
  int64_t group = 0;
};

int64_t BlockFile::slot_bytes(int64_t block_tokens, int64_t payload_bytes) {
  const auto head =
      static_cast<int64_t>(sizeof(Header)) + block_tokens * static_cast<int64_t>(sizeof(int32_t));
  return round_up(head + payload_bytes, kPage);
}

BlockFile::BlockFile(FileDescriptor file, const BlockFileOptions& options)
    : file_(std::move(file)),
      options_(options),
      head_bytes_(static_cast<int64_t>(sizeof(Header)) +
                  options.block_tokens * static_cast<int64_t>(sizeof(int32_t))),
      slot_bytes_(slot_bytes(options.block_tokens, options.payload_bytes)),
      num_slots_(options.max_bytes / slot_bytes_),
      head_(static_cast<size_t>(head_bytes_)) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0)
    fail(ErrorCode::io, "cannot look at a file of blocks: {}", std::strerror(errno));
  num_allocated_ = std::min<int64_t>(info.st_size / slot_bytes_, num_slots_);
  if (info.st_size > num_allocated_ * slot_bytes_ &&
      ::ftruncate(file_.get(), num_allocated_ * slot_bytes_) != 0)
    fail(ErrorCode::io, "cannot shorten a file of blocks: {}", std::strerror(errno));
}

bool BlockFile::is_there() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) == 0 && info.st_nlink > 0;
}

int64_t BlockFile::scan(
    const std::function<void(int64_t slot, const Hash128& key, uint64_t serial)>& found) {
  int64_t num_others = 0;
  for (int64_t slot = 0; slot < num_allocated_; ++slot) {
    if (read_at(slot * slot_bytes_, head_, {}) != head_.size()) break;
    Header header;
    std::memcpy(&header, head_.data(), sizeof header);
    if (is_whole(header))
      found(slot, header.key, header.serial);
    else
      num_others += header.magic != 0 ? 1 : 0;
  }
  return num_others;
}

BlockFile::Outcome BlockFile::read(int64_t slot, const BlockName& name, std::span<std::byte> out) {
  HASTEN_CHECK(std::ssize(out) == options_.payload_bytes && slot >= 0 && slot < num_slots_);
  if (read_at(slot * slot_bytes_, head_, out) != head_.size() + out.size()) return Outcome::corrupt;
  Header header;
  std::memcpy(&header, head_.data(), sizeof header);
  if (!is_whole(header)) return Outcome::corrupt;
  if (header.key != name.key || header.parent != name.parent || header.group != name.group ||
      !std::ranges::equal(std::span(head_).subspan(sizeof header), std::as_bytes(name.tokens)))
    return Outcome::absent;
  return siphash(as_text(out), options_.seal) == header.contents_hash ? Outcome::ok
                                                                      : Outcome::corrupt;
}

std::string BlockFile::write(int64_t slot, const BlockName& name, uint64_t serial,
                             std::span<const std::byte> contents) {
  HASTEN_CHECK(std::ssize(contents) == options_.payload_bytes && slot >= 0 && slot < num_slots_);
  HASTEN_CHECK(std::ssize(name.tokens) == options_.block_tokens);
  if (std::string error = grow(slot); !error.empty()) return error;
  Header header;
  header.contents_hash = siphash(as_text(contents), options_.seal);
  header.key = name.key;
  header.parent = name.parent;
  header.serial = serial;
  header.num_tokens = options_.block_tokens;
  header.payload_bytes = options_.payload_bytes;
  header.group = name.group;
  const auto tokens = std::as_bytes(name.tokens);
  std::memcpy(head_.data() + sizeof header, tokens.data(), tokens.size());
  std::memcpy(head_.data(), &header, sizeof header);
  header.head_hash = hash_of_head();
  std::memcpy(head_.data(), &header, sizeof header);

  const size_t size = head_.size() + contents.size();
  for (size_t done = 0; done < size;) {
    // Begun anew where a signal or a full disk has cut it off.
    const auto head = std::span<const std::byte>(head_).subspan(std::min(done, head_.size()));
    const auto rest = contents.subspan(done - std::min(done, head_.size()));
    const std::array<iovec, 2> parts = {iovec{const_cast<std::byte*>(head.data()), head.size()},
                                        iovec{const_cast<std::byte*>(rest.data()), rest.size()}};
    const ssize_t count = ::pwritev(file_.get(), parts.data(), parts.size(),
                                    slot * slot_bytes_ + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? std::strerror(errno) : "nothing more could be written";
    done += static_cast<size_t>(count);
  }
  return {};
}

bool BlockFile::is_whole(const Header& header) const {
  return header.magic == kMagic && header.num_tokens == options_.block_tokens &&
         header.payload_bytes == options_.payload_bytes && header.head_hash == hash_of_head();
}

/// Of head_, but for the magic and the hash itself.
Hash128 BlockFile::hash_of_head() const {
  return siphash(as_text(std::span(head_).subspan(offsetof(Header, contents_hash))), options_.seal);
}

/// Makes sure that the disk has room for a slot, or a write into a hole might fail later.
std::string BlockFile::grow(int64_t slot) {
  if (slot < num_allocated_) return {};
  const int64_t begin = num_allocated_ * slot_bytes_;
  const auto allocate = [&](int64_t num_slots) {
    const int code = ::posix_fallocate(file_.get(), begin, num_slots * slot_bytes_ - begin);
    if (code == 0) num_allocated_ = num_slots;
    return code;
  };
  const int64_t many =
      std::min(num_slots_, num_allocated_ + std::max<int64_t>(1, kGrowBytes / slot_bytes_));
  if (many > slot && allocate(many) == 0) return {};
  // The last of a disk's room may be less than that.
  const int code = allocate(slot + 1);
  return code != 0 ? std::strerror(code) : std::string();
}

/// How many bytes there were for both.
size_t BlockFile::read_at(int64_t offset, std::span<std::byte> head,
                          std::span<std::byte> contents) const {
  const size_t size = head.size() + contents.size();
  size_t done = 0;
  while (done < size) {
    const auto first = head.subspan(std::min(done, head.size()));
    const auto rest = contents.subspan(done - std::min(done, head.size()));
    const std::array<iovec, 2> parts = {iovec{first.data(), first.size()},
                                        iovec{rest.data(), rest.size()}};
    const ssize_t count =
        ::preadv(file_.get(), parts.data(), parts.size(), offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace hasten::engine
