// SPDX-License-Identifier: Apache-2.0
// What a family of models is: its names, what its files leave out, and how it is built.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "models/layers/decoder.h"
#include "models/layers/hyperparameters.h"
#include "models/model.h"

namespace hasten::models {

/// Each family is defined by a function of its name, in the file of its name, and listed in
/// registry.cpp.
struct Family {
  std::string_view name;
  std::vector<std::string_view> gguf_architectures;  // general.architecture
  std::vector<std::string_view> hf_architectures;    // architectures[0] in config.json
  Hyperparameters defaults;                          // of what its files may leave out
  std::unique_ptr<Model> (*build)(const BuildInput& input);
};

}  // namespace hasten::models
