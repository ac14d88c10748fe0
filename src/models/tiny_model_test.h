// SPDX-License-Identifier: Apache-2.0
// Small random models for tests, each written as a Hugging Face folder and as the GGUF file that
// the usual converter would make of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tensor/tensor.h"

namespace hasten::models {

struct TinyTensor {
  std::string name;  // in the Hugging Face folder
  Shape shape;
  std::vector<float> values;
};

/// A config.json and random tensors that fit it.
struct TinyModel {
  json::Object config;
  std::vector<TinyTensor> tensors;

  /// Random weights for a config that states every size; the same seed gives the same ones.
  static TinyModel random(std::string_view config, uint64_t seed);

  TinyTensor& tensor(std::string_view name);
  void write_folder(const std::filesystem::path& folder) const;
  /// Metadata, names, order of rows and norms as GGUF has them. Kinds of RoPE scaling that GGUF
  /// cannot express are left out, and so are windows that the converter does not write.
  void write_gguf(const std::filesystem::path& file) const;
};

}  // namespace hasten::models
