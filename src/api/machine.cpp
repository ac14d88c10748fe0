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

CeilingMeter::CeilingMeter(int32_t num_threads)
    : meter_(std::make_unique<cpu::CeilingMeter>(num_threads)) {}
CeilingMeter::CeilingMeter(CeilingMeter&& other) noexcept = default;
CeilingMeter& CeilingMeter::operator=(CeilingMeter&& other) noexcept = default;
CeilingMeter::~CeilingMeter() = default;

Ceilings CeilingMeter::measure() {
  constexpr int64_t kWindowUs = 120'000;
  const cpu::Ceilings measured = meter_->measure(kWindowUs);
  return {.read_bytes_per_second = measured.read_bytes_per_s,
          .int8_ops_per_second = measured.int8_ops_per_s,
          .bf16_flops_per_second = measured.bf16_flops_per_s,
          .f32_flops_per_second = measured.f32_flops_per_s};
}

double CeilingMeter::barrier_us() { return meter_->barrier_us(); }

Ceilings measure_ceilings(int32_t num_threads) { return CeilingMeter(num_threads).measure(); }

}  // namespace hasten
