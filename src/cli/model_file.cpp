// SPDX-License-Identifier: Apache-2.0
// Sizes by the names that GGUF and Hugging Face have for them.
#include "cli/model_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/error.h"
#include "base/json.h"

extern "C" {
// The linker's names for the bytes of the built-in model.
// NOLINTBEGIN(readability-identifier-naming)
extern const unsigned char hasten_tiny_gguf[];
extern const unsigned char hasten_tiny_gguf_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace hasten::cli {
namespace {

std::optional<int64_t> whole(const weights::Value& value) {
  const auto* number = std::get_if<uint64_t>(&value.data);
  if (number != nullptr && *number <= static_cast<uint64_t>(INT64_MAX))
    return static_cast<int64_t>(*number);
  if (const auto* with_sign = std::get_if<int64_t>(&value.data)) return *with_sign;
  return std::nullopt;
}

std::optional<int64_t> whole(const json::Value& value) {
  if (value.is_int64()) return value.get_int64();
  return std::nullopt;
}

/// Of the sizes that both files tell the first in which they differ.
struct Difference {
  std::string_view name;
  int64_t value = 0;
  int64_t other = 0;
};

std::optional<int64_t> size_of(const std::vector<ModelSize>& sizes, std::string_view name) {
  const auto found = std::ranges::find(sizes, name, &ModelSize::name);
  return found != sizes.end() ? std::optional(found->value) : std::nullopt;
}

/// The sizes that make one model of two files, those that follow from others worked out. How long a
/// context may be differs from one conversion to another.
std::vector<ModelSize> identity(const weights::Checkpoint& checkpoint) {
  std::vector<ModelSize> sizes = model_sizes(checkpoint);
  std::erase_if(sizes, [](const ModelSize& size) {
    return size.name == "head_dim" || size.name == "context";
  });
  if (const int64_t head_dim = head_dim_of(checkpoint); head_dim > 0)
    sizes.push_back({"head_dim", head_dim});
  for (const char* name : {"token_embd.weight", "model.embed_tokens.weight"})
    if (const Tensor* embedding = checkpoint.find(name); embedding != nullptr)
      sizes.push_back({"vocabulary", embedding->dim(0)});
  return sizes;
}

std::optional<Difference> difference(const std::vector<ModelSize>& sizes,
                                     const std::vector<ModelSize>& others) {
  for (const ModelSize& size : sizes) {
    const std::optional<int64_t> other = size_of(others, size.name);
    if (other && *other != size.value) return Difference{size.name, size.value, *other};
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<const weights::Checkpoint> open_model_file(const std::filesystem::path& model) {
  if (!model.empty()) return weights::open_checkpoint(model);
  return weights::open_gguf(std::as_bytes(std::span(hasten_tiny_gguf, hasten_tiny_gguf_end)),
                            "hasten-tiny");
}

std::vector<ModelSize> model_sizes(const weights::Checkpoint& checkpoint) {
  struct Name {
    std::string_view name;
    const char* gguf_key;  // behind the architecture
    const char* hf_key;
  };
  constexpr std::array<Name, 6> kNames{
      {{"context", "context_length", "max_position_embeddings"},
       {"layers", "block_count", "num_hidden_layers"},
       {"width", "embedding_length", "hidden_size"},
       {"heads", "attention.head_count", "num_attention_heads"},
       {"kv_heads", "attention.head_count_kv", "num_key_value_heads"},
       {"head_dim", "attention.key_length", "head_dim"}}};
  std::vector<ModelSize> sizes;
  const std::string prefix(checkpoint.metadata().get_string("general.architecture", ""));
  for (const auto& [name, gguf_key, hf_key] : kNames) {
    std::optional<int64_t> value;
    if (const json::Object* config = checkpoint.config()) {
      const json::Value* text = config->if_contains("text_config");  // of models that see, too
      if (text != nullptr && text->is_object()) config = &text->get_object();
      if (const json::Value* found = config->if_contains(hf_key)) value = whole(*found);
    } else if (const weights::Value* found = checkpoint.metadata().find(prefix + "." + gguf_key)) {
      value = whole(*found);
    }
    if (value) sizes.push_back({name, *value});
  }
  return sizes;
}

int64_t head_dim_of(const weights::Checkpoint& checkpoint) {
  const std::vector<ModelSize> sizes = model_sizes(checkpoint);
  if (const auto told = size_of(sizes, "head_dim")) return *told;
  const int64_t heads = size_of(sizes, "heads").value_or(0);
  return heads > 0 ? size_of(sizes, "width").value_or(0) / heads : 0;
}

void check_same_model(const weights::Checkpoint& model, const weights::Checkpoint& quantized) {
  if (const auto differs = difference(identity(quantized), identity(model)))
    fail_param("quantized",
               "--quantized is to be the same model in fewer bits, but {} of {} is {}, and of {} "
               "{}",
               differs->name, quantized.path().string(), differs->value, model.path().string(),
               differs->other);
}

}  // namespace hasten::cli
