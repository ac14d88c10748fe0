// SPDX-License-Identifier: Apache-2.0
// The list of backends, and the seed of a run.
#include "candidates.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "backends/cpu/cpu_backend.h"
#include "device_data.h"
#include "ops/reference/reference_backend.h"

namespace hasten::conformance {
namespace {

Candidate cpu_candidate(const std::string& isa) {
  const auto supported = cpu::supported_isas();
  const bool present = std::find(supported.begin(), supported.end(), isa) != supported.end();
  const bool bf16 = isa == "amx" || isa == "avx512_bf16";
  return {.name = "cpu_" + isa,
          .make =
              [isa](int32_t threads) {
                return cpu::make_cpu_backend({.threads = threads, .isa = isa});
              },
          .accuracy = {.int8_activations = true,
                       .bf16_activations = bf16,
                       .bf16_attention = bf16,
                       .int16_attention = bf16 || isa == "avx512"},
          .absent = present ? "" : "this machine or build has no " + isa,
          .own_formats = bf16 ? std::vector{DType::bf16} : std::vector<DType>{}};
}

}  // namespace

uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("HASTEN_TEST_SEED");
    const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0)
                                            : (uint64_t{std::random_device{}()} << 16);
    std::printf("HASTEN_TEST_SEED=%llu repeats these inputs\n",
                static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> list = {
      {.name = "reference",
       .make = [](int32_t) { return ops::make_reference_backend(); },
       .accuracy = {}},
      cpu_candidate("amx"),
      cpu_candidate("avx512_bf16"),
      cpu_candidate("avx512"),
      cpu_candidate("avx2"),
      cpu_candidate("generic"),
  };
  return list;
}

std::vector<std::tuple<Candidate, DType>> candidates_and_formats() {
  std::vector<std::tuple<Candidate, DType>> list;
  for (const Candidate& candidate : candidates()) {
    for (const DType format : weight_formats()) {
      if (candidate.has_own(format)) list.emplace_back(candidate, format);
    }
  }
  return list;
}

void PrintTo(const Candidate& candidate, std::ostream* out) { *out << candidate.name; }

std::string candidate_and_format_name(
    const ::testing::TestParamInfo<std::tuple<Candidate, DType>>& info) {
  const auto& [candidate, dtype] = info.param;
  return candidate.name + "_" + std::string(hasten::info(dtype).name);
}

void CandidateTest::skip_if_absent(const Candidate& candidate) {
  if (!candidate.absent.empty()) GTEST_SKIP() << candidate.name << ": " << candidate.absent;
}

std::unique_ptr<ops::Backend> CandidateTest::make(const Candidate& candidate, int32_t threads) {
  auto backend = candidate.make(threads);
  backend->reserve(kStepLimits);
  return backend;
}

Random CandidateTest::make_random() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return Random(hash_bytes(info->name(), hash_bytes(info->test_suite_name(), run_seed())));
}

}  // namespace hasten::conformance
