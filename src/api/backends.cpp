// SPDX-License-Identifier: Apache-2.0
// The list of backends: one line each.
#include "api/backends.h"

#include "backends/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/printable.h"
#include "ops/reference/reference_backend.h"

namespace hasten::api {

std::unique_ptr<ops::Backend> make_backend(const std::string& devices, int32_t threads,
                                           bool repack) {
  if (devices == "auto" || devices == "cpu")
    return cpu::make_cpu_backend({.threads = threads, .isa = {}, .repack = repack});
  if (devices == "reference") return ops::make_reference_backend();
  fail_param("devices", "--devices {} is unknown; this build knows: auto, cpu, reference",
             printable(devices));
}

}  // namespace hasten::api
