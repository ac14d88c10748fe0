// SPDX-License-Identifier: Apache-2.0
// What memory a core takes beside the cache, and when: bytes of steps and of blocks that move, and
// pages that are brought in beforehand.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine/core.h"
#include "engine/core_world_test.h"

namespace hasten::engine {
namespace {

using testing::FakeModelOptions;

TEST(StepBytes, CountsActivationsAndTheMostLogitsOfAStep) {
  class Model final : public testing::FakeModel {
   public:
    using FakeModel::FakeModel;
    int64_t activation_bytes(int64_t max_tokens, int64_t max_sequences) const override {
      return 1000 * max_tokens + max_sequences;
    }
  };
  const Model model(FakeModelOptions{.vocab_size = 100});
  EXPECT_EQ(step_bytes(model, {.step_tokens = 8, .max_batch = 3}), 8003 + (3 + 64) * 100 * 4);
}

TEST(Core, BringsInMemoryOfStepsOnRequest) {
  for (const bool asked : {false, true}) {
    CoreOptions options{.max_batch = 3};
    double told = 0;
    if (asked) options.on_pretouch = [&](double fraction) { told = fraction; };
    const World world(FakeModelOptions{.vocab_size = 100}, options);
    EXPECT_EQ(told, asked ? 1 : 0);
    EXPECT_EQ(world.fake->num_brought_in, asked ? 1 : 0);
    // Of logits, rows for the batch and for a prompt.
    EXPECT_EQ(world.backend.bytes_brought_in, asked ? (3 + 64) * 100 * 4 : 0);
  }
}

TEST(StagingBytes, AreThereWhereADiskIs) {
  class Backend final : public testing::FakeBackend {
   public:
    std::string kv_layout() const override { return layout; }
    int64_t kv_cache_bytes(const ops::KvCacheSpec& /*spec*/) const override { return 1000; }
    std::string layout = "fake";
  };
  Backend backend;
  const testing::FakeModel model(FakeModelOptions{});
  CoreOptions options;
  EXPECT_EQ(staging_bytes(model, backend, options, 1 << 20), 0);
  options.kv_disk.folder = "somewhere";
  // Both ways: a quarter of the cache, of a small one 64 blocks, of a large one 256 MiB.
  EXPECT_EQ(staging_bytes(model, backend, options, 1 << 20), 2 << 18);
  EXPECT_EQ(staging_bytes(model, backend, options, 1000), 2 * 64 * 1000);
  EXPECT_EQ(staging_bytes(model, backend, options, int64_t{8} << 30), 512 << 20);
  backend.layout = "";
  EXPECT_EQ(staging_bytes(model, backend, options, 1 << 20), 0);
}

}  // namespace
}  // namespace hasten::engine
