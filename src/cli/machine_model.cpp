// SPDX-License-Identifier: Apache-2.0
// Step costs by arithmetic from peaks, and their file.
#include "cli/machine_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/quantity.h"
#include "cli/roofline.h"
#include "cli/words.h"
#include "tensor/dtype.h"
#include "weights/synth.h"
#include "weights/synth/shapes.h"

namespace hasten::cli {
namespace {

/// A graphics card by its data sheet. Weights of fewer bits are computed in bf16 there.
struct Card {
  std::string_view name;
  std::string_view title;
  double read_bytes_per_second;
  double bf16_flops_per_second;  // dense
  double memory_bytes;
};

constexpr std::array kCards = {
    Card{"a100", "A100-like (SXM, 80 GB: 2.04 TB/s, 312 Tflop/s)", 2.039e12, 312e12, 80e9},
    Card{"h200", "H200-like (SXM, 141 GB: 4.8 TB/s, 989 Tflop/s)", 4.8e12, 989e12, 141e9}};

constexpr double kMemoryShare = 0.9;  // of a card's memory: weights, keys and values
constexpr int64_t kCardContext = 32768;
constexpr int64_t kCardStepTokens = 2048;
constexpr int32_t kCardMaxBatch = 256;

ModelInfo model_of(const weights::synthetic::ModelShape& shape, DType type) {
  const int64_t attention = shape.head_dim * (2 * shape.num_heads + 2 * shape.num_kv_heads);
  const int64_t layer = shape.hidden * (attention + 3 * shape.feed_forward);
  const int64_t output = shape.hidden * shape.vocabulary_size;
  const int64_t weights = shape.num_layers * layer + output;
  const auto bytes = [type](int64_t count) {
    const DTypeInfo& about = info(type);
    return count / about.block_size * about.block_bytes;
  };
  ModelInfo model;
  model.name = shape.name;
  model.weight_types = info(type).name;
  model.context = shape.context;
  model.num_layers = shape.num_layers;
  model.vocab_size = shape.vocabulary_size;
  model.num_parameters = weights + (shape.tied_output ? 0 : output);
  model.weight_bytes = bytes(model.num_parameters);
  model.bytes_per_token = bytes(weights);
  model.ops_per_token = 2 * weights;
  model.output_ops_per_token = 2 * output;
  model.last_layer_ops_per_token =
      2 * shape.hidden * (2 * shape.head_dim * shape.num_heads + 3 * shape.feed_forward);
  model.attention_ops_per_token_key = 4 * shape.num_layers * shape.num_heads * shape.head_dim;
  model.kv_bytes_per_token = 4 * shape.num_layers * shape.num_kv_heads * shape.head_dim;  // bf16
  return model;
}

/// A step by the roofline: the weights are read while tokens are computed; the output matrix works
/// for one token of each sequence, and the last layer, to be careful, for all of them.
StepCosts costs_of(const ModelInfo& model, const Ceilings& ceilings, double efficiency) {
  const double us_per_byte = 1e6 / (ceilings.read_bytes_per_second * efficiency);
  const double us_per_op = 1e6 / (peak_ops_per_second(model, ceilings) * efficiency);
  StepCosts costs;
  costs.base_us = static_cast<double>(model.bytes_per_token) * us_per_byte;
  costs.us_per_token =
      static_cast<double>(model.ops_per_token - model.output_ops_per_token) * us_per_op;
  costs.free_tokens = costs.base_us / costs.us_per_token;
  costs.us_per_sequence = static_cast<double>(model.output_ops_per_token) * us_per_op;
  costs.us_per_key_read = static_cast<double>(model.kv_bytes_per_token) * us_per_byte;
  costs.us_per_key_product = static_cast<double>(model.attention_ops_per_token_key) * us_per_op;
  return costs;
}

/// What a field of a calibration may be; what is beyond is no machine, and would overflow.
struct Range {
  double least;
  double most;
};
constexpr Range kCost = {0, 1e9};  // microseconds, or tokens
constexpr Range kPeak = {1, 1e18};
constexpr Range kWork = {1, 0x1p50};  // bytes or operations
constexpr Range kTokens = {1, INT32_MAX};

// The fields of a calibration, each once for writing and reading.
template <class Visit>
void visit_fields(MachineModel& machine, Visit visit) {
  StepCosts& costs = machine.options.costs;
  visit("costs", "base_us", costs.base_us, kCost);
  visit("costs", "free_tokens", costs.free_tokens, kCost);
  visit("costs", "us_per_token", costs.us_per_token, kCost);
  visit("costs", "us_per_sequence", costs.us_per_sequence, kCost);
  visit("costs", "us_per_key_read", costs.us_per_key_read, kCost);
  visit("costs", "us_per_key_product", costs.us_per_key_product, kCost);
  Ceilings& ceilings = machine.ceilings;
  visit("ceilings", "read_bytes_per_second", ceilings.read_bytes_per_second, kPeak);
  visit("ceilings", "int8_ops_per_second", ceilings.int8_ops_per_second, kPeak);
  visit("ceilings", "int4_ops_per_second", ceilings.int4_ops_per_second, kPeak);
  visit("ceilings", "bf16_flops_per_second", ceilings.bf16_flops_per_second, Range{0, kPeak.most});
  visit("ceilings", "f32_flops_per_second", ceilings.f32_flops_per_second, kPeak);
  ModelInfo& model = machine.model;
  visit("model", "bytes_per_token", model.bytes_per_token, kWork);
  visit("model", "operations_per_token", model.ops_per_token, kWork);
  visit("model", "output_operations_per_token", model.output_ops_per_token, kWork);
  visit("model", "last_layer_operations_per_token", model.last_layer_ops_per_token,
        Range{0, kWork.most});
  visit("model", "num_layers", model.num_layers, Range{0, kTokens.most});
  visit("model", "attention_operations_per_token_key", model.attention_ops_per_token_key, kWork);
  visit("model", "kv_bytes_per_token", model.kv_bytes_per_token, Range{1, 0x1p32});
  visit("model", "vocab_size", model.vocab_size, kTokens);
  SimulatorOptions& sizes = machine.options;
  visit("sizes", "block_size", sizes.block_size, Range{1, 1 << 16});
  visit("sizes", "num_kv_blocks", sizes.num_kv_blocks, Range{1, kMaxSimulatedKvBlocks});
  visit("sizes", "context", sizes.context, kTokens);
  visit("sizes", "step_tokens", sizes.step_tokens, kTokens);
  visit("sizes", "max_batch", sizes.max_batch, kTokens);
}

/// A simulation is off by about as much as the fit.
void warn_of_fit(double mean_error) {
  constexpr double kUsableError = 0.2;
  if (mean_error <= kUsableError) return;
  log::warn(
      "the calibration's mean error is {:.0f} %, and what it predicts will be as far off: "
      "calibrate anew while nothing else runs, with more requests, of various lengths",
      100 * mean_error);
}

}  // namespace

MachineModel peak_machine(const PeakMachine& peaks) {
  const weights::synthetic::ModelShape& shape = weights::synthetic::find_shape(peaks.shape);
  const DType type = weights::synth_type(peaks.type, peaks.type_flag);
  const std::string_view machine = peaks.machine;
  const double efficiency = peaks.efficiency;
  MachineModel result;
  result.model = model_of(shape, type);
  SimulatorOptions& options = result.options;
  double cache_bytes = 0;
  const auto card = std::find_if(kCards.begin(), kCards.end(),
                                 [&](const Card& known) { return known.name == machine; });
  if (machine == "here") {
    const Machine here = describe_machine();
    result.machine = here.cpu;
    result.basis = fmt::format("{:.0f} % of the ceilings measured here", 100 * efficiency);
    // Once: models that are compared are to run on the same machine.
    static const Ceilings ceilings = measure_ceilings();
    result.ceilings = ceilings;
    cache_bytes = static_cast<double>(here.available_bytes - result.model.weight_bytes) * 0.6;
    options.context = std::min<int64_t>(shape.context, 8192);
  } else if (card != kCards.end()) {
    result.machine = card->title;
    result.basis = fmt::format("{:.0f} % of published peaks", 100 * efficiency);
    result.ceilings = {.read_bytes_per_second = card->read_bytes_per_second,
                       .int8_ops_per_second = card->bf16_flops_per_second,
                       .int4_ops_per_second = card->bf16_flops_per_second,
                       .bf16_flops_per_second = card->bf16_flops_per_second,
                       .f32_flops_per_second = card->bf16_flops_per_second};
    cache_bytes =
        card->memory_bytes * kMemoryShare - static_cast<double>(result.model.weight_bytes);
    options.context = std::min(shape.context, kCardContext);
    options.step_tokens = kCardStepTokens;
    options.max_batch = kCardMaxBatch;
  } else {
    const bool takes_file = peaks.machine_flag == "--machine";
    fail_param("machine", "{} {} is {}", peaks.machine_flag, machine,
               takes_file ? "neither here, a100, h200 nor a file" : "none of here, a100, h200");
  }
  const auto block_bytes = static_cast<double>(result.model.kv_bytes_per_token) *
                           static_cast<double>(options.block_size);
  options.num_kv_blocks = static_cast<int64_t>(std::max(0.0, cache_bytes) / block_bytes);
  options.costs = costs_of(result.model, result.ceilings, efficiency);
  return result;
}

void check_memory(const MachineModel& machine, int64_t tokens, int64_t asked_bytes,
                  std::string_view ways_out) {
  const int64_t fit = machine.options.num_kv_blocks * machine.options.block_size;
  if (tokens <= fit) return;
  const double bytes_per_token = static_cast<double>(machine.model.kv_bytes_per_token);
  const auto bytes = [&](int64_t count) {  // of as long a context as a flag may ask for, too
    return static_cast<int64_t>(std::min(bytes_per_token * static_cast<double>(count), 0x1p62));
  };
  fail(ErrorCode::resource_exhausted,
       "keys and values of one sequence of {} take {}, but the cache has {}, enough for {}: {}",
       counted(tokens, "token"), size_text(bytes(tokens)),
       size_text(asked_bytes > 0 ? asked_bytes : bytes(fit)), counted(fit, "token"), ways_out);
}

SimulatorOptions simulated_sizes(const ModelInfo& model, int32_t block_size) {
  SimulatorOptions options;
  options.block_size = block_size;
  options.num_kv_blocks = model.kv_cache_bytes / (model.kv_bytes_per_token * block_size);
  options.context = std::min(model.context, options.num_kv_blocks * block_size);
  options.step_tokens = model.step_tokens;
  options.max_batch = model.max_batch;
  return options;
}

StepCostFit write_calibration(const std::filesystem::path& path, const MachineModel& measured,
                              std::span<const StepRecord> steps) {
  const StepCostFit fit = fit_step_costs(steps);
  MachineModel machine = measured;
  machine.options.costs = fit.costs;
  json::Object object = {{"machine", machine.machine},
                         {"steps", steps.size()},
                         {"mean_error", fit.mean_error},
                         {"model", json::Object{{"name", machine.model.name},
                                                {"weight_types", machine.model.weight_types}}},
                         {"costs", json::Object()},
                         {"ceilings", json::Object()},
                         {"sizes", json::Object()}};
  visit_fields(machine, [&](std::string_view part, std::string_view field, const auto& value,
                            const Range&) { object[part].as_object()[field] = value; });
  std::ofstream out(path, std::ios::trunc);
  out << json_text(object) << '\n';
  out.close();
  if (!out) fail(ErrorCode::io, "cannot write {}", path.string());
  warn_of_fit(fit.mean_error);
  return fit;
}

void check_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(path, ignored);
  if (!std::ofstream(path, std::ios::app))  // what it holds stays
    fail(ErrorCode::io, "cannot write {}", path.string());
  if (is_new) std::filesystem::remove(path, ignored);  // or a run that fails leaves it, empty
}

MachineModel read_calibration(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string name = path.string();
  const json::Value value =
      json::parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, name);
  const auto look_for = [&](std::string_view part, std::string_view field) -> const json::Value* {
    const json::Object* object = value.if_object();
    const json::Value* inner = object != nullptr ? object->if_contains(part) : nullptr;
    return inner != nullptr && inner->is_object() ? inner->get_object().if_contains(field)
                                                  : nullptr;
  };
  const auto find = [&](std::string_view part, std::string_view field) -> const json::Value& {
    const json::Value* found = look_for(part, field);
    if (found == nullptr)
      fail(ErrorCode::invalid_data,
           "{} is no calibration: {}.{} is missing; hasten bench replay --calibrate writes one",
           name, part, field);
    return *found;
  };
  const auto text = [&](const json::Value* found) {
    return found != nullptr && found->is_string() ? safe_text(found->get_string()) : std::string();
  };
  MachineModel machine;
  visit_fields(machine, [&](std::string_view part, std::string_view field, auto& result,
                            const Range& range) {
    // What calibrations did not always have: one peak of two; the layer that does not work for all
    // tokens of a prompt.
    const bool is_there = look_for(part, field) != nullptr;
    if (!is_there && (field == "last_layer_operations_per_token" || field == "num_layers")) return;
    const bool has_one = !is_there && field == "int4_ops_per_second";
    const json::Value& number = find(part, has_one ? "int8_ops_per_second" : field);
    if (!number.is_number())
      fail(ErrorCode::invalid_data, "{} is no calibration: {}.{} is no number", name, part, field);
    const auto read = number.to_number<double>();
    if (!(read >= range.least && read <= range.most))
      fail(ErrorCode::invalid_data, "{} is no calibration: {}.{} is {}; it must be from {} to {}",
           name, part, field, read, range.least, range.most);
    result = static_cast<std::remove_reference_t<decltype(result)>>(read);
  });
  machine.machine = text(value.as_object().if_contains("machine"));
  machine.model.name = text(&find("model", "name"));
  machine.model.weight_types = text(&find("model", "weight_types"));
  const json::Value* error = value.as_object().if_contains("mean_error");
  machine.basis = "fitted to measured steps";
  if (error != nullptr && error->is_number()) {
    machine.basis += fmt::format(", mean error {:.1f} %", 100 * error->to_number<double>());
    warn_of_fit(error->to_number<double>());
  }
  return machine;
}

}  // namespace hasten::cli
