// SPDX-License-Identifier: Apache-2.0
// Finds a model's tensors by role, checks their shapes, and hands them to the backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/layers/tensor_names.h"
#include "models/model.h"

namespace hasten::models {

/// y = W x + b for each row x.
struct Linear {
  std::unique_ptr<ops::Weight> weight;  // [out_features, in_features]
  ops::DeviceTensor bias;               // [out_features] f32, or undefined

  /// The matmul from `x` [num_tokens, in_features], or of it the rows that are named, to `out`
  /// [num_tokens or rows.size(), out_features].
  [[nodiscard]] ops::MatmulParams times(const Tensor& x, const Tensor& out,
                                        std::span<const int32_t> rows = {}) const {
    return {.weight = *weight, .x = x, .out = out, .bias = bias.view, .rows = rows};
  }
};

/// A matrix of the file, or some consecutive rows of one that several layers share (fused Q, K and
/// V): rows are outputs, so a slice of them is a view and nothing is copied.
struct LinearSource {
  TensorName name;
  int64_t layer = 0;
  int64_t out_features = 0;
  int64_t in_features = 0;
  bool bias_required = false;  // a bias that is there is used in any case
  int64_t first_row = 0;       // in the file's matrix
  int64_t file_rows = 0;       // of the file's matrix; 0: out_features
};

/// Used once, by the thread that loads. Everything is checked before the backend allocates for it.
class WeightLoader {
 public:
  WeightLoader(const weights::Checkpoint& checkpoint, ops::Backend& backend, Progress progress);

  [[nodiscard]] bool has(const TensorName& name) const;
  /// The tensor as it lies in the file, [rows, columns]. Error{invalid_data} names the tensor and
  /// what is missing, found or wanted.
  [[nodiscard]] const Tensor& matrix(const TensorName& name, int64_t layer, int64_t rows,
                                     int64_t columns);
  /// A table [rows, columns] of at least one row.
  [[nodiscard]] const Tensor& table(const TensorName& name, int64_t columns);
  [[nodiscard]] Linear linear(const LinearSource& source);
  /// A matrix that both multiplies and embeds, or only multiplies.
  [[nodiscard]] std::unique_ptr<ops::Weight> prepare(const Tensor& matrix);
  /// A table of which a token reads one row.
  [[nodiscard]] std::unique_ptr<ops::Weight> prepare_embedding(const Tensor& matrix);
  /// A norm's weights on the device as f32 [size], `offset` added to each.
  [[nodiscard]] ops::DeviceTensor norm(const TensorName& name, int64_t layer, int64_t size,
                                       float offset);

  /// Waits until all weights are ready, and warns of tensors that nothing has asked for, which may
  /// mean a model of another structure.
  void finish();

  [[nodiscard]] int64_t num_parameters() const { return num_parameters_; }
  [[nodiscard]] int64_t matmul_elements() const { return matmul_elements_; }
  [[nodiscard]] int64_t bytes_per_token() const { return bytes_per_token_; }
  [[nodiscard]] int64_t mapped_bytes() const { return mapped_bytes_; }
  /// "q4_0 (84 %), q6_k (16 %)" by bytes of matrices, largest first.
  [[nodiscard]] std::string weight_types() const;

 private:
  [[nodiscard]] std::string file_name(const TensorName& name, int64_t layer,
                                      std::string_view suffix) const;
  const Tensor* find(const std::string& file_name);
  const Tensor& require(const std::string& file_name);
  void count(const Tensor& tensor);

  const weights::Checkpoint& checkpoint_;
  ops::Backend& backend_;
  Progress progress_;
  std::string prefix_;  // what stands for "model." in the names of a Hugging Face folder
  std::set<std::string, std::less<>> used_;  // names of tensors asked for
  std::map<DType, int64_t> bytes_by_type_;
  int64_t done_bytes_ = 0;
  int64_t num_parameters_ = 0;
  int64_t matmul_elements_ = 0;
  int64_t bytes_per_token_ = 0;
  int64_t mapped_bytes_ = 0;
};

/// The numbers on the device: [values.size()] f32.
[[nodiscard]] ops::DeviceTensor upload(ops::Backend& backend, const std::vector<float>& values);

/// The numbers of a one-dimensional tensor of `size`. Error{invalid_data} when its shape is
/// another.
[[nodiscard]] std::vector<float> decode_vector(const Tensor& tensor, std::string_view name,
                                               int64_t size, const std::string& file);

}  // namespace hasten::models
