// SPDX-License-Identifier: Apache-2.0
// hasten inspect: what is in a model file, without loading it.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/inspect_text.h"
#include "cli/model_file.h"
#include "cli/words.h"
#include "server/openai_json.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"

namespace hasten::cli {
namespace {

constexpr size_t kMaxShown = 100;  // bytes of a metadata value, so that it fits on a line

struct InspectOptions {
  std::filesystem::path model;
  bool tensors = false;
  bool metadata = false;
  bool json = false;
  bool chat_template = false;
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

/// Whether a folder has text files alone, which open_checkpoint would miss the tensors of.
bool is_weightless(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) return false;
  }
  return !error;
}

/// None: the model is one file of a tokenizer, or a template's.
std::unique_ptr<const weights::Checkpoint> open(const std::filesystem::path& model) {
  if (is_vocabulary_file(model) || is_template_file(model)) return nullptr;
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored) && is_weightless(model))
    return weights::open_checkpoint(model, weights::Contents::no_weights);
  return open_model_file(model);
}

/// Whether a model has a tokenizer at all, working or not.
bool has_vocabulary(const std::filesystem::path& model, const weights::Checkpoint* checkpoint) {
  if (checkpoint == nullptr) return !is_template_file(model);
  if (checkpoint->format() == weights::Checkpoint::Format::gguf)
    return checkpoint->metadata().contains("tokenizer.ggml.model");
  return has_vocabulary_file(model);
}

/// What `checkpoint`, which has no tensors, is.
std::string weightless_name(const weights::Checkpoint& checkpoint) {
  if (checkpoint.format() == weights::Checkpoint::Format::gguf)
    return fmt::format("gguf {}, a vocabulary without weights", architecture(checkpoint));
  if (checkpoint.config() != nullptr)
    return fmt::format("folder of {} without weights (*.safetensors)", architecture(checkpoint));
  if (!has_vocabulary_file(checkpoint.path()))
    return "a chat template, without tokenizer files and weights";
  return "tokenizer files, without weights";
}

/// The whole model in one object.
json::Object summary_of(const weights::Checkpoint& checkpoint) {
  json::Object summary{
      {"path", checkpoint.path().string()},
      {"format", checkpoint.format() == weights::Checkpoint::Format::gguf ? "gguf" : "safetensors"},
      {"architecture", architecture(checkpoint)},
      {"parameters", count_parameters(checkpoint)},
      {"tensor_bytes", checkpoint.total_bytes()},
      {"tensors", checkpoint.tensors().size()}};
  for (const auto& [name, value] : model_sizes(checkpoint)) summary[name] = value;
  json::Object types;
  for (const auto& [name, bytes] : bytes_by_type(checkpoint)) types[name] = bytes;
  summary["bytes_by_type"] = types;
  json::Object values;
  for (const auto& [key, value] : checkpoint.metadata().entries())
    values[safe_text(key)] = to_json(value);
  summary["metadata"] = checkpoint.config() != nullptr ? *checkpoint.config() : values;
  json::Array list;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    json::Array dims;
    for (int axis = 0; axis < tensor.shape().rank(); ++axis) dims.push_back(tensor.dim(axis));
    list.push_back(json::Object{{"name", safe_text(name)},
                                {"type", info(tensor.dtype()).name},
                                {"shape", std::move(dims)}});
  }
  summary["tensor_list"] = std::move(list);
  return summary;
}

void print_head(const weights::Checkpoint& checkpoint) {
  if (checkpoint.tensors().empty()) {
    fmt::print("{}: {}\n", checkpoint.path().string(), weightless_name(checkpoint));
  } else {
    fmt::print("{}: {} {}, {} parameters, {} in {}\n", checkpoint.path().string(),
               checkpoint.format() == weights::Checkpoint::Format::gguf ? "gguf" : "safetensors",
               architecture(checkpoint), count_text(count_parameters(checkpoint)),
               size_text(checkpoint.total_bytes()),
               counted(std::ssize(checkpoint.tensors()), "tensor"));
  }
  for (const auto& [name, bytes] : bytes_by_type(checkpoint)) {
    fmt::print("  {:<8} {}\n", name, size_text(bytes));
  }
  for (const auto& [name, value] : model_sizes(checkpoint))
    fmt::print("{:<14} {}{}\n", name, value, name == "context" ? " tokens" : "");
}

void print_metadata(const weights::Checkpoint& checkpoint) {
  fmt::print("\n");
  for (const auto& [key, value] : checkpoint.metadata().entries()) {
    std::string text = json_text(to_json(value));
    if (text.size() > kMaxShown) {
      size_t end = kMaxShown;
      while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // whole characters
      text = text.substr(0, end) + "…";
    }
    fmt::print("{} = {}\n", safe_text(key), text);
  }
  if (const json::Object* config = checkpoint.config()) {
    for (const auto& entry : *config) {
      fmt::print("{} = {}\n", safe_text(entry.key()), json_text(entry.value()));
    }
  }
}

void print_tensors(const weights::Checkpoint& checkpoint) {
  fmt::print("\n");
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    fmt::print("{:<48} {:<7} {:<20} {}\n", safe_text(name), info(tensor.dtype()).name,
               tensor.shape().to_string(), size_text(tensor.num_bytes()));
  }
}

int inspect(const InspectOptions& options) {
  check_model(options.model, ModelUse::either);
  const auto checkpoint = open(options.model);
  // A file of weights alone is worth inspecting too: what its text side lacks is said, not fatal.
  const InspectedText text(options.model, has_vocabulary(options.model, checkpoint.get()));
  const bool is_text_alone =
      !checkpoint || (checkpoint->tensors().empty() && checkpoint->config() == nullptr &&
                      checkpoint->format() != weights::Checkpoint::Format::gguf);
  if (is_text_alone) text.check_is_any();
  if (options.chat_template) {
    text.print_template();
    return 0;
  }
  if (options.json) {
    const std::string_view format = text.has_tokenizer() ? "tokenizer" : "chat template";
    json::Object summary = is_text_alone
                               ? json::Object{{"path", options.model.string()}, {"format", format}}
                               : summary_of(*checkpoint);
    text.add_to(summary);
    fmt::print("{}\n", json_text(summary));
  } else {
    if (checkpoint) {
      print_head(*checkpoint);
    } else {
      fmt::print("{}: a {}'s file\n", options.model.string(),
                 is_template_file(options.model) ? "chat template" : "tokenizer");
    }
    text.print();
    if (checkpoint && options.metadata) print_metadata(*checkpoint);
    if (checkpoint && options.tensors) print_tensors(*checkpoint);
  }
  // What was shown is shown; but whoever asks by a script should not have to read it.
  if (const std::string fault = text.fault(); !fault.empty())
    throw Error(ErrorCode::invalid_data, fault);
  return 0;
}

}  // namespace

void add_inspect(Command program) {
  const Command command = program.add("inspect", "Show what is in a model file, or a tokenizer's");
  auto options = std::make_shared<InspectOptions>();
  command.option(
      "model MODEL", options->model,
      "A .gguf file, a Hugging Face folder, tokenizer files (a folder of them or one), or a chat "
      "template (x.jinja). Left out: the demonstration model inside this program");
  command.flag("--tensors", options->tensors, "List every tensor");
  command.flag("--metadata", options->metadata, "List the metadata");
  const Option json = command.flag("--json", options->json, "Print everything as one JSON object");
  command
      .flag("--chat-template", options->chat_template,
            "Print the chat template and nothing else, as it is in the file")
      .never_with(json);
  command.footer("Ends with 1 where a tokenizer does not work or a template does not parse.");
  command.run([options] { return inspect(*options); });
}

}  // namespace hasten::cli
