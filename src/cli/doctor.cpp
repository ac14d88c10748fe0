// SPDX-License-Identifier: Apache-2.0
// hasten doctor: what this machine is, which models fit, and how fast they can be.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/words.h"
#include "hasten/machine.h"
#include "tensor/dtype.h"
#include "weights/synth/shapes.h"

namespace hasten::cli {
namespace {

using weights::synthetic::ModelShape;

// The types that people choose between: smallest that stays good, safe, and as trained.
constexpr std::array kTypes{DType::q4_0, DType::q8_0, DType::bf16};
constexpr int64_t kContext = 4096;  // tokens of keys and values that "fits" includes
constexpr int64_t kKvElementBytes = 2;

/// Elements of the matrices that every token is multiplied with, output included.
int64_t matmul_elements(const ModelShape& shape) {
  const int64_t attention =
      2 * shape.hidden * (shape.num_heads + shape.num_kv_heads) * shape.head_dim;
  const int64_t mlp = 3 * shape.hidden * shape.feed_forward;
  return shape.num_layers * (attention + mlp) + shape.vocabulary_size * shape.hidden;
}

struct Forecast {
  const ModelShape* shape = nullptr;
  DType type = DType::q4_0;
  int64_t bytes = 0;  // weights, and keys and values of kContext tokens
  bool fits = false;
  double decode_limit = 0;  // tokens/s for one user behind kContext tokens, by the bandwidth
};

Forecast forecast(const ModelShape& shape, DType type, const Machine& machine,
                  const Ceilings& ceilings) {
  const DTypeInfo& dtype = info(type);
  const auto bytes_of = [&](int64_t elements) {
    return elements / dtype.block_size * dtype.block_bytes;
  };
  const int64_t read_per_token = bytes_of(matmul_elements(shape));
  const int64_t embedding = shape.tied_output ? 0 : bytes_of(shape.vocabulary_size * shape.hidden);
  const int64_t keys_and_values =
      2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * kKvElementBytes * kContext;
  Forecast result;
  result.shape = &shape;
  result.type = type;
  result.bytes = read_per_token + embedding + keys_and_values;
  result.fits = result.bytes < machine.available_bytes;
  result.decode_limit =
      ceilings.read_bytes_per_second / static_cast<double>(read_per_token + keys_and_values);
  return result;
}

int doctor(bool as_json) {
  const Machine machine = describe_machine();
  const Ceilings ceilings = measure_ceilings();
  std::vector<Forecast> forecasts;
  for (const ModelShape& shape : weights::synthetic::model_shapes()) {
    if (shape.name.starts_with("tiny-")) continue;
    for (const DType type : kTypes) {
      forecasts.push_back(forecast(shape, type, machine, ceilings));
    }
  }

  if (as_json) {
    json::Array models;
    for (const Forecast& f : forecasts) {
      models.push_back(json::Object{{"shape", f.shape->name},
                                    {"type", info(f.type).name},
                                    {"bytes", f.bytes},
                                    {"fits", f.fits},
                                    {"decode_limit_tokens_per_second", f.decode_limit}});
    }
    fmt::print("{}\n", json_text(json::Object{
                           {"cpu", machine.cpu},
                           {"threads", machine.num_threads},
                           {"isa", machine.isa},
                           {"isas", json::Array(machine.isas.begin(), machine.isas.end())},
                           {"memory_bytes", machine.memory_bytes},
                           {"available_bytes", machine.available_bytes},
                           {"read_bytes_per_second", ceilings.read_bytes_per_second},
                           {"int8_ops_per_second", ceilings.int8_ops_per_second},
                           {"int4_ops_per_second", ceilings.int4_ops_per_second},
                           {"bf16_flops_per_second", ceilings.bf16_flops_per_second},
                           {"f32_flops_per_second", ceilings.f32_flops_per_second},
                           {"models", std::move(models)}}));
    return 0;
  }

  fmt::print("processor   {}, {} threads\n", machine.cpu, machine.num_threads);
  fmt::print("kernels     {} (this processor runs: {})\n", machine.isa,
             fmt::join(machine.isas, ", "));
  fmt::print("memory      {}, {} available\n", size_text(machine.memory_bytes),
             size_text(machine.available_bytes));
  fmt::print(
      "measured    read {:.1f} GB/s, int8 {:.0f} Gop/s, int4 {:.0f} Gop/s, bf16 {:.0f} "
      "Gflop/s, f32 {:.0f} Gflop/s\n\n",
      ceilings.read_bytes_per_second * 1e-9, ceilings.int8_ops_per_second * 1e-9,
      ceilings.int4_ops_per_second * 1e-9, ceilings.bf16_flops_per_second * 1e-9,
      ceilings.f32_flops_per_second * 1e-9);
  fmt::print("Behind {} tokens of context; tokens/s is what the memory allows one user:\n",
             kContext);
  for (const Forecast& f : forecasts) {
    fmt::print("  {:<14} {:<5} {:>9}  {}\n", f.shape->name, info(f.type).name, size_text(f.bytes),
               f.fits ? fmt::format("fits, up to {:.1f} tokens/s", f.decode_limit)
                      : "does not fit in what is available");
  }
  return 0;
}

}  // namespace

void add_doctor(Command program) {
  const Command command =
      program.add("doctor", "Show what this machine is, which models fit, how fast they can be");
  auto as_json = std::make_shared<bool>(false);
  command.flag("--json", *as_json, "Print one JSON object");
  command.run([as_json] { return doctor(*as_json); });
}

}  // namespace hasten::cli
