// SPDX-License-Identifier: Apache-2.0
// What this machine is and how fast it can be: the limits that speeds are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hasten {

struct Machine {
  std::string cpu;                // as the processor names itself
  int32_t num_threads = 0;        // workers that hasten would use: physical cores it may run on
  std::string isa;                // instruction set that hasten would use: "avx512_bf16"
  std::vector<std::string> isas;  // those that this processor has, best first
  int64_t memory_bytes = 0;       // of the machine, or of the control group if that is less
  int64_t available_bytes = 0;    // of it, that can be had now without swapping
};

/// Looks at the machine; milliseconds. Any thread. Error{invalid_argument} when HASTEN_CPU_ISA
/// names an instruction set that it has not.
Machine describe_machine();

/// What was measured with the given number of threads.
struct Ceilings {
  // Of main memory: the mean of some readings of 256 MiB to 1 GiB, which is what neighbours leave
  // of it for as long; and the best of them.
  double read_bytes_per_second = 0;
  double best_read_bytes_per_second = 0;
  double int8_ops_per_second = 0;  // multiplications and additions of 8-bit integers
  // Of products of such with codes of four bits: at least int8, more where the processor has no dot
  // product instruction. A bound for all codes of fewer than eight bits.
  double int4_ops_per_second = 0;
  double bf16_flops_per_second = 0;
  double f32_flops_per_second = 0;
};

/// Measures them; other work on the machine lowers them. Keeps threads and up to 1 GiB of memory,
/// so that it can tell again and again how fast the machine is just now. One thread at a time.
class CeilingMeter {
 public:
  /// `num_threads` 0: as many as hasten would use. Error{resource_exhausted} when the system gives
  /// fewer, or no memory; Error{invalid_argument} as describe_machine().
  explicit CeilingMeter(int32_t num_threads = 0);
  ~CeilingMeter();

  /// Half a second. Of arithmetic the best moment counts.
  Ceilings measure();
  /// Bytes per second of one such reading, some 10 ms at 80 GB/s, for work that stops now and then
  /// to see what its limit is meanwhile.
  double read_bytes_per_second();
  /// Microseconds that the threads need to begin and end together, when they do it all the time:
  /// what each operation of a step costs beside its work. A tenth of a second.
  double barrier_us();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Measures them once, longer. Errors as of CeilingMeter.
Ceilings measure_ceilings(int32_t num_threads = 0);

}  // namespace hasten
