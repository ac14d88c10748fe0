// SPDX-License-Identifier: Apache-2.0
// kernel_bench [SHAPE] [THREADS] [Google Benchmark flags]: checks each kernel of the CPU backend,
// times it, and sets the machine's limit for the same work beside it. SHAPE is a model as
// `hasten synth --shape` knows it, all of whose matrices are then multiplied; HASTEN_CPU_ISA
// chooses the instruction set.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "backends/cpu/cpu_backend.h"
#include "limits.h"
#include "run_bench.h"

namespace {

bool parse_threads(std::string_view text, int32_t& threads) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return false;
  threads = value;
  return true;
}

int run(int argc, char** argv) {
  int32_t threads = 0;  // one per physical core
  std::string_view shape;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (parse_threads(argument, threads)) continue;
    if (argument.starts_with('-') || !shape.empty()) {
      fmt::print(stderr, "usage: kernel_bench [SHAPE] [THREADS] [--benchmark_filter=REGEX ...]\n");
      return 2;
    }
    shape = argument;
  }
  const hasten::bench::Model model = hasten::bench::model_of(shape);
  const auto backend = hasten::cpu::make_cpu_backend({.threads = threads});
  backend->reserve({.max_tokens = 512,
                    .max_sequences = 64,
                    .max_features = 16384,
                    .max_context = 16384,
                    .max_heads = std::max<int64_t>(64, model.num_heads),
                    .max_head_dim = 256});
  hasten::cpu::CeilingMeter meter(threads);
  const hasten::bench::Machine machine{.backend = *backend, .meter = meter, .model = model};
  const hasten::cpu::Ceilings ceilings = meter.measure(300'000);
  fmt::print(
      "{}: reads {:.1f} GB/s, int8 {:.0f} Gop/s, int4 {:.0f} Gop/s, bf16 {:.0f} Gflop/s, f32 "
      "{:.0f} Gflop/s\n",
      backend->name(), ceilings.read_bytes_per_s * 1e-9, ceilings.int8_ops_per_s * 1e-9,
      ceilings.int4_ops_per_s * 1e-9, ceilings.bf16_flops_per_s * 1e-9,
      ceilings.f32_flops_per_s * 1e-9);
  hasten::bench::register_matmul(machine);
  hasten::bench::register_attention(machine);
  hasten::bench::register_rows(machine);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return hasten::bench::run_bench(argc, argv, run); }
