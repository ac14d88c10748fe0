// SPDX-License-Identifier: Apache-2.0
// A model's file as it can be asked without loading it: its tensors, and its sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "weights/checkpoint.h"

namespace hasten::cli {

/// Empty: the model inside this program. Throws as weights::open_checkpoint.
std::unique_ptr<const weights::Checkpoint> open_model_file(const std::filesystem::path& model);

struct ModelSize {
  std::string_view name;  // "context", "layers", "width", "heads", "kv_heads" or "head_dim"
  int64_t value = 0;
};

/// Those that the file tells, in this order.
std::vector<ModelSize> model_sizes(const weights::Checkpoint& checkpoint);

/// Elements of a key of one head: told, or what the heads have of the width; 0: not known.
int64_t head_dim_of(const weights::Checkpoint& checkpoint);

/// Throws Error{invalid_argument} when the sizes of `quantized`, as far as both files tell them, or
/// the rows of its embedding are not those of `model`.
void check_same_model(const weights::Checkpoint& model, const weights::Checkpoint& quantized);

}  // namespace hasten::cli
