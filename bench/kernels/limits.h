// SPDX-License-Identifier: Apache-2.0
// A limit beside every number: the time that the machine itself needs for a kernel's work.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "backends/cpu/ceilings.h"
#include "ops/backend.h"

namespace hasten::bench {

/// Kernels take turns on inputs of this size together, so that a small batch reads memory as a
/// model does, and not a cache: more than the last-level cache of today's servers keeps for one
/// process.
inline constexpr int64_t kStreamBytes = int64_t{512} << 20;

/// A weight matrix.
struct MatrixShape {
  int64_t out_features = 0;
  int64_t in_features = 0;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

/// Whose matrices and heads are measured.
struct Model {
  std::vector<MatrixShape> matrices;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
};

/// The one that `hasten synth --shape` calls by this name; without a name one large matrix, which
/// tells enough of the formats, and the heads of Llama 3.2 1B. Error{invalid_argument}.
Model model_of(std::string_view shape);

/// What every kernel of this run shares.
struct Machine {
  ops::Backend& backend;
  cpu::CeilingMeter& meter;
  Model model;
};

/// The work of one call of a kernel.
struct Work {
  double bytes = 0.0;       // that must come from or go to memory
  double operations = 0.0;  // multiply and add are two
  // The ceiling for this kind of operation, per second; of what has operations.
  std::function<double(const cpu::Ceilings&)> peak = nullptr;
};

/// Times `call`, which does `work` and waits for it; says the limit and the fraction of it that was
/// reached (1 is the limit) in the label, and the fraction as a counter. The ceilings are
/// measured before and after, and reading between calls, too, since neighbours on a shared machine
/// come and go: the limit is that of their mean.
void time_calls(benchmark::State& state, const Machine& machine, const Work& work,
                const std::function<void()>& call);
/// Likewise each call by itself, and the medians of calls and of readings: for calls of which some
/// wait for what the work does not say. `clean_up` behind each call is not timed.
void time_each_call(benchmark::State& state, const Machine& machine, const Work& work,
                    const std::function<void()>& call, const std::function<void()>& clean_up);

/// A host tensor's copy on the device, and back.
ops::DeviceTensor to_device(ops::Backend& backend, const std::vector<float>& values, Shape shape);
std::vector<float> to_host(ops::Backend& backend, const Tensor& tensor);

// One file each; they register benchmarks for Google Benchmark to run.
void register_matmul(const Machine& machine);
void register_attention(const Machine& machine);
void register_rows(const Machine& machine);

}  // namespace hasten::bench
