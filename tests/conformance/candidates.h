// SPDX-License-Identifier: Apache-2.0
// The backends that the suite holds to the reference. Adding a backend is one line in
// candidates.cpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "hasten_test/random_inputs.h"
#include "ops/backend.h"
#include "random.h"

namespace hasten::conformance {

/// How exact a candidate's kernels promise to be.
struct Accuracy {
  bool int8_activations = false;  // matmul with a quantised weight rounds x to 8 bits
  bool bf16_activations = false;  // matmul with a bf16 weight rounds x to bf16
  // Attention to keys and values of bf16, of whole vectors, rounds queries and weights to bf16.
  bool bf16_attention = false;
  // Of q8_0 to 16 bits, 2^-16 of the largest.
  bool int16_attention = false;
};

struct Candidate {
  std::string name;  // as test names have it: "cpu_avx2"
  std::function<std::unique_ptr<ops::Backend>(int32_t threads)> make;
  Accuracy accuracy;
  std::string absent = {};  // why this machine cannot run it; empty: it can
  // Weights, keys and values that it takes in a way of its own; all others by themselves as a
  // candidate behind it, which runs wherever it does, by the same kernels. Empty: it shares none.
  std::vector<DType> own_formats = {};

  bool has_own(DType format) const {
    return own_formats.empty() || std::ranges::find(own_formats, format) != own_formats.end();
  }
  /// It does one row and one operation after the other: sizes decide nothing.
  bool is_reference() const { return name == "reference"; }
};

void PrintTo(const Candidate& candidate, std::ostream* out);

/// All of them, whether or not this machine can run them.
const std::vector<Candidate>& candidates();

/// Each with each of the weight formats that it does not share.
std::vector<std::tuple<Candidate, DType>> candidates_and_formats();

/// What every step of the suite stays below.
inline constexpr ops::StepLimits kStepLimits{.max_tokens = 128,
                                             .max_sequences = 64,
                                             .max_features = 4096,
                                             .max_context = 4096,
                                             .max_heads = 64,
                                             .max_head_dim = 512};

/// Skips on a machine that lacks the candidate; seeds random inputs by run and test.
class CandidateTest : public ::testing::Test {
 public:
  /// The candidate, ready for steps up to kStepLimits. At least one thread.
  static std::unique_ptr<ops::Backend> make(const Candidate& candidate, int32_t threads);

 protected:
  void skip_if_absent(const Candidate& candidate);
  /// A stream that differs between tests and repeats with the seed of the run.
  static Random make_random();
};

/// A test that runs once for each candidate.
class ConformanceTest : public CandidateTest, public ::testing::WithParamInterface<Candidate> {
 protected:
  void SetUp() override { skip_if_absent(GetParam()); }
  std::unique_ptr<ops::Backend> make(int32_t threads) {
    return CandidateTest::make(GetParam(), threads);
  }
};

/// A test that runs once for each candidate and weight format.
class FormatConformanceTest : public CandidateTest,
                              public ::testing::WithParamInterface<std::tuple<Candidate, DType>> {
 protected:
  void SetUp() override { skip_if_absent(candidate()); }
  const Candidate& candidate() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  /// Whether to try what takes long and is one code for all formats: under sanitizers for one of
  /// floats and of each kind of scales that weights have.
  bool tries_long_ones() const {
    constexpr DType kOnes[] = {DType::bf16, DType::q4_0, DType::q4_k, DType::q6_k};
    return !testing::kSanitized || std::ranges::find(kOnes, dtype()) != std::end(kOnes);
  }
  std::unique_ptr<ops::Backend> make(int32_t threads) {
    return CandidateTest::make(candidate(), threads);
  }
};

inline std::string candidate_name(const ::testing::TestParamInfo<Candidate>& info) {
  return info.param.name;
}
std::string candidate_and_format_name(
    const ::testing::TestParamInfo<std::tuple<Candidate, DType>>& info);

}  // namespace hasten::conformance
