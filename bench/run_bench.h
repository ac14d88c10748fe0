// SPDX-License-Identifier: Apache-2.0
// What the main() of every benchmark does.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>

namespace hasten::bench {

/// Takes Google Benchmark's flags out of the arguments and runs `body`, which returns the exit
/// status. What it throws is told on standard error, with status 1.
inline int run_bench(int argc, char** argv, int (*body)(int argc, char** argv)) {
  try {
    benchmark::Initialize(&argc, argv);
    return body(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace hasten::bench
