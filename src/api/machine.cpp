// SPDX-License-Identifier: Apache-2.0
// Implements hasten/machine.h.
#include "hasten/machine.h"

#include <fstream>

#include "backends/cpu/ceilings.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/topology.h"
#include "base/memory.h"

namespace hasten {
namespace {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

Ceilings measured(cpu::CeilingMeter& meter, int64_t window_us) {
  const cpu::Ceilings ceilings = meter.measure(window_us);
  return {.read_bytes_per_second = ceilings.read_bytes_per_s,
          .best_read_bytes_per_second = ceilings.best_read_bytes_per_s,
          .int8_ops_per_second = ceilings.int8_ops_per_s,
          .int4_ops_per_second = ceilings.int4_ops_per_s,
          .bf16_flops_per_second = ceilings.bf16_flops_per_s,
          .f32_flops_per_second = ceilings.f32_flops_per_s};
}

}  // namespace

Machine describe_machine() {
  Machine machine;
  machine.cpu = processor_name();
  machine.num_threads = cpu::read_topology().num_usable_cores();
  machine.isas = cpu::supported_isas();
  machine.isa = cpu::select_kernels({}).name;
  const SystemMemory memory = measure_memory();
  machine.memory_bytes = memory.total_bytes;
  machine.available_bytes = memory.available_bytes;
  return machine;
}

struct CeilingMeter::Impl {
  explicit Impl(int32_t num_threads) : meter(num_threads) {}
  cpu::CeilingMeter meter;
};

CeilingMeter::CeilingMeter(int32_t num_threads) : impl_(std::make_unique<Impl>(num_threads)) {}
CeilingMeter::~CeilingMeter() = default;
Ceilings CeilingMeter::measure() { return measured(impl_->meter, 120'000); }
double CeilingMeter::read_bytes_per_second() { return impl_->meter.read_rate(); }
double CeilingMeter::barrier_us() { return impl_->meter.barrier_us(100'000); }

Ceilings measure_ceilings(int32_t num_threads) {
  cpu::CeilingMeter meter(num_threads);
  return measured(meter, 300'000);
}

}  // namespace hasten
