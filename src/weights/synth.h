// SPDX-License-Identifier: Apache-2.0
// Writes models of real shapes with random weights, so that speed can be measured by anyone without
// a download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace hasten::weights {

struct SynthOptions {
  std::string shape = {};     // one of synth_shapes()
  DType type = DType::q4_0;   // of the matrices; any with a codec
  std::filesystem::path out;  // the GGUF file; replaced when it is there
  uint64_t seed = 1;          // same options, same bytes
  /// Called now and then from the calling thread with bytes written and bytes in all. May be empty.
  std::function<void(int64_t, int64_t)> progress = {};
};

struct SynthResult {
  int64_t num_parameters = 0;
  int64_t num_bytes = 0;  // of the file
  /// What became of the tensors. A matrix whose rows are no whole blocks of the wanted type takes
  /// the type that llama.cpp falls back to: q5_0 for q4_k, q5_1 for q5_k, q8_0 for q6_k, iq4_nl for
  /// q2_k, q3_k and iq4_xs, and f16 where 32 does not divide the row either.
  std::map<DType, int64_t> tensors_of_type;
};

/// The known shapes: "llama-3.2-1b", …, and the "tiny-…" ones of a few hundred kilobytes, one per
/// family, for tests.
[[nodiscard]] std::vector<std::string_view> synth_shapes();

/// The type of weights of that name. Error{invalid_argument} lists the known ones; `flag` is what
/// the user typed.
[[nodiscard]] DType synth_type(std::string_view name, std::string_view flag = "--type");

/// Writes a GGUF file with the metadata that llama.cpp's converter gives the architecture, a
/// generated vocabulary of the real size, and weights of normal distribution scaled such that
/// activations keep their size from layer to layer. Holds a few megabytes in memory whatever the
/// model's size. Throws Error{invalid_argument} for an unknown shape or a type without a codec,
/// Error{io}.
SynthResult synth(const SynthOptions& options);

}  // namespace hasten::weights
