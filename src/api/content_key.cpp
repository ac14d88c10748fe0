// SPDX-License-Identifier: Apache-2.0
// A hash of metadata, of samples of the weights, and of what tells their files from others.
#include "api/content_key.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/json.h"
#include "base/siphash.h"

namespace hasten::api {
namespace {

// A tensor of up to a megabyte is read whole; of a larger one 16 pages, some milliseconds for the
// tensors of a large model.
constexpr size_t kWholeBytes = size_t{1} << 20;
constexpr size_t kNumSamples = 16;
constexpr size_t kSampleBytes = 4096;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The hash of all that was added, in its order.
class Content {
 public:
  void add(std::string_view text) { hash_ = siphash(text, hash_); }
  void add(const Tensor& tensor) {
    for (int axis = 0; axis < tensor.shape().rank(); ++axis)
      add(fmt::format("{}", tensor.shape()[axis]));
    add(info(tensor.dtype()).name);
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(tensor.data()),
                                           static_cast<size_t>(tensor.num_bytes()));
    if (bytes.size() <= kWholeBytes) return add(as_text(bytes));
    for (size_t i = 0; i < kNumSamples; ++i)
      add(as_text(
          bytes.subspan((bytes.size() - kSampleBytes) / (kNumSamples - 1) * i, kSampleBytes)));
  }
  void add(const weights::Metadata::Entry& entry) {
    // Lists of texts are vocabularies, which change no key and no value.
    add(entry.key);
    std::visit(
        [&](const auto& value) {
          using Type = std::decay_t<decltype(value)>;
          if constexpr (std::is_arithmetic_v<Type>)
            add(fmt::format("{}", value));
          else if constexpr (std::is_same_v<Type, std::string_view>)
            add(value);
          else if constexpr (std::is_same_v<Type, weights::NumberArray>)
            add(as_text(value.bytes));
        },
        entry.value.data);
  }
  std::string text() const { return fmt::format("{:016x}{:016x}", hash_.high, hash_.low); }

 private:
  Hash128 hash_;
};

}  // namespace

std::string content_key(const weights::Checkpoint& checkpoint) {
  Content content;
  for (const weights::Metadata::Entry& entry : checkpoint.metadata().entries()) content.add(entry);
  if (const json::Object* config = checkpoint.config()) content.add(json::serialize(*config));
  for (const weights::NamedTensor& named : checkpoint.tensors()) {
    content.add(named.name);
    content.add(named.tensor);
  }
  for (const FileStamp& file : checkpoint.weight_files())
    content.add(
        fmt::format("{} {} {} {}", file.inode, file.num_bytes, file.written_ns, file.changed_ns));
  return content.text();
}

}  // namespace hasten::api
