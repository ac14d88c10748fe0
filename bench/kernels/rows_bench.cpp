// SPDX-License-Identifier: Apache-2.0
// Norms and gated activations, which only move memory.
#include <functional>
#include <string>
#include <vector>

#include "hasten_test/errors.h"
#include "limits.h"
#include "ops/reference/reference_backend.h"
#include "random.h"

namespace hasten::bench {
namespace {

constexpr int64_t kDim = 4096;

/// Inputs and output of one call, on one backend; the same numbers everywhere.
struct Rows {
  Rows(ops::Backend& backend, int64_t num_rows) {
    conformance::Random random(4);
    const Shape shape{num_rows, kDim};
    a = to_device(backend, random.normals(shape.num_elements()), shape);
    b = to_device(backend, random.normals(shape.num_elements()), shape);
    weight = to_device(backend, random.normals(kDim), {kDim});
    out = backend.allocate(DType::f32, shape);
  }
  ops::DeviceTensor a;       // [num_rows, kDim]
  ops::DeviceTensor b;       // [num_rows, kDim]
  ops::DeviceTensor weight;  // [kDim]
  ops::DeviceTensor out;     // [num_rows, kDim]
};

/// An operation, and how many times it reads or writes each of [num_rows, kDim] elements.
struct RowOperation {
  std::string name;
  std::function<void(ops::Backend&, const Rows&)> run;
  int64_t passes = 0;
  int64_t operations_per_element = 0;  // arithmetic at its least
};

const std::vector<RowOperation>& row_operations() {
  static const std::vector<RowOperation> list = {
      {"rms_norm",
       [](ops::Backend& backend, const Rows& rows) {
         backend.rms_norm({.x = rows.a.view, .weight = rows.weight.view, .out = rows.out.view});
       },
       2, 4},
      {"silu_gate",
       [](ops::Backend& backend, const Rows& rows) {
         backend.gated_activation({.activation = ops::Activation::silu,
                                   .gate = rows.a.view,
                                   .up = rows.b.view,
                                   .out = rows.out.view});
       },
       3, 20},
      {"gelu_gate",
       [](ops::Backend& backend, const Rows& rows) {
         backend.gated_activation({.activation = ops::Activation::gelu_tanh,
                                   .gate = rows.a.view,
                                   .up = rows.b.view,
                                   .out = rows.out.view});
       },
       3, 26},
  };
  return list;
}

void run_rows(benchmark::State& state, const Machine& machine, const RowOperation& operation) {
  const int64_t num_rows = state.range(0);
  const auto reference = ops::make_reference_backend();
  const Rows rows(machine.backend, num_rows);
  const Rows truth(*reference, num_rows);
  operation.run(machine.backend, rows);
  operation.run(*reference, truth);
  if (!(testing::norm_error(to_host(machine.backend, rows.out.view),
                            to_host(*reference, truth.out.view)) < 1e-5)) {
    state.SkipWithError("differs from the reference");
    return;
  }
  const auto elements = static_cast<double>(num_rows * kDim);
  const Work work{.bytes = elements * static_cast<double>(operation.passes) * sizeof(float),
                  .operations = elements * static_cast<double>(operation.operations_per_element),
                  .peak = [](const cpu::Ceilings& ceilings) { return ceilings.f32_flops_per_s; }};
  time_calls(state, machine, work, [&] {
    operation.run(machine.backend, rows);
    machine.backend.synchronize();
  });
}

}  // namespace

void register_rows(const Machine& machine) {
  for (const RowOperation& operation : row_operations()) {
    benchmark::RegisterBenchmark(
        operation.name.c_str(),
        [&machine, &operation](benchmark::State& state) { run_rows(state, machine, operation); })
        ->ArgName("rows")
        ->Arg(1)      // in the caches, so the limit of memory can be passed
        ->Arg(16384)  // 256 MiB a pass, out of the caches
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace hasten::bench
