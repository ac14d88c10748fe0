// SPDX-License-Identifier: Apache-2.0
// The list of backends: one line each.
#include "api/backends.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/topology.h"
#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/quantity.h"
#include "ops/reference/reference_backend.h"

namespace hasten::api {
namespace {

void warn_of_threads(int32_t threads) {
  const int32_t cores = cpu::read_topology().num_usable_cores();
  if (threads > cores)
    log::warn("--threads {}: this process has {} to run on, so they take turns; {} would be faster",
              threads, counted(cores, "core"), cores);
}

}  // namespace

std::unique_ptr<ops::Backend> make_backend(const std::string& devices, int32_t threads,
                                           bool repack) {
  if (devices == "auto" || devices == "cpu") {
    warn_of_threads(threads);
    return cpu::make_cpu_backend({.threads = threads, .isa = {}, .repack = repack});
  }
  if (devices == "reference") return ops::make_reference_backend();
  fail_param("devices", "--devices {} is unknown; this build knows: auto, cpu, reference",
             printable(devices));
}

}  // namespace hasten::api
