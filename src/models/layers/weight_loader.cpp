// SPDX-License-Identifier: Apache-2.0
// Weights by role: names, shapes, preparation, and the sums over them that describe the model.
#include "models/layers/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "models/layers/hyperparameters.h"
#include "quant/codec.h"

namespace hasten::models {
namespace {

constexpr std::string_view kModelPrefix = "model.";

/// A multimodal folder keeps its language model under one of several names.
std::string find_prefix(const weights::Checkpoint& checkpoint) {
  for (const std::string_view prefix : {kModelPrefix, std::string_view("language_model.model."),
                                        std::string_view("model.language_model.")}) {
    if (checkpoint.find(std::string(prefix) + "embed_tokens.weight") != nullptr)
      return std::string(prefix);
  }
  return std::string(kModelPrefix);
}

void check_shape(const Tensor& tensor, std::string_view name, const Shape& wanted,
                 const std::string& file) {
  if (tensor.shape() != wanted) {
    fail(ErrorCode::invalid_data,
         "{}: tensor {} is {}; by the model's hyperparameters it must be {}", file, name,
         tensor.shape().to_string(), wanted.to_string());
  }
  if (!quant::has_codec(tensor.dtype())) {
    fail(ErrorCode::unsupported, "{}: tensor {} is of type {}, which is not a type of weights",
         file, name, info(tensor.dtype()).name);
  }
}

}  // namespace

ops::DeviceTensor upload(ops::Backend& backend, const std::vector<float>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  ops::DeviceTensor result = backend.allocate(DType::f32, shape);
  backend.upload(Tensor(values.data(), DType::f32, shape), result.view);
  return result;
}

std::vector<float> decode_vector(const Tensor& tensor, std::string_view name, int64_t size,
                                 const std::string& file) {
  check_shape(tensor, name, Shape{size}, file);
  std::vector<float> values(static_cast<size_t>(size));
  quant::decode_row(tensor.dtype(), tensor.data(), values.data(), size);
  return values;
}

WeightLoader::WeightLoader(const weights::Checkpoint& checkpoint, ops::Backend& backend,
                           Progress progress)
    : checkpoint_(checkpoint),
      backend_(backend),
      progress_(std::move(progress)),
      prefix_(find_prefix(checkpoint)) {}

std::string WeightLoader::file_name(const TensorName& name, int64_t layer,
                                    std::string_view suffix) const {
  const bool gguf = checkpoint_.format() == weights::Checkpoint::Format::gguf;
  std::string result =
      fmt::format(fmt::runtime(gguf ? name.gguf : name.hugging_face), layer).append(suffix);
  if (!gguf && result.starts_with(kModelPrefix)) result.replace(0, kModelPrefix.size(), prefix_);
  return result;
}

const Tensor* WeightLoader::find(const std::string& file_name) {
  const Tensor* tensor = checkpoint_.find(file_name);
  if (tensor != nullptr) used_.insert(file_name);
  return tensor;
}

bool WeightLoader::has(const TensorName& name) const {
  return checkpoint_.find(file_name(name, 0, ".weight")) != nullptr;
}

const Tensor& WeightLoader::require(const std::string& file_name) {
  const Tensor* tensor = find(file_name);
  if (tensor == nullptr) {
    fail(ErrorCode::invalid_data, "{} has no tensor {}", checkpoint_.path().string(), file_name);
  }
  return *tensor;
}

const Tensor& WeightLoader::matrix(const TensorName& name, int64_t layer, int64_t rows,
                                   int64_t columns) {
  const std::string wanted = file_name(name, layer, ".weight");
  const Tensor& tensor = require(wanted);
  check_shape(tensor, wanted, Shape{rows, columns}, checkpoint_.path().string());
  return tensor;
}

const Tensor& WeightLoader::table(const TensorName& name, int64_t columns) {
  const std::string wanted = file_name(name, 0, ".weight");
  const Shape& shape = require(wanted).shape();
  if (shape.rank() != 2 || shape[1] != columns || shape[0] < 1 || shape[0] > kMaxVocab) {
    fail(ErrorCode::invalid_data, "{}: tensor {} is {}; it must have 1 to {} rows of {}",
         checkpoint_.path().string(), wanted, shape.to_string(), kMaxVocab, columns);
  }
  return matrix(name, 0, shape[0], columns);
}

Linear WeightLoader::linear(const LinearSource& source) {
  const int64_t file_rows = source.file_rows == 0 ? source.out_features : source.file_rows;
  const Tensor& whole = matrix(source.name, source.layer, file_rows, source.in_features);
  Linear result;
  result.weight = prepare(whole.slice(source.first_row, source.out_features));

  const std::string bias = file_name(source.name, source.layer, ".bias");
  if (source.bias_required) require(bias);
  if (const Tensor* tensor = find(bias)) {
    const std::vector<float> values =
        decode_vector(*tensor, bias, file_rows, checkpoint_.path().string());
    const auto begin = values.begin() + source.first_row;
    result.bias = upload(backend_, {begin, begin + source.out_features});
    num_parameters_ += source.out_features;
  }
  return result;
}

std::unique_ptr<ops::Weight> WeightLoader::prepare(const Tensor& matrix) {
  auto weight = backend_.prepare_weight(matrix);
  matmul_elements_ += matrix.num_elements();
  bytes_per_token_ += matrix.num_bytes();
  if (!weight->is_packed()) mapped_bytes_ += matrix.num_bytes();
  count(matrix);
  return weight;
}

std::unique_ptr<ops::Weight> WeightLoader::prepare_embedding(const Tensor& matrix) {
  auto weight = backend_.prepare_embedding(matrix);
  count(matrix);
  return weight;
}

ops::DeviceTensor WeightLoader::norm(const TensorName& name, int64_t layer, int64_t size,
                                     float offset) {
  const std::string wanted = file_name(name, layer, ".weight");
  std::vector<float> values =
      decode_vector(require(wanted), wanted, size, checkpoint_.path().string());
  for (float& value : values) value += offset;
  num_parameters_ += size;
  return upload(backend_, values);
}

void WeightLoader::count(const Tensor& tensor) {
  num_parameters_ += tensor.num_elements();
  bytes_by_type_[tensor.dtype()] += tensor.num_bytes();
  done_bytes_ += tensor.num_bytes();
  if (progress_) progress_(done_bytes_, checkpoint_.total_bytes());
}

void WeightLoader::finish() {
  backend_.synchronize();
  if (progress_) progress_(checkpoint_.total_bytes(), checkpoint_.total_bytes());
  // The other halves of multimodal models, and tables that are computed anew, are no surprise.
  int64_t unused = 0;
  std::string_view first;
  for (const weights::NamedTensor& entry : checkpoint_.tensors()) {
    const std::string_view name = entry.name;
    const bool expected = name.starts_with("rope_") || name.ends_with("rotary_emb.inv_freq") ||
                          name.find("vision") != name.npos ||
                          name.find("multi_modal_projector") != name.npos;
    if (expected || used_.contains(name)) continue;
    if (unused++ == 0) first = name;
  }
  if (unused > 0) {
    log::warn("{}: {} tensors are not used, {} the first of them; is it of another structure?",
              checkpoint_.path().string(), unused, printable(first));
  }
}

std::string WeightLoader::weight_types() const {
  std::vector<std::pair<int64_t, DType>> types;
  int64_t total = 0;
  for (const auto& [dtype, bytes] : bytes_by_type_) {
    types.emplace_back(bytes, dtype);
    total += bytes;
  }
  std::sort(types.begin(), types.end(), std::greater<>());
  std::string result;
  for (const auto& [bytes, dtype] : types) {
    result += fmt::format("{}{} ({:.0f} %)", result.empty() ? "" : ", ", info(dtype).name,
                          100.0 * static_cast<double>(bytes) / static_cast<double>(total));
  }
  return result;
}

}  // namespace hasten::models
