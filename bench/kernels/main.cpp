// SPDX-License-Identifier: Apache-2.0
// kernel_bench [threads] [Google Benchmark flags]: checks each kernel of the CPU backend, times it,
// and sets the machine's limit for the same work beside it. HASTEN_CPU_ISA chooses the ISA.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>

#include "backends/cpu/cpu_backend.h"
#include "limits.h"
#include "run_bench.h"

namespace {

bool parse_threads(std::string_view text, int32_t& threads) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  return error == std::errc() && end == text.data() + text.size() && threads >= 0;
}

int run(int argc, char** argv) {
  int32_t threads = 0;  // one per physical core
  if (argc > 2 || (argc == 2 && !parse_threads(argv[1], threads))) {
    fmt::print(stderr, "usage: kernel_bench [threads] [--benchmark_filter=REGEX ...]\n");
    return 2;
  }
  const auto backend = hasten::cpu::make_cpu_backend({.threads = threads});
  backend->reserve({.max_tokens = 512,
                    .max_sequences = 64,
                    .max_features = 16384,
                    .max_context = 16384,
                    .max_heads = 64,
                    .max_head_dim = 256});
  const hasten::bench::Machine machine{
      .backend = *backend, .ceilings = hasten::cpu::CeilingMeter(threads).measure(300'000)};
  const auto& ceilings = machine.ceilings;
  fmt::print("{}: reads {:.1f} GB/s, int8 {:.0f} Gop/s, bf16 {:.0f} Gflop/s, f32 {:.0f} Gflop/s\n",
             backend->name(), ceilings.read_bytes_per_s * 1e-9, ceilings.int8_ops_per_s * 1e-9,
             ceilings.bf16_flops_per_s * 1e-9, ceilings.f32_flops_per_s * 1e-9);
  hasten::bench::register_matmul(machine);
  hasten::bench::register_attention(machine);
  hasten::bench::register_rows(machine);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return hasten::bench::run_bench(argc, argv, run); }
