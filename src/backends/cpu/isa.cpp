// SPDX-License-Identifier: Apache-2.0
// Detection of instruction sets with CPUID, and the one place that reads HASTEN_CPU_ISA.
#include "backends/cpu/isa.h"

#include <array>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(HASTEN_AVX512)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hasten::cpu {

// The files in isa/. What is compiled for an instruction set is to be called where it is supported.
KernelTable make_generic_kernels();
#if defined(HASTEN_AVX2)
KernelTable make_avx2_kernels();
#endif
#if defined(HASTEN_AVX512)
KernelTable make_avx512_kernels();
void add_avx512_bf16(KernelTable& kernels);
int64_t peak_avx512_bf16(int64_t rounds);
void add_amx(KernelTable& kernels);
int64_t peak_amx_bf16(int64_t rounds);
#endif

namespace {

bool any_machine() { return true; }

#if defined(__x86_64__)
struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  // Fails, leaving zeros, when the processor does not know the leaf.
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

constexpr bool bit(uint32_t value, int index) { return (value >> index & 1U) != 0; }

/// The register sets that the operating system saves (XCR0); all zero without XSAVE.
uint32_t saved_state() {
  if (!bit(cpuid(1, 0).c, 27)) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Bit numbers: Intel 64 Architectures Software Developer's Manual, volume 2, CPUID.
bool has_avx2() {
  const uint32_t features = cpuid(1, 0).c;
  const bool saved = (saved_state() & 0x6U) == 0x6U;                              // XMM and YMM
  return saved && bit(features, 12) && bit(features, 28) && bit(features, 29) &&  // FMA AVX F16C
         bit(cpuid(7, 0).b, 5);                                                   // AVX2
}

constexpr uint32_t kZen3And4 = 0x19;  // amd_family(); of which Zen 4 has AVX-512

/// AMD's number of the processor's design, 0 of other makers (AMD64 Architecture Programmer's
/// Manual, volume 3, CPUID Fn0000_0001_EAX: of two parts the sum).
uint32_t amd_family() {
  constexpr uint32_t kAuthenticAmd[] = {0x68747541, 0x69746e65, 0x444d4163};
  const Registers vendor = cpuid(0, 0);
  if (vendor.b != kAuthenticAmd[0] || vendor.d != kAuthenticAmd[1] || vendor.c != kAuthenticAmd[2])
    return 0;
  const uint32_t signature = cpuid(1, 0).a;
  return (signature >> 8 & 0xfU) + (signature >> 20 & 0xffU);
}

bool has_avx512() {
  const Registers extended = cpuid(7, 0);
  const bool saved = (saved_state() & 0xe6U) == 0xe6U;  // and the mask, upper and new registers
  return has_avx2() && saved && bit(extended.b, 16) && bit(extended.b, 17) &&  // F DQ
         bit(extended.b, 30) && bit(extended.b, 31) &&                         // BW VL
         bit(extended.c, 11);                                                  // VNNI
}
#endif

#if defined(HASTEN_AVX512)
bool has_avx512_bf16() { return has_avx512() && bit(cpuid(7, 1).a, 5); }
/// Whether dot products of bf16 are faster than products of f32. AMD's are (Zen 4 and 5); Intel's
/// (family 6, model 207) do 86 Gflop/s a core, those of f32 179; others were not measured
/// (docs/performance-log.md, "Two ports").
bool multiplies_bf16_fast() { return has_avx512_bf16() && amd_family() != 0; }
bool multiplies_bf16_slowly() { return has_avx512_bf16() && amd_family() == 0; }

KernelTable make_avx512_bf16_kernels() {
  KernelTable kernels = make_avx512_kernels();
  add_avx512_bf16(kernels);
  return kernels;
}

/// Linux gives the tile registers, which are 8 KiB to save, to a process that has asked for them
/// (Documentation/arch/x86/xstate.rst), all of its threads, for good: who asks whether there are
/// any asks for them. From then on an alternate signal stack has to have room for them, and a
/// process with one that is too small does not get them.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, since Linux 5.16
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx() {
  const uint32_t features = cpuid(7, 0).d;
  const bool saved = (saved_state() & 0x60000U) == 0x60000U;  // tile shapes and tiles
  return has_avx512_bf16() && saved && bit(features, 22) && bit(features, 24) &&  // BF16 TILE
         may_use_tiles();
}

KernelTable make_amx_kernels() {
  KernelTable kernels = make_avx512_bf16_kernels();
  add_amx(kernels);
  return kernels;
}
#endif

/// On Zen 4 lines asked into the first-level cache come no sooner than others; on Zen 5 more of
/// those for the second are dropped (docs/performance-log.md, "What a core does not fetch"). Others
/// were not measured.
CacheLevel asks_into() {
#if defined(__x86_64__)
  if (has_avx512() && amd_family() == kZen3And4) return CacheLevel::second;
#endif
  return CacheLevel::first;
}

/// Intel's cores have two ports for all arithmetic of 512 bits; AMD's have others for it than those
/// that multiply (docs/performance-log.md, "Two ports").
bool keeps_low_nibbles() {
#if defined(__x86_64__)
  return amd_family() != 0;
#else
  return true;
#endif
}

/// Measured with AVX-512 kernels on Intel's family 6, model 207 (docs/performance-log.md, "Short
/// panels"), which stands for all of Intel's; not on AMD's, nor with kernels whose panels are of
/// one group.
int64_t short_panel_rows([[maybe_unused]] const KernelTable& kernels) {
#if defined(__x86_64__)
  if (has_avx512() && amd_family() == 0 && kernels.quant_tile_groups > 1) return 48;
#endif
  return 0;
}

struct Candidate {
  KernelTable (*make_kernels)();  // to be called where they are supported
  bool (*supported)();
};

/// Best first.
constexpr Candidate kCandidates[] = {
#if defined(HASTEN_AVX512)
    {make_amx_kernels, has_amx},         {make_avx512_bf16_kernels, multiplies_bf16_fast},
    {make_avx512_kernels, has_avx512},   {make_avx512_bf16_kernels, multiplies_bf16_slowly},
#endif
#if defined(HASTEN_AVX2)
    {make_avx2_kernels, has_avx2},
#endif
    {make_generic_kernels, any_machine},
};

std::string join_names() {
  std::string names;
  for (const KernelTable* kernels : supported_kernels()) {
    names += (names.empty() ? "" : ", ") + std::string(kernels->name);
  }
  return names;
}

}  // namespace

std::span<const KernelTable* const> supported_kernels() {
  // Trivially destructible: a thread may still run while the process ends.
  static const std::array<KernelTable, std::size(kCandidates)> tables = [] {
    std::array<KernelTable, std::size(kCandidates)> list{};
    auto next = list.begin();
    for (const Candidate& candidate : kCandidates) {
      if (!candidate.supported()) continue;
      *next = candidate.make_kernels();
      next->asks_into = asks_into();
      next->keeps_low_nibbles = keeps_low_nibbles();
      next->short_panel_rows = short_panel_rows(*next);
      // Each format is in quant_products.inl.
      for (const auto& product : next->quant_matmul) HASTEN_CHECK(product != nullptr);
      ++next;
    }
    return list;
  }();
  static const std::vector<const KernelTable*> supported = [] {
    std::vector<const KernelTable*> list;
    list.reserve(tables.size());
    for (const KernelTable& table : tables)
      if (table.name != nullptr) list.push_back(&table);
    return list;
  }();
  return supported;
}

const KernelTable& select_kernels(std::string_view isa) {
  const char* environment = std::getenv("HASTEN_CPU_ISA");
  if (isa.empty() && environment != nullptr) isa = environment;
  if (isa.empty()) return *supported_kernels().front();
  for (const KernelTable* kernels : supported_kernels()) {
    if (isa == kernels->name) return *kernels;
  }
  fail(ErrorCode::invalid_argument,
       "CPU instruction set \"{}\" is not supported here; choose of: {}", isa, join_names());
}

WeightStreams weight_streams([[maybe_unused]] const KernelTable& kernels) {
#if defined(__x86_64__)
  // Measured on Zen 4 (docs/performance-log.md, "A stream that nobody asks for") and on Zen 5
  // ("What a core does not fetch"), which is taken for those after it, too. Sapphire Rapids did not
  // reach its bandwidth with one stream; processors without AVX-512 were not measured, nor were
  // AVX2 kernels on those with it.
  const uint32_t family = amd_family();
  if (has_avx512() && family != 0) {
    return family == kZen3And4 && kernels.reads_in_order ? WeightStreams::in_order
                                                         : WeightStreams::one;
  }
#endif
  return WeightStreams::several;
}

PeakKernel bf16_peak_kernel() {
#if defined(HASTEN_AVX512)
  if (has_amx()) return peak_amx_bf16;
  if (has_avx512_bf16()) return peak_avx512_bf16;
#endif
  return nullptr;
}

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const KernelTable* kernels : supported_kernels()) names.emplace_back(kernels->name);
  return names;
}

}  // namespace hasten::cpu
