// SPDX-License-Identifier: Apache-2.0
// The list of families, and load_model, which finds the checkpoint's one in it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "models/family.h"

// One line per family; each names a function in the file of that name.
// clang-format off
#define HASTEN_FAMILIES(family) \
  family(llama)                 \
  family(mistral)               \
  family(qwen2)                 \
  family(qwen3)                 \
  family(gemma2)                \
  family(gemma3)                \
  family(phi3)
// clang-format on

namespace hasten::models {

#define HASTEN_DECLARE(name) Family name();
HASTEN_FAMILIES(HASTEN_DECLARE)
#undef HASTEN_DECLARE

namespace {

std::vector<Family> families() {
#define HASTEN_CALL(name) name(),
  return {HASTEN_FAMILIES(HASTEN_CALL)};
#undef HASTEN_CALL
}

bool is_gguf(const weights::Checkpoint& checkpoint) {
  return checkpoint.format() == weights::Checkpoint::Format::gguf;
}

Family find_family(const weights::Checkpoint& checkpoint) {
  const std::string wanted = architecture(checkpoint);
  std::vector<std::string_view> known;
  for (Family& family : families()) {
    const auto& names = is_gguf(checkpoint) ? family.gguf_architectures : family.hf_architectures;
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return std::move(family);
    known.insert(known.end(), names.begin(), names.end());
  }
  fail(ErrorCode::unsupported, "{}: architecture {} is not supported; supported are {}",
       checkpoint.path().string(), printable(wanted), fmt::join(known, ", "));
}

void check_context(const weights::Checkpoint& checkpoint, int64_t wanted, int64_t trained) {
  if (wanted < 0 || wanted > kMaxContext) {
    fail(ErrorCode::invalid_argument, "a context of {} tokens; it must be between 0 and {}", wanted,
         kMaxContext);
  }
  if (wanted > trained) {
    log::warn(
        "{}: a context of {} tokens, but the model was trained for {}; answers may get worse "
        "beyond them",
        checkpoint.path().string(), wanted, trained);
  }
}

}  // namespace

std::string architecture(const weights::Checkpoint& checkpoint) {
  const std::string file = checkpoint.path().string();
  if (is_gguf(checkpoint)) {
    if (!checkpoint.metadata().contains("general.architecture"))
      fail(ErrorCode::invalid_data, "{} has no general.architecture", file);
    return std::string(checkpoint.metadata().get_string("general.architecture"));
  }
  HASTEN_CHECK(checkpoint.config() != nullptr);
  const json::Value* names = checkpoint.config()->if_contains("architectures");
  if (names == nullptr || !names->is_array() || names->get_array().empty() ||
      !names->get_array()[0].is_string()) {
    fail(ErrorCode::invalid_data, "{}/config.json: architectures must name the model's class",
         file);
  }
  return std::string(names->get_array()[0].get_string());
}

void check_supported(const weights::Checkpoint& checkpoint) { (void)find_family(checkpoint); }

std::unique_ptr<Model> load_model(const weights::Checkpoint& checkpoint, ops::Backend& backend,
                                  const LoadOptions& options) {
  const Family family = find_family(checkpoint);
  const Hyperparameters h = read_hyperparameters(checkpoint, family.defaults);
  check_context(checkpoint, options.context, h.max_context);
  return family.build({.family = family.name,
                       .checkpoint = checkpoint,
                       .backend = backend,
                       .options = options,
                       .hyperparameters = h});
}

}  // namespace hasten::models
