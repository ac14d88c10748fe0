// SPDX-License-Identifier: Apache-2.0
// hasten inspect: what is in a model file, without loading it.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/words.h"
#include "hasten/tokenizer.h"
#include "server/openai_json.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"

extern "C" {
// The linker's names for the bytes of the built-in model.
// NOLINTBEGIN(readability-identifier-naming)
extern const unsigned char hasten_tiny_gguf[];
extern const unsigned char hasten_tiny_gguf_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace hasten::cli {
namespace {

constexpr size_t kMaxShown = 100;  // bytes of a metadata value, so that it fits on a line

struct InspectOptions {
  std::filesystem::path model;
  bool tensors = false;
  bool metadata = false;
  bool json = false;
};

/// Bytes by element type, for the summary line.
std::map<std::string_view, int64_t> bytes_by_type(const weights::Checkpoint& checkpoint) {
  std::map<std::string_view, int64_t> bytes;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    bytes[info(tensor.dtype()).name] += tensor.num_bytes();
  }
  return bytes;
}

int64_t count_parameters(const weights::Checkpoint& checkpoint) {
  int64_t count = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) count += tensor.num_elements();
  return count;
}

json::Value to_json(const weights::Value& value) {
  return std::visit(
      [&](const auto& data) -> json::Value {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return json::Value(server::to_utf8(data));
        } else if constexpr (std::is_arithmetic_v<T>) {
          return json::Value(data);
        } else {
          return json::Value(value.type_name());  // arrays are named, not listed
        }
      },
      value.data);
}

std::string architecture(const weights::Checkpoint& checkpoint) {
  if (const json::Object* config = checkpoint.config()) {
    const auto* type = config->if_contains("model_type");
    return type != nullptr && type->is_string() ? safe_text(type->as_string()) : "unknown";
  }
  return safe_text(checkpoint.metadata().get_string("general.architecture", "unknown"));
}

/// What a person asks of a model first, as far as its file says it.
json::Object dimensions(const weights::Checkpoint& checkpoint) {
  struct Dimension {
    const char* name;
    const char* gguf_key;  // behind the architecture
    const char* hf_key;
  };
  constexpr std::array<Dimension, 5> kDimensions{
      {{"context", "context_length", "max_position_embeddings"},
       {"layers", "block_count", "num_hidden_layers"},
       {"width", "embedding_length", "hidden_size"},
       {"heads", "attention.head_count", "num_attention_heads"},
       {"kv_heads", "attention.head_count_kv", "num_key_value_heads"}}};
  json::Object result;
  const std::string prefix(checkpoint.metadata().get_string("general.architecture", ""));
  for (const auto& [name, gguf_key, hf_key] : kDimensions) {
    json::Value value;
    if (const json::Object* config = checkpoint.config()) {
      const json::Value* text = config->if_contains("text_config");  // of models that see, too
      if (text != nullptr && text->is_object()) config = &text->get_object();
      if (const json::Value* found = config->if_contains(hf_key)) value = *found;
    } else {
      for (const auto& [key, found] : checkpoint.metadata().entries())
        if (key == prefix + "." + gguf_key) value = to_json(found);
    }
    if (value.is_number()) result[name] = value;
  }
  return result;
}

std::unique_ptr<const weights::Checkpoint> open(const std::filesystem::path& model) {
  if (!model.empty()) return weights::open_checkpoint(model);
  return weights::open_gguf(std::as_bytes(std::span(hasten_tiny_gguf, hasten_tiny_gguf_end)),
                            "hasten-tiny");
}

int inspect(const InspectOptions& options) {
  check_model(options.model);
  const auto checkpoint = open(options.model);
  // A file of weights alone is worth inspecting too: what its text side lacks is said, not fatal.
  std::optional<Tokenizer> tokenizer;
  std::string tokenizer_error;
  try {
    tokenizer.emplace(options.model);
  } catch (const Error& error) {
    tokenizer_error = error.what();
  }

  json::Object summary{
      {"path", checkpoint->path().string()},
      {"format",
       checkpoint->format() == weights::Checkpoint::Format::gguf ? "gguf" : "safetensors"},
      {"architecture", architecture(*checkpoint)},
      {"parameters", count_parameters(*checkpoint)},
      {"tensor_bytes", checkpoint->total_bytes()},
      {"tensors", checkpoint->tensors().size()}};
  const json::Object sizes = dimensions(*checkpoint);
  for (const auto& entry : sizes) summary[entry.key()] = entry.value();
  json::Object types;
  for (const auto& [name, bytes] : bytes_by_type(*checkpoint)) types[name] = bytes;
  summary["bytes_by_type"] = types;
  if (tokenizer) {
    summary["vocabulary"] = tokenizer->vocab_size();
    summary["chat_template"] = !tokenizer->chat_template().empty();
    summary["template_capabilities"] = tokenizer->template_capabilities();
  } else {
    summary["tokenizer_error"] = tokenizer_error;
  }

  if (options.json) {
    json::Object values;
    for (const auto& [key, value] : checkpoint->metadata().entries())
      values[safe_text(key)] = to_json(value);
    summary["metadata"] = checkpoint->config() != nullptr ? *checkpoint->config() : values;
    json::Array list;
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      json::Array dims;
      for (int axis = 0; axis < tensor.shape().rank(); ++axis) dims.push_back(tensor.dim(axis));
      list.push_back(json::Object{{"name", safe_text(name)},
                                  {"type", info(tensor.dtype()).name},
                                  {"shape", std::move(dims)}});
    }
    summary["tensor_list"] = std::move(list);
    fmt::print("{}\n", json_text(summary));
    return 0;
  }

  fmt::print("{}: {} {}, {} parameters, {} in {}\n", checkpoint->path().string(),
             std::string_view(summary["format"].as_string()), architecture(*checkpoint),
             count_text(count_parameters(*checkpoint)), size_text(checkpoint->total_bytes()),
             counted(std::ssize(checkpoint->tensors()), "tensor"));
  for (const auto& [name, bytes] : bytes_by_type(*checkpoint)) {
    fmt::print("  {:<8} {}\n", name, size_text(bytes));
  }
  for (const auto& entry : sizes) {
    const std::string_view unit = entry.key() == "context" ? " tokens" : "";
    fmt::print("{:<14} {}{}\n", std::string_view(entry.key()), json_text(entry.value()), unit);
  }
  if (tokenizer) {
    fmt::print("vocabulary     {} tokens\n", tokenizer->vocab_size());
    fmt::print("chat template  {}\n", tokenizer->chat_template().empty()
                                          ? "none (ChatML stands in)"
                                          : tokenizer->template_capabilities());
  } else {
    fmt::print("tokenizer      {}\n", tokenizer_error);
  }
  if (options.metadata) {
    fmt::print("\n");
    for (const auto& [key, value] : checkpoint->metadata().entries()) {
      std::string text = json_text(to_json(value));
      if (text.size() > kMaxShown) {
        size_t end = kMaxShown;
        while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // whole characters
        text = text.substr(0, end) + "…";
      }
      fmt::print("{} = {}\n", safe_text(key), text);
    }
    if (const json::Object* config = checkpoint->config()) {
      for (const auto& entry : *config) {
        fmt::print("{} = {}\n", safe_text(entry.key()), json_text(entry.value()));
      }
    }
  }
  if (options.tensors) {
    fmt::print("\n");
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      fmt::print("{:<48} {:<7} {:<20} {}\n", safe_text(name), info(tensor.dtype()).name,
                 tensor.shape().to_string(), size_text(tensor.num_bytes()));
    }
  }
  return 0;
}

}  // namespace

void add_inspect(Command program) {
  const Command command = program.add("inspect", "Show what is in a model file");
  auto options = std::make_shared<InspectOptions>();
  command.option(
      "model MODEL", options->model,
      "A .gguf file or a Hugging Face folder. Left out: the demonstration model inside this "
      "program");
  command.flag("--tensors", options->tensors, "List every tensor");
  command.flag("--metadata", options->metadata, "List the metadata");
  command.flag("--json", options->json, "Print everything as one JSON object");
  command.run([options] { return inspect(*options); });
}

}  // namespace hasten::cli
