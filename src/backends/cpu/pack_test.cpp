// SPDX-License-Identifier: Apache-2.0
// Tests of the packed layouts: every element comes back, in every format, and exactly but for
// integer scales.
#include "backends/cpu/pack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/own_kernels_test.h"
#include "backends/cpu/random_matrix_test.h"
#include "hasten_test/address_space_limit.h"
#include "quant/codec.h"
#include "quant/iq4_nl.h"
#include "tensor/half.h"

namespace hasten::cpu {
namespace {

constexpr DType kFormats[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0,   DType::q4_1,
                              DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k,   DType::q3_k,
                              DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};

/// A code of a packed group, read as CodeBits describes it.
int read_code(CodeBits bits, const uint8_t* block, int row, int column) {
  const int j = column / 4;
  const auto byte = [&](int vector) { return int{block[64 * vector + 4 * row + column % 4]}; };
  const auto nibble = [&] { return byte(j / 2) >> (4 * (j % 2)) & 15; };
  const auto pair = [&] { return byte(j / 4) >> (2 * (j % 4)) & 3; };
  switch (bits) {
    case CodeBits::bytes:
      return byte(j);
    case CodeBits::bits2:
      return pair();
    case CodeBits::bits2_1:
      return pair() | (byte(2) >> j & 1) << 2;
    case CodeBits::nibbles:
      return nibble();
    case CodeBits::nibbles_1:
      return nibble() | (byte(4) >> j & 1) << 4;
    case CodeBits::nibbles_2:
      return nibble() | (byte(4 + j / 4) >> (2 * (j % 4)) & 3) << 4;
  }
  return -1;
}

struct Element {
  float value;
  float may_differ;  // by that
};

/// Of integer scales: that of a block, or its offset (`kind` 1).
Element read_integer_scale(const PackedFormat& format, const uint8_t* head, const uint8_t* unit,
                           int row, int64_t block, int64_t kind) {
  float row_unit = 0;
  std::memcpy(&row_unit, head + 4 * row, 4);
  float step = row_unit / (1 << kIntegerScaleBits);
  if (kind == 1) step *= static_cast<float>(offset_parts(format));
  const auto read_i16 = [&](int64_t at) {
    int16_t v = 0;
    std::memcpy(&v, unit + at, 2);
    return int32_t{v};
  };
  float most_error = 0.5F;  // steps
  int32_t count = 0;
  if (format.super_scales) {
    const uint8_t* inner_at = unit + unit_layout(format).inner_at + 4 * row + block % 2 * 2;
    int32_t inner = 0;
    int32_t outer = 0;
    if (format.offsets) {
      inner = inner_at[block / 2 * 64 + kind];
      outer = read_i16(4 * row + 2 * kind);
    } else {
      inner = static_cast<int8_t>(inner_at[block / 4 * 64 + block / 2 % 2]);
      outer = read_i16(4 * row + 2 * (block / kBlocksPerSuper));
    }
    count = (inner * 256 * outer + (1 << 14)) >> 15;
    most_error = 1;  // half of one for each of both
  } else {
    count = read_i16(64 * kind + 4 * row + 2 * block);
  }
  const float value = step * static_cast<float>(count);
  return {value, most_error * step + 2e-7F * std::fabs(value)};
}

float read_half(const uint8_t* p, int64_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, p + 2 * index, 2);
  return f16_to_f32(bits);
}

/// An element of a packed matrix, from the descriptions of UnitLayout and StackLayout.
Element read_element(const WeightLayout& matrix, const uint8_t* packed, int64_t group, int row,
                     int64_t column) {
  const PackedFormat& format = kPackedFormats[static_cast<int>(*matrix.packed)];
  const UnitLayout layout = unit_layout(format);
  const auto bytes_of = [&](int64_t columns) {
    return layout.group_bytes(columns) - layout.head_bytes;
  };
  const uint8_t* head = packed + group * matrix.group_bytes;
  const uint8_t* strip = head + layout.head_bytes;
  int64_t in_strip = column;
  if (matrix.divided) {
    constexpr int64_t kStripColumns = kStripBlocks * kBlockColumns;
    const int64_t in_stack = group % kStackGroups;
    const int64_t num_groups = std::min(kStackGroups, matrix.num_groups - (group - in_stack));
    const uint8_t* stack = packed + (group - in_stack) * matrix.group_bytes;
    in_strip = column % kStripColumns;
    const int64_t first = column - in_strip;
    head = stack + in_stack * layout.head_bytes;
    strip = stack + num_groups * (layout.head_bytes + bytes_of(first)) +
            in_stack * bytes_of(std::min(kStripColumns, matrix.columns - first));
  }
  const int64_t block = in_strip / kBlockColumns % layout.blocks;
  const int64_t in_block = in_strip % kBlockColumns;
  const uint8_t* unit = strip + in_strip / kBlockColumns / layout.blocks * layout.bytes();
  int code = read_code(format.bits, unit + layout.codes_at + block * layout.code_bytes, row,
                       static_cast<int>(in_block));
  if (format.lookup) code = quant::kIq4Levels[code] + 128;
  const auto level = static_cast<float>(code - format.zero_point);
  if (has_integer_scales(format)) {
    const Element scale = read_integer_scale(format, head, unit, row, block, 0);
    Element offset{0, 0};
    if (format.offsets) offset = read_integer_scale(format, head, unit, row, block, 1);
    return {scale.value * level + offset.value,
            scale.may_differ * std::fabs(level) + offset.may_differ};
  }
  const int64_t halves = block / 8 * (format.offsets ? 32 : 16);
  const uint8_t byte = unit[layout.inner_at + (2 * block + in_block / 16) * 16 + row];
  const float scale = read_half(unit, halves + row) *
                      static_cast<float>(format.offsets ? byte & 15 : static_cast<int8_t>(byte));
  const float offset =
      format.offsets ? read_half(unit, halves + 16 + row) * static_cast<float>(byte >> 4) : 0.0F;
  return {scale * level + offset, 0};
}

float read_float(FloatKind kind, const uint8_t* group, int row, int64_t column) {
  if (kind == FloatKind::f32) return reinterpret_cast<const float*>(group)[column * 16 + row];
  const auto* halves = reinterpret_cast<const uint16_t*>(group);
  if (kind == FloatKind::f16) return f16_to_f32(halves[column * 16 + row]);
  return bf16_to_f32(halves[(column / 2 * 16 + row) * 2 + column % 2]);
}

void expect_every_element(const KernelTable& kernels, DType dtype, int64_t rows, int64_t columns,
                          WeightStreams streams) {
  const OwnedTensor matrix = random_matrix(dtype, rows, columns);
  const WeightLayout layout = weight_layout(matrix.view, streams);
  std::vector<uint8_t> packed(static_cast<size_t>(layout.num_bytes()), 0xee);
  for (int64_t g = 0; g < layout.num_groups; ++g) {
    pack_group(kernels, layout, matrix.view, g, packed.data());
  }
  std::vector<float> want(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t group = r / kGroupRows;
    const auto row = static_cast<int>(r % kGroupRows);
    quant::decode_row(dtype, matrix.view.row(r), want.data(), columns);
    for (int64_t c = 0; c < columns; ++c) {
      const uint8_t* floats = packed.data() + group * layout.group_bytes;
      const auto [value, may_differ] = layout.packed
                                           ? read_element(layout, packed.data(), group, row, c)
                                           : Element{read_float(layout.floats, floats, row, c), 0};
      ASSERT_LE(std::fabs(value - want[static_cast<size_t>(c)]), may_differ)
          << "row " << r << " column " << c;
    }
  }
}

TEST(Pack, EveryElementOfEveryFormatComesBack) {
  for (const KernelTable* kernels : tables_with_own(&KernelTable::pack_quantized)) {
    for (const DType dtype : kFormats) {
      SCOPED_TRACE(kernels->name);
      SCOPED_TRACE(info(dtype).name);
      // Two groups and five rows; lines, quads, and a rest.
      const int64_t columns = info(dtype).quantized ? 768 : 45;
      expect_every_element(*kernels, dtype, 37, columns, WeightStreams::in_order);
      // A stack, and one of a group and five rows; two strips, and a part of one.
      expect_every_element(*kernels, dtype, 85, 2304, WeightStreams::in_order);
      expect_every_element(*kernels, dtype, 37, 2304, WeightStreams::one);
    }
  }
}

// Blocks of any bytes, not only what an encoder writes; rows and columns that leave groups, units
// and vectors unfilled. What is there before must not matter.
TEST(Pack, EveryInstructionSetWritesTheSameBytes) {
  std::mt19937 random(12);
  for (const DType dtype : kFormats) {
    for (const int64_t rows : {1, 16, 31, 48}) {
      const int64_t block = info(dtype).quantized ? info(dtype).block_size : 1;
      for (const int64_t blocks : {1, 2, 3, 7, 8, 33, 45, 71}) {
        OwnedTensor matrix(dtype, {rows, block * blocks});
        auto* bytes = static_cast<uint8_t*>(matrix.view.data());
        for (int64_t i = 0; i < matrix.view.num_bytes(); ++i) {
          bytes[i] = static_cast<uint8_t>(random());
        }
        const WeightLayout layout = weight_layout(matrix.view, WeightStreams::in_order);
        const Memory groups(layout.num_bytes());
        const auto pack = [&](const KernelTable& kernels, uint8_t fill, PackInto into) {
          std::memset(groups.data(), fill, static_cast<size_t>(layout.num_bytes()));
          for (int64_t g = 0; g < layout.num_groups; ++g) {
            pack_group(kernels, layout, matrix.view, g, groups.data(), into);
          }
          kernels.order_stores();
          return std::vector<uint8_t>(groups.data(), groups.data() + layout.num_bytes());
        };
        const std::vector<uint8_t> want = pack(*supported_kernels().back(), 0, PackInto::caches);
        for (const KernelTable* supported : tables_with_own(&KernelTable::pack_quantized)) {
          for (const CacheLevel level : {CacheLevel::first, CacheLevel::second}) {
            KernelTable kernels = *supported;
            kernels.asks_into = level;
            for (const PackInto into : {PackInto::caches, PackInto::memory}) {
              EXPECT_EQ(pack(kernels, 0xee, into), want)
                  << kernels.name << " " << info(dtype).name << " " << rows << " x " << blocks
                  << ", lines asked into cache " << static_cast<int>(level) + 1 << ", stored "
                  << (into == PackInto::memory ? "past them" : "through them");
            }
          }
        }
      }
    }
  }
}

// A decode step reads all weights: packed ones must not be much larger than the file.
TEST(Pack, PackedFormatsStayCloseToTheFile) {
  for (const DType dtype : kFormats) {
    const OwnedTensor matrix = random_matrix(dtype, 64, 4096);
    const double ratio = static_cast<double>(weight_layout(matrix.view).num_bytes()) /
                         static_cast<double>(matrix.view.num_bytes());
    EXPECT_LT(ratio, 1.04) << info(dtype).name;
  }
}

TEST(Pack, LongRowsWithIntegerScalesAreDividedWhereTheyAreReadInOrder) {
  const auto is_divided = [](DType dtype, int64_t columns, WeightStreams streams) {
    return weight_layout(OwnedTensor(dtype, {16, columns}).view, streams).divided;
  };
  EXPECT_TRUE(is_divided(DType::q4_0, 2080, WeightStreams::in_order));
  EXPECT_TRUE(is_divided(DType::q4_k, 2304, WeightStreams::in_order));
  EXPECT_FALSE(is_divided(DType::q4_k, 2048, WeightStreams::in_order));
  EXPECT_FALSE(is_divided(DType::q6_k, 8192, WeightStreams::in_order));
  EXPECT_FALSE(is_divided(DType::bf16, 8192, WeightStreams::in_order));
  EXPECT_FALSE(is_divided(DType::q4_k, 8192, WeightStreams::one));
  EXPECT_FALSE(is_divided(DType::q4_k, 8192, WeightStreams::several));
}

TEST(Pack, RefusesIntegers) {
  const OwnedTensor matrix(DType::i32, {4, 4});
  EXPECT_THROW((void)weight_layout(matrix.view), Error);
}

/// weight * x with weights packed or left in the file.
std::vector<float> multiply(const OwnedTensor& matrix, const std::vector<float>& x, int64_t rows,
                            const CpuOptions& options) {
  const auto backend = make_cpu_backend(options);
  const auto weight = backend->prepare_weight(matrix.view);
  std::vector<float> out(static_cast<size_t>(rows * weight->out_features()));
  backend->matmul({.weight = *weight,
                   .x = Tensor(x.data(), DType::f32, {rows, weight->in_features()}),
                   .out = Tensor(out.data(), DType::f32, {rows, weight->out_features()})});
  return out;
}

TEST(PackedWeights, FromAFileTheyGiveTheSameNumbers) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const DType dtype : kFormats) {
    const OwnedTensor matrix = random_matrix(dtype, 16 * 11 + 5, 512);  // several tiles of groups
    for (const int64_t rows : {1, 5, 33}) {
      std::vector<float> x(static_cast<size_t>(rows * 512));
      for (float& v : x) v = normal(random);
      const std::vector<float> want = multiply(matrix, x, rows, {.threads = 2});
      for (const int32_t threads : {1, 2}) {
        EXPECT_EQ(multiply(matrix, x, rows, {.threads = threads, .repack = false}), want)
            << info(dtype).name << " rows " << rows << " threads " << threads;
      }
    }
  }
}

TEST(Pack, RepackIsAChoice) {
  const OwnedTensor matrix = random_matrix(DType::q4_0, 101, 512);
  for (const bool repack : {false, true}) {
    const auto backend = make_cpu_backend({.threads = 1, .repack = repack});
    EXPECT_EQ(backend->prepare_weight(matrix.view)->is_packed(), repack);
  }
}

#if HASTEN_LIMITS_ADDRESS_SPACE
TEST(Pack, WeightsStayInTheFileWhenTheSystemRefusesMemory) {
  const OwnedTensor matrix = random_matrix(DType::q4_0, 101, 512);
  const std::vector<float> x(512, 0.5F);
  Workers workers(1);
  Matmul matmul(*supported_kernels().front(), workers, WeightStreams::one);
  std::unique_ptr<CpuWeight> refused;
  {
    const testing::AddressSpaceLimit limit(int64_t{16} << 20);  // packed ones lie in larger chunks
    refused = matmul.prepare(matrix.view, true);
  }
  const auto packed = matmul.prepare(matrix.view, true);
  EXPECT_FALSE(refused->is_packed());
  EXPECT_TRUE(packed->is_packed()) << "as soon as there is memory";
  const auto product = [&](const CpuWeight& weight) {
    std::vector<float> out(101);
    const ops::MatmulParams params{.weight = weight,
                                   .x = Tensor(x.data(), DType::f32, {1, 512}),
                                   .out = Tensor(out.data(), DType::f32, {1, 101})};
    matmul.run({&params, 1});
    return out;
  };
  const std::vector<float> want = product(*packed);
  EXPECT_NE(want, std::vector<float>(101)) << "nothing was computed";
  EXPECT_EQ(product(*refused), want);
}
#endif

// What a processor prefers changes no number: all ways on this one. What each is good for is for
// kernel_bench to show. The largest matrix is a piece of 65 groups: four streams of 16, or 16
// stacks, and a group that is left. Rows of 2,304 columns are divided where they are read in order.
TEST(PackedWeights, StreamsOfAllKindsGiveTheSameNumbers) {
  struct Way {
    std::string name;
    std::unique_ptr<Matmul> matmul;
    std::unique_ptr<CpuWeight> weight;
  };
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  Workers one(1);
  Workers three(3);  // whose ranges begin within the matrix, and, of many rows, within a stack
  const auto expect_same = [&](const KernelTable& kernels, const OwnedTensor& matrix,
                               std::initializer_list<int64_t> numbers_of_rows, Workers& workers) {
    const int64_t out_features = matrix.view.dim(0);
    const int64_t columns = matrix.view.dim(1);
    std::vector<Way> ways;
    const auto add = [&](std::string name, WeightStreams streams, bool repack) {
      auto matmul = std::make_unique<Matmul>(kernels, workers, streams);
      auto weight = matmul->prepare(matrix.view, repack);
      ways.push_back({std::move(name), std::move(matmul), std::move(weight)});
    };
    add("several streams", WeightStreams::several, true);
    for (const bool repack : {true, false}) {
      const std::string from = repack ? "packed" : "the file";
      add("one stream, " + from, WeightStreams::one, repack);
      if (kernels.reads_in_order) add("in order, " + from, WeightStreams::in_order, repack);
    }
    for (const int64_t rows : numbers_of_rows) {
      std::vector<float> x(static_cast<size_t>(rows * columns));
      for (float& v : x) v = normal(random);
      std::vector<float> first;
      for (const Way& way : ways) {
        std::vector<float> out(static_cast<size_t>(rows * out_features), -1.0F);
        const ops::MatmulParams params{.weight = *way.weight,
                                       .x = Tensor(x.data(), DType::f32, {rows, columns}),
                                       .out = Tensor(out.data(), DType::f32, {rows, out_features})};
        way.matmul->run({&params, 1});
        if (first.empty()) first = out;
        EXPECT_EQ(out, first) << kernels.name << " " << info(matrix.view.dtype()).name << " "
                              << out_features << " x " << columns << ", " << rows << " rows, "
                              << way.name;
      }
    }
  };
  const auto own = tables_with_own(&KernelTable::quant_matmul);
  for (const KernelTable* kernels : supported_kernels()) {
    for (const DType dtype : kFormats) {
      if (dtype != DType::bf16 && std::ranges::find(own, kernels) == own.end()) continue;
      for (const int64_t out_features : {16, 101, 16 * 65}) {
        expect_same(*kernels, random_matrix(dtype, out_features, 256), {1, 2}, one);
      }
      for (const int64_t columns : {2304, 2080}) {  // 65 blocks have a pair of one
        if (columns % info(dtype).block_size != 0) continue;
        expect_same(*kernels, random_matrix(dtype, 16 * 9 + 5, columns), {1, 2, 3, 5, 8, 9, 13},
                    three);
      }
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
