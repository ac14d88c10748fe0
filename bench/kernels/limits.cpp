// SPDX-License-Identifier: Apache-2.0
// Models by name, limits, timing, and copies between host and device.
#include "limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "weights/synth/shapes.h"

namespace hasten::bench {

Model model_of(std::string_view shape) {
  // The feed-forward matrix of a model of a few billion parameters.
  if (shape.empty()) return {{{8192, 3072}}, 32, 8, 64};
  std::string names;
  for (const weights::synthetic::ModelShape& s : weights::synthetic::model_shapes()) {
    names += " " + std::string(s.name);
    if (s.name != shape) continue;
    Model model{{}, s.num_heads, s.num_kv_heads, s.head_dim};
    for (const MatrixShape matrix : {MatrixShape{s.num_heads * s.head_dim, s.hidden},
                                     {s.num_kv_heads * s.head_dim, s.hidden},
                                     {s.hidden, s.num_heads * s.head_dim},
                                     {s.feed_forward, s.hidden},
                                     {s.hidden, s.feed_forward},
                                     {s.vocabulary_size, s.hidden}}) {
      if (std::ranges::find(model.matrices, matrix) == model.matrices.end()) {
        model.matrices.push_back(matrix);
      }
    }
    return model;
  }
  fail(ErrorCode::invalid_argument, "there is no shape \"{}\"; those there are:{}", shape, names);
}

namespace {

constexpr int64_t kWindowUs = 20'000;  // of each ceiling; reading takes longer

/// Seconds that the work takes of memory and of arithmetic, which go on at the same time.
struct Limit {
  double memory = 0.0;
  double arithmetic = 0.0;
};

Limit limit_of(const Work& work, const cpu::Ceilings& ceilings) {
  return {.memory = work.bytes / ceilings.read_bytes_per_s,
          .arithmetic = work.peak ? work.operations / work.peak(ceilings) : 0.0};
}

}  // namespace

void time_calls(benchmark::State& state, const Machine& machine, const Work& work,
                const std::function<void()>& call, const std::function<void()>& clean_up) {
  const Limit before = limit_of(work, machine.meter.measure(kWindowUs));
  const int64_t begin_us = monotonic_us();
  int64_t untimed_us = 0;
  for ([[maybe_unused]] auto _ : state) {
    call();
    if (!clean_up) continue;
    state.PauseTiming();
    const int64_t pause_us = monotonic_us();
    clean_up();
    untimed_us += monotonic_us() - pause_us;
    state.ResumeTiming();
  }
  const double seconds = static_cast<double>(monotonic_us() - begin_us - untimed_us) * 1e-6 /
                         static_cast<double>(state.iterations());
  const Limit after = limit_of(work, machine.meter.measure(kWindowUs));
  const double memory = 0.5 * (before.memory + after.memory);
  const double arithmetic = 0.5 * (before.arithmetic + after.arithmetic);
  const double limit = std::max(memory, arithmetic);
  state.counters["fraction"] = limit / seconds;
  state.SetLabel(fmt::format("limit {:.1f} us ({}), {:.0f} %; {:.1f} GB/s, {:.0f} Gop/s",
                             limit * 1e6, memory < arithmetic ? "compute" : "memory",
                             100.0 * limit / seconds, work.bytes / seconds * 1e-9,
                             work.operations / seconds * 1e-9));
}

ops::DeviceTensor to_device(ops::Backend& backend, const std::vector<float>& values, Shape shape) {
  auto tensor = backend.allocate(DType::f32, shape);
  backend.upload(Tensor(static_cast<const void*>(values.data()), DType::f32, shape), tensor.view);
  return tensor;
}

std::vector<float> to_host(ops::Backend& backend, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  backend.download(tensor, Tensor(static_cast<void*>(values.data()), DType::f32, tensor.shape()));
  return values;
}

}  // namespace hasten::bench
