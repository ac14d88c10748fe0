// SPDX-License-Identifier: Apache-2.0
// Matrix products per weight format and number of rows, with weights streamed from memory, and
// bringing weights into the form that the products take.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "hasten_test/errors.h"
#include "limits.h"
#include "ops/reference/reference_backend.h"
#include "quant/codec.h"
#include "random.h"

namespace hasten::bench {
namespace {

// Distinct rows; the rest repeat them, because encoding is slow and speed does not depend on
// values.
constexpr int64_t kDistinctRows = 64;

OwnedTensor make_matrix(DType dtype, const MatrixShape& shape) {
  conformance::Random random(1);
  OwnedTensor matrix(dtype, {shape.out_features, shape.in_features});
  for (int64_t row = 0; row < shape.out_features; ++row) {
    if (row < kDistinctRows) {
      quant::encode_row(dtype, random.normals(shape.in_features).data(), matrix.view.row(row),
                        shape.in_features);
    } else {
      std::memcpy(matrix.view.row(row), matrix.view.row(row % kDistinctRows),
                  static_cast<size_t>(matrix.view.row_bytes()));
    }
  }
  return matrix;
}

/// Copies of one weight, kStreamBytes together, and two at least; made for the first benchmark of a
/// format and shape and kept for the next ones.
struct Stream {
  OwnedTensor matrix;
  std::vector<std::unique_ptr<ops::Weight>> copies;
};

const Stream& stream_of(ops::Backend& backend, DType dtype, const MatrixShape& shape) {
  static DType current = DType::f64;  // no weight format
  static MatrixShape current_shape;
  static Stream stream;
  if (current != dtype || current_shape != shape) {
    stream = {};
    stream.matrix = make_matrix(dtype, shape);
    const int64_t count = std::max<int64_t>(2, kStreamBytes / stream.matrix.view.num_bytes());
    for (int64_t i = 0; i < count; ++i) {
      stream.copies.push_back(backend.prepare_weight(stream.matrix.view));
    }
    current = dtype;
    current_shape = shape;
  }
  return stream;
}

/// The first columns of the result against the reference.
bool is_right(const Stream& stream, const std::vector<float>& x, int64_t num_rows,
              const std::vector<float>& out) {
  const int64_t in_features = stream.matrix.view.dim(1);
  const int64_t out_features = stream.matrix.view.dim(0);
  const auto reference = ops::make_reference_backend();
  const auto weight = reference->prepare_weight(stream.matrix.view.slice(0, kDistinctRows));
  std::vector<float> expected(static_cast<size_t>(num_rows * kDistinctRows));
  reference->matmul(
      {.weight = *weight,
       .x = Tensor(static_cast<const void*>(x.data()), DType::f32, {num_rows, in_features}),
       .out = Tensor(static_cast<void*>(expected.data()), DType::f32, {num_rows, kDistinctRows})});
  std::vector<float> actual;
  for (int64_t row = 0; row < num_rows; ++row) {
    const auto begin = out.begin() + row * out_features;
    actual.insert(actual.end(), begin, begin + kDistinctRows);
  }
  return testing::norm_error(actual, expected) < 2e-2;  // what the conformance suite allows
}

double peak(const cpu::Ceilings& ceilings, DType dtype) {
  if (info(dtype).quantized) {
    const bool eight_bits =
        dtype == DType::q8_0 || dtype == DType::iq4_nl || dtype == DType::iq4_xs;
    return eight_bits ? ceilings.int8_ops_per_s : ceilings.int4_ops_per_s;
  }
  if (dtype != DType::bf16) return ceilings.f32_flops_per_s;
  return std::max(ceilings.bf16_flops_per_s, ceilings.f32_flops_per_s);
}

/// Rows of activations.
std::vector<float> activations(int64_t num_rows, const MatrixShape& shape) {
  return conformance::Random(2).normals(num_rows * shape.in_features);
}

void matmul(benchmark::State& state, const Machine& machine, DType dtype,
            const MatrixShape& shape) {
  const int64_t num_rows = state.range(0);
  const Stream& stream = stream_of(machine.backend, dtype, shape);
  const auto values = activations(num_rows, shape);
  const auto x = to_device(machine.backend, values, {num_rows, shape.in_features});
  const auto out = machine.backend.allocate(DType::f32, {num_rows, shape.out_features});
  const auto multiply = [&](const ops::Weight& weight) {
    machine.backend.matmul({.weight = weight, .x = x.view, .out = out.view});
    machine.backend.synchronize();
  };

  multiply(*stream.copies.front());
  if (!is_right(stream, values, num_rows, to_host(machine.backend, out.view))) {
    state.SkipWithError("differs from the reference");
    return;
  }
  const auto elements = static_cast<double>(shape.out_features * shape.in_features);
  const Work work{.bytes = static_cast<double>(stream.matrix.view.num_bytes() + x.view.num_bytes() +
                                               out.view.num_bytes()),
                  .operations = 2.0 * static_cast<double>(num_rows) * elements,
                  .peak = [dtype](const cpu::Ceilings& ceilings) { return peak(ceilings, dtype); }};
  size_t next = 0;
  time_calls(state, machine, work, [&] {
    multiply(*stream.copies[next]);
    next = (next + 1) % stream.copies.size();
  });
}

/// Gate and up of a gated feed-forward block, and their activation.
void gated_matmul(benchmark::State& state, const Machine& machine, DType dtype,
                  const MatrixShape& shape) {
  const int64_t num_rows = state.range(0);
  const Shape out_shape = {num_rows, shape.out_features};
  const auto x =
      to_device(machine.backend, activations(num_rows, shape), {num_rows, shape.in_features});
  const Stream& stream = stream_of(machine.backend, dtype, shape);
  const auto gate_out = machine.backend.allocate(DType::f32, out_shape);
  const auto up_out = machine.backend.allocate(DType::f32, out_shape);
  const auto out = machine.backend.allocate(DType::f32, out_shape);
  const auto params = [&](size_t first) {
    return ops::GatedMatmulParams{
        .gate = {.weight = *stream.copies[first], .x = x.view, .out = gate_out.view},
        .up = {.weight = *stream.copies[first + 1], .x = x.view, .out = up_out.view},
        .out = out.view};
  };

  // Products are checked against the reference by their own benchmark.
  machine.backend.gated_matmul(params(0));
  const auto together = to_host(machine.backend, out.view);
  machine.backend.ops::Backend::gated_matmul(params(0));
  if (together != to_host(machine.backend, out.view)) {
    state.SkipWithError("differs from products apart");
    return;
  }
  const auto elements = static_cast<double>(shape.out_features * shape.in_features);
  const Work work{.bytes = static_cast<double>(2 * stream.matrix.view.num_bytes() +
                                               x.view.num_bytes() + out.view.num_bytes()),
                  .operations = 4.0 * static_cast<double>(num_rows) * elements,
                  .peak = [dtype](const cpu::Ceilings& ceilings) { return peak(ceilings, dtype); }};
  size_t next = 0;
  time_calls(state, machine, work, [&] {
    machine.backend.gated_matmul(params(next));
    machine.backend.synchronize();
    next += 2;
    if (next + 1 >= stream.copies.size()) next = 0;
  });
}

/// What loading a model does to its weights: reads them and writes as much to new memory, about as
/// much at a time as is packed together. Weights stay until there are many, as they do there: pages
/// that have just been given back, which the system hands out first, are partly in the caches of
/// the thread that wrote to them. Medians, and the first many not counted, since a host that takes
/// free memory back lets the system wait for it.
void pack(benchmark::State& state, const Machine& machine, DType dtype, const MatrixShape& shape) {
  constexpr int64_t kSourceBytes = kStreamBytes / 4;
  constexpr int64_t kCallBytes = int64_t{60} << 20;
  std::vector<OwnedTensor> sources;
  sources.push_back(make_matrix(dtype, shape));
  const Tensor first = sources.front().view;  // stays where the vector moves
  for (int64_t bytes = first.num_bytes(); bytes < kSourceBytes; bytes += first.num_bytes()) {
    sources.emplace_back(dtype, first.shape());
    std::memcpy(sources.back().view.data(), first.data(), static_cast<size_t>(first.num_bytes()));
  }
  size_t next = 0;
  const int64_t num_together = std::max<int64_t>(1, kCallBytes / first.num_bytes());
  const int64_t bytes_together = num_together * first.num_bytes();
  const auto num_kept =
      static_cast<size_t>(num_together * std::max<int64_t>(1, kStreamBytes / bytes_together));
  std::vector<std::unique_ptr<ops::Weight>> kept;
  kept.reserve(num_kept);
  const auto prepare = [&] {
    for (int64_t i = 0; i < num_together; ++i) {
      kept.push_back(machine.backend.prepare_weight(sources[next].view));
      next = (next + 1) % sources.size();
    }
    machine.backend.synchronize();
  };
  const auto give_back = [&] {
    if (kept.size() == num_kept) kept.clear();
  };
  while (kept.size() < num_kept) prepare();
  give_back();
  time_each_call(state, machine, {.bytes = 2.0 * static_cast<double>(bytes_together)}, prepare,
                 give_back);
}

/// `run` with each of these numbers of rows.
void register_of_rows(const std::string& name, std::initializer_list<int64_t> num_rows,
                      const std::function<void(benchmark::State&)>& run) {
  auto* const registered = benchmark::RegisterBenchmark(name.c_str(), run);
  registered->ArgName("rows")->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t count : num_rows) registered->Arg(count);
}

}  // namespace

void register_matmul(const Machine& machine) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1,
                            DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k,
                            DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs}) {
    for (const MatrixShape& shape : machine.model.matrices) {
      if (shape.in_features % info(dtype).block_size != 0) {
        fmt::print(stderr, "no {} of {}x{}: its rows are no whole blocks of {}\n", info(dtype).name,
                   shape.out_features, shape.in_features, info(dtype).block_size);
        continue;
      }
      std::string name = fmt::format("matmul/{}", info(dtype).name);
      if (machine.model.matrices.size() > 1) {
        name += fmt::format("/{}x{}", shape.out_features, shape.in_features);
      }
      register_of_rows(name, {1, 2, 4, 8, 16, 32, 64, 256}, [&machine, dtype, shape](auto& state) {
        matmul(state, machine, dtype, shape);
      });
    }
    const MatrixShape& shape = machine.model.matrices.front();
    if (shape.in_features % info(dtype).block_size != 0) continue;
    register_of_rows(
        fmt::format("gated_matmul/{}", info(dtype).name), {1, 32, 256},
        [&machine, dtype, shape](auto& state) { gated_matmul(state, machine, dtype, shape); });
    benchmark::RegisterBenchmark(
        fmt::format("pack/{}", info(dtype).name).c_str(),
        [&machine, dtype, shape](benchmark::State& state) { pack(state, machine, dtype, shape); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace hasten::bench
