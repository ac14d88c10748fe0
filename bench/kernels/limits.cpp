// SPDX-License-Identifier: Apache-2.0
// Models by name, limits, timing, and copies between host and device.
#include "limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

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
// Calls for so long, then one reading of memory.
constexpr int64_t kReadEveryUs = 20'000;

/// Seconds that many readings or calls took.
class Times {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }

  [[nodiscard]] double mean() const {
    const double sum = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
    return seconds_.empty() ? 0.0 : sum / static_cast<double>(seconds_.size());
  }
  [[nodiscard]] double median() const {
    if (seconds_.empty()) return 0.0;
    std::vector<double> sorted = seconds_;
    const auto middle = sorted.begin() + std::ssize(sorted) / 2;
    std::ranges::nth_element(sorted, middle);
    return *middle;
  }

 private:
  std::vector<double> seconds_;
};

/// Seconds that the work takes of memory and of arithmetic, which go on at the same time.
struct Limit {
  const Work& work;
  Times readings, peaks;

  void add(const cpu::Ceilings& ceilings) {
    add_reading(ceilings.read_bytes_per_s);
    if (work.peak) peaks.add(work.operations / work.peak(ceilings));
  }
  void add_reading(double bytes_per_s) { readings.add(work.bytes / bytes_per_s); }
};

void report(benchmark::State& state, const Work& work, double memory, double arithmetic,
            double seconds, std::string_view kind) {
  const double limit = std::max(memory, arithmetic);
  state.counters["fraction"] = limit / seconds;
  state.SetLabel(fmt::format("{}limit {:.1f} us ({}), {:.0f} %; {:.1f} GB/s, {:.0f} Gop/s", kind,
                             limit * 1e6, memory < arithmetic ? "compute" : "memory",
                             100.0 * limit / seconds, work.bytes / seconds * 1e-9,
                             work.operations / seconds * 1e-9));
}

}  // namespace

void time_calls(benchmark::State& state, const Machine& machine, const Work& work,
                const std::function<void()>& call) {
  Limit limit{work, {}, {}};
  limit.add(machine.meter.measure(kWindowUs));
  const int64_t begin_us = monotonic_us();
  int64_t untimed_us = 0;
  int64_t last_reading_us = begin_us;
  for ([[maybe_unused]] auto _ : state) {
    call();
    if (monotonic_us() - last_reading_us < kReadEveryUs) continue;
    state.PauseTiming();
    const int64_t pause_us = monotonic_us();
    limit.add_reading(machine.meter.read_rate());
    last_reading_us = monotonic_us();
    untimed_us += last_reading_us - pause_us;
    state.ResumeTiming();
  }
  const double seconds = static_cast<double>(monotonic_us() - begin_us - untimed_us) * 1e-6 /
                         static_cast<double>(state.iterations());
  limit.add(machine.meter.measure(kWindowUs));
  report(state, work, limit.readings.mean(), limit.peaks.mean(), seconds, "");
}

void time_each_call(benchmark::State& state, const Machine& machine, const Work& work,
                    const std::function<void()>& call, const std::function<void()>& clean_up) {
  Limit limit{work, {}, {}};
  limit.add(machine.meter.measure(kWindowUs));
  Times calls;
  int64_t last_reading_us = monotonic_us();
  for ([[maybe_unused]] auto _ : state) {
    const int64_t begin_us = monotonic_us();
    call();
    const int64_t us = monotonic_us() - begin_us;
    state.PauseTiming();
    calls.add(static_cast<double>(us) * 1e-6);
    clean_up();
    if (monotonic_us() - last_reading_us >= kReadEveryUs) {
      limit.add_reading(machine.meter.read_rate());
      last_reading_us = monotonic_us();
    }
    state.ResumeTiming();
  }
  limit.add(machine.meter.measure(kWindowUs));
  report(state, work, limit.readings.median(), limit.peaks.median(), calls.median(),
         fmt::format("median {:.1f} us, ", calls.median() * 1e6));
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
