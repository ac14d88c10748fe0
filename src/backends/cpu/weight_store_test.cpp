// SPDX-License-Identifier: Apache-2.0
// WeightStore: weights packed many at a time are what each is alone, by the time they have to be.
#include "backends/cpu/weight_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <stop_token>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/random_matrix_test.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kMatrixBytes = 1 << 20;

WeightLayout layout_of(const Tensor& source) {
  return weight_layout(source, WeightStreams::in_order);  // long rows are divided
}

std::vector<uint8_t> packed_alone(const KernelTable& kernels, const Tensor& source) {
  const WeightLayout layout = layout_of(source);
  std::vector<uint8_t> packed(static_cast<size_t>(layout.num_bytes()));
  for (int64_t g = 0; g < layout.num_groups; ++g) {
    pack_group(kernels, layout, source, g, packed.data());
  }
  return packed;
}

bool is_same(const Arena::Piece& piece, const std::vector<uint8_t>& wanted) {
  return std::memcmp(piece.get(), wanted.data(), wanted.size()) == 0;
}

TEST(WeightStore, PacksManyAsEachAlone) {
  const KernelTable& kernels = *supported_kernels().front();
  std::vector<OwnedTensor> sources;
  for (const DType dtype : {DType::q4_0, DType::f32, DType::q6_k, DType::bf16, DType::q8_0}) {
    for (const int64_t rows : {int64_t{16} * 40, int64_t{3}, int64_t{101}}) {
      sources.push_back(random_matrix(dtype, rows, 512, static_cast<uint32_t>(sources.size())));
    }
  }
  sources.push_back(random_matrix(DType::q4_k, 16 * 50 + 7, 2304, 77));  // divided
  for (const int32_t threads : {1, 2, 3}) {
    Workers workers(threads);
    WeightStore store(kernels, workers);
    std::vector<Arena::Piece> earlier;
    for (int round = 0; round < 2; ++round) {  // the second one begins in the middle of a page
      std::vector<Arena::Piece> packed;
      for (const OwnedTensor& source : sources) {
        packed.push_back(store.add(layout_of(source.view), source.view));
        ASSERT_NE(packed.back(), nullptr) << "too little memory for this test";
      }
      store.pack_added();
      for (size_t i = 0; i < sources.size(); ++i) {
        EXPECT_TRUE(is_same(packed[i], packed_alone(kernels, sources[i].view)))
            << threads << " threads, round " << round << ", weight " << i;
      }
      earlier.insert(earlier.end(), packed.begin(), packed.end());
    }
  }
}

// Some on memory that was brought in ahead, one partly, and some behind it; and more than come.
TEST(WeightStore, PacksTheSameIntoMemoryBroughtInAhead) {
  const KernelTable& kernels = *supported_kernels().front();
  std::vector<OwnedTensor> sources;
  for (const DType dtype : {DType::q4_k, DType::f16, DType::q5_0, DType::q8_0}) {
    sources.push_back(random_matrix(dtype, 805, 2304, static_cast<uint32_t>(sources.size())));
  }
  sources.push_back(random_matrix(DType::q4_0, 1605, 1024, 9));  // not divided
  for (const size_t num_ahead : {size_t{1}, size_t{2}, size_t{4}, size_t{40}}) {
    Workers workers(2);
    WeightStore store(kernels, workers);
    std::vector<Tensor> ahead;
    for (size_t i = 0; i < num_ahead; ++i) ahead.push_back(sources[i % sources.size()].view);
    EXPECT_GT(store.bring_in(ahead, std::stop_token()), 0) << "too little memory for this test";
    std::vector<Arena::Piece> packed;
    for (const OwnedTensor& source : sources) {
      packed.push_back(store.add(layout_of(source.view), source.view));
      ASSERT_NE(packed.back(), nullptr) << "too little memory for this test";
    }
    store.finish();
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_TRUE(is_same(packed[i], packed_alone(kernels, sources[i].view)))
          << "brought in for " << num_ahead << ", weight " << i;
    }
  }
}

TEST(WeightStore, AChunkIsPackedBeforeTheNextBegins) {
  const KernelTable& kernels = *supported_kernels().front();
  const OwnedTensor source = random_matrix(DType::bf16, 16, 4096, 1);
  OwnedTensor large(DType::bf16, {40 * kMatrixBytes / 8192, 4096});
  for (int64_t r = 0; r < large.view.dim(0); ++r) {
    std::memcpy(large.view.row(r), source.view.row(r % 16), 8192);
  }
  Workers workers(2);
  WeightStore store(kernels, workers);
  const WeightLayout layout = weight_layout(large.view);
  const Arena::Piece first = store.add(layout, large.view);
  ASSERT_NE(first, nullptr) << "too little memory for this test";
  const std::vector<uint8_t> wanted = packed_alone(kernels, source.view);
  const auto last_group = [&](const Arena::Piece& piece) {
    return piece.get() + (layout.num_groups - 1) * layout.group_bytes;
  };
  EXPECT_NE(std::memcmp(last_group(first), wanted.data(), wanted.size()), 0) << "not put off";
  const Arena::Piece second = store.add(layout, large.view);
  ASSERT_NE(second, nullptr) << "too little memory for this test";
  EXPECT_EQ(std::memcmp(last_group(first), wanted.data(), wanted.size()), 0);
  EXPECT_NE(std::memcmp(last_group(second), wanted.data(), wanted.size()), 0) << "not put off";
  store.pack_added();
  EXPECT_EQ(std::memcmp(last_group(second), wanted.data(), wanted.size()), 0);
}

TEST(WeightStore, EnoughIsPackedAtOnce) {
  const KernelTable& kernels = *supported_kernels().front();
  OwnedTensor source(DType::bf16, {64 * kMatrixBytes / 8192, 4096});
  std::memset(source.view.data(), 0x11, static_cast<size_t>(source.view.num_bytes()));
  Workers workers(2);
  WeightStore store(kernels, workers);
  const WeightLayout layout = weight_layout(source.view);
  const Arena::Piece packed = store.add(layout, source.view);
  ASSERT_NE(packed, nullptr) << "too little memory for this test";
  EXPECT_EQ(packed.get()[0], 0x11);
  EXPECT_EQ(packed.get()[layout.num_bytes() - 1], 0x11);
}

TEST(WeightStore, DoesNotReadWhatWasGivenUp) {
  const KernelTable& kernels = *supported_kernels().front();
  void* const unreadable =
      mmap(nullptr, kMatrixBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unreadable, MAP_FAILED);
  const Tensor gone(static_cast<const void*>(unreadable), DType::bf16, {256, 2048});
  const OwnedTensor source = random_matrix(DType::q4_k, 64, 1024, 2);
  Workers workers(2);
  WeightStore store(kernels, workers);
  EXPECT_NE(store.add(weight_layout(gone), gone), nullptr);  // for nobody
  const Arena::Piece kept = store.add(layout_of(source.view), source.view);
  EXPECT_NE(store.add(weight_layout(gone), gone), nullptr);
  store.pack_added();
  EXPECT_TRUE(is_same(kept, packed_alone(kernels, source.view)));
  EXPECT_EQ(munmap(unreadable, kMatrixBytes), 0);
}

std::vector<float> product(ops::Backend& backend, const ops::Weight& weight) {
  const std::vector<float> x(static_cast<size_t>(weight.in_features()), 0.25F);
  std::vector<float> out(static_cast<size_t>(weight.out_features()));
  backend.matmul({.weight = weight,
                  .x = Tensor(x.data(), DType::f32, {1, weight.in_features()}),
                  .out = Tensor(out.data(), DType::f32, {1, weight.out_features()})});
  return out;
}

TEST(WeightStore, WeightsAreReadyOnceTheBackendIsInSync) {
  OwnedTensor source = random_matrix(DType::q4_0, 48, 256, 3);
  const auto other = make_cpu_backend({.threads = 1});
  const std::vector<float> wanted = product(*other, *other->prepare_weight(source.view));
  EXPECT_NE(wanted, std::vector<float>(48));
  const auto backend = make_cpu_backend({.threads = 2});
  const auto weight = backend->prepare_weight(source.view);
  backend->synchronize();
  std::memset(source.view.data(), 0, static_cast<size_t>(source.view.num_bytes()));
  EXPECT_EQ(product(*backend, *weight), wanted);
}

}  // namespace
}  // namespace hasten::cpu
