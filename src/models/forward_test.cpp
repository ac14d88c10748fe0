// SPDX-License-Identifier: Apache-2.0
// The forward pass as the engine sees it: limits, rows of logits, batches, memory, arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "hasten_test/temporary_folder.h"
#include "models/allocation_count_test.h"
#include "models/model_session_test.h"
#include "models/tiny_model_test.h"

namespace hasten::models {
namespace {

constexpr const char* kLlamaConfig = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 61,
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": false})";
constexpr const char* kGemma3Config = R"({"architectures": ["Gemma3ForCausalLM"], "vocab_size": 61,
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 7, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 16, "sliding_window": 6,
    "final_logit_softcapping": 3.0)";

std::string gemma3(const std::string& special = "") { return kGemma3Config + special + "}"; }

/// The reference backend posing as a device whose memory the host cannot see; when muted it does
/// nothing, so that only the model's own work remains.
class PretendDevice final : public ops::Backend {
 public:
  bool muted = false;
  std::vector<int64_t> tokens_of_mlps;  // in the order of the layers
  int64_t bytes_brought_in = 0;
  bool brought_in_reserved = false;

  std::string name() const override { return "pretend"; }
  Device device() const override { return {Device::Kind::cuda, 0}; }
  ops::DeviceTensor allocate(DType dtype, Shape shape) override {
    return host_->allocate(dtype, shape);
  }
  void upload(const Tensor& from, const Tensor& to) override { host_->upload(from, to); }
  void download(const Tensor& from, const Tensor& to) override { host_->download(from, to); }
  void synchronize() override {}
  std::unique_ptr<ops::Weight> prepare_weight(const Tensor& source) override {
    return host_->prepare_weight(source);
  }
  std::unique_ptr<ops::Weight> prepare_embedding(const Tensor& source) override {
    return host_->prepare_embedding(source);
  }
  void reserve(const ops::StepLimits& limits) override { host_->reserve(limits); }
  void bring_in_memory(const Tensor& unused) override { bytes_brought_in += unused.num_bytes(); }
  void bring_in_reserved() override { brought_in_reserved = true; }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheSpec& spec) override {
    return host_->make_kv_cache(spec);
  }
  int64_t kv_cache_bytes(const ops::KvCacheSpec& spec) const override {
    return host_->kv_cache_bytes(spec);
  }
  void copy_blocks(ops::KvCache&, std::span<const std::pair<int32_t, int32_t>>) override {}
  void embed(const ops::EmbedParams& params) override {
    if (!muted) host_->embed(params);
  }
  void rms_norm(const ops::RmsNormParams& params) override {
    if (!muted) host_->rms_norm(params);
  }
  void matmul(const ops::MatmulParams& params) override {
    if (!muted) host_->matmul(params);
  }
  void gated_activation(const ops::GatedActivationParams& params) override {
    if (muted) return;
    tokens_of_mlps.push_back(params.gate.dim(0));
    host_->gated_activation(params);
  }
  void add(const Tensor& x, const Tensor& delta) override {
    if (!muted) host_->add(x, delta);
  }
  void take_rows(const Tensor& x, std::span<const int32_t> rows) override {
    if (!muted) host_->take_rows(x, rows);
  }
  void soft_cap(const ops::SoftCapParams& params) override {
    if (!muted) host_->soft_cap(params);
  }
  void rope_angles(const ops::RopeAnglesParams& params) override {
    if (!muted) host_->rope_angles(params);
  }
  void rope(const ops::RopeParams& params) override {
    if (!muted) host_->rope(params);
  }
  void kv_write(const ops::KvWriteParams& params) override {
    if (!muted) host_->kv_write(params);
  }
  void attention(const ops::AttentionParams& params) override {
    if (!muted) host_->attention(params);
  }

 private:
  std::unique_ptr<ops::Backend> host_ = ops::make_reference_backend();
};

class ForwardTest : public ::testing::Test {
 protected:
  const weights::Checkpoint& open(std::string_view config) {
    TinyModel::random(config, 3).write_folder(folder_.path());
    checkpoint_ = weights::open_checkpoint(folder_.path());
    return *checkpoint_;
  }
  static std::vector<int32_t> prompt(int32_t size) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < size; ++i) ids.push_back((i * 17 + 4) % 61);
    return ids;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<const weights::Checkpoint> checkpoint_;
};

ErrorCode error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::io;
}

TEST_F(ForwardTest, LogitRowsAreThoseOfAllRows) {
  const auto ids = prompt(20);
  const std::vector<float> all = ModelSession(open(gemma3())).logits(ids);
  ModelSession session(*checkpoint_);
  const std::vector<int32_t> rows = {3, 19};
  const std::vector<float> some = session.feed(ids, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto begin = all.begin() + rows[i] * 61;
    EXPECT_TRUE(std::equal(begin, begin + 61, some.begin() + static_cast<int64_t>(i) * 61));
  }
  session.reset();
  EXPECT_TRUE(session.feed(ids, {}).empty());
}

// The last layer makes nothing of tokens that no logits come from or behind, and none of a step
// without any.
TEST_F(ForwardTest, LastLayerIsForWantedTokens) {
  auto owner = std::make_unique<PretendDevice>();
  PretendDevice& device = *owner;
  ModelSession session(open(kLlamaConfig), {}, std::move(owner));
  const auto ids = prompt(20);
  for (const auto& [rows, wanted] :
       std::vector<std::pair<std::vector<int32_t>, std::vector<int64_t>>>{
           {{19}, {20, 1}}, {{0, 19}, {20, 20}}, {{7, 9}, {20, 13}}, {{}, {20}}}) {
    session.reset();
    device.tokens_of_mlps.clear();
    session.feed(ids, rows);
    EXPECT_EQ(device.tokens_of_mlps, wanted);
  }
  // Keys and values are there nevertheless.
  const std::vector<float> all = session.logits(ids);
  ModelSession chunked(*checkpoint_);
  chunked.feed(std::span(ids).first(12), {});
  const std::vector<int32_t> last = {7};
  const std::vector<float> logits = chunked.feed(std::span(ids).subspan(12), last);
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), all.end() - 61));
}

TEST_F(ForwardTest, DeviceMemoryIsStagedInPieces) {
  ModelSession direct(open(gemma3()));
  ModelSession staged(*checkpoint_, {}, std::make_unique<PretendDevice>());
  const auto ids = prompt(11);  // more rows than the staging buffer's four
  EXPECT_EQ(staged.logits(ids), direct.logits(ids));
  std::vector<int32_t> rows(9);  // without the first two
  std::iota(rows.begin(), rows.end(), 2);
  staged.reset();
  const std::vector<float> some = staged.feed(ids, rows);
  const std::vector<float> all = direct.logits(ids);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.end() - std::ssize(some)));
  EXPECT_EQ(staged.model().activation_bytes(8, 4),
            direct.model().activation_bytes(8, 4) + 4 * 61 * 4);
}

TEST_F(ForwardTest, BringsInWhatItReserved) {
  auto owner = std::make_unique<PretendDevice>();
  const PretendDevice& device = *owner;
  ModelSession session(open(kLlamaConfig), {}, std::move(owner));
  EXPECT_EQ(device.bytes_brought_in, 0);
  session.model().bring_in();
  EXPECT_EQ(device.bytes_brought_in, session.model().activation_bytes(ModelSession::kMaxTokens, 4));
  EXPECT_TRUE(device.brought_in_reserved);
}

TEST_F(ForwardTest, TokensOutsideTheVocabularyAreTheCallersFault) {
  ModelSession session(open(kLlamaConfig));
  for (const int32_t id : {-1, 61, 2147483647}) {
    const std::vector<int32_t> ids = {1, id};
    session.reset();
    EXPECT_EQ(error_of([&] { session.feed(ids, {}); }), ErrorCode::invalid_argument) << id;
  }
}

TEST_F(ForwardTest, InputBeyondTheReservedLimitsIsABug) {
  ModelSession session(open(kLlamaConfig));
  EXPECT_EQ(error_of([&] { session.feed(prompt(ModelSession::kMaxTokens + 1), {}); }),
            ErrorCode::internal);
  const std::vector<int32_t> outside = {2}, unordered = {1, 0};
  session.reset();
  EXPECT_EQ(error_of([&] { session.feed(prompt(2), outside); }), ErrorCode::internal);
  session.reset();
  EXPECT_EQ(error_of([&] { session.feed(prompt(2), unordered); }), ErrorCode::internal);
}

TEST_F(ForwardTest, SequencesOfOneStepDoNotMeet) {
  ModelSession alone(open(gemma3()));
  const auto first = prompt(9);
  const std::vector<int32_t> second(first.rbegin(), first.rbegin() + 5);
  std::vector<float> expected = alone.logits(first);
  const std::vector<float> tail = alone.logits(second);
  expected.insert(expected.end(), tail.begin(), tail.end());

  const auto backend = ops::make_reference_backend();
  const auto model = load_model(*checkpoint_, *backend);
  model->reserve(32, 2, 64);
  std::vector<int32_t> ids = first, positions, slots, all_rows;
  ids.insert(ids.end(), second.begin(), second.end());
  for (int32_t i = 0; i < 14; ++i) {
    all_rows.push_back(i);
    positions.push_back(i < 9 ? i : i - 9);
    slots.push_back((i < 9 ? 3 : 1) * 16 + positions.back());
  }
  const std::vector<int32_t> query_start = {0, 9, 14}, context_len = {9, 5}, tables = {3, 1};
  // All; one of them from its middle on, and none of the other; the other way round; and both.
  for (const auto& rows : {all_rows, {4, 8}, {13}, {7, 12}}) {
    std::vector<std::unique_ptr<ops::KvCache>> caches;  // empty ones
    std::vector<ops::KvCache*> pointers;
    for (const CacheGroup& group : model->cache_groups()) {
      caches.push_back(
          backend->make_kv_cache({.num_layers = group.num_layers,
                                  .num_blocks = 4,
                                  .num_kv_heads = group.num_kv_heads,
                                  .head_dim = group.head_dim,
                                  .types = {.keys = DType::f32, .values = DType::f32}}));
      pointers.push_back(caches.back().get());
    }
    const std::vector<ops::PagedBatch> batches(caches.size(), {.query_start = query_start,
                                                               .context_len = context_len,
                                                               .block_tables = tables,
                                                               .block_table_stride = 1,
                                                               .slots = slots});
    std::vector<float> logits(rows.size() * 61);
    model->forward({ids, positions, batches, pointers, rows}, logits);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = logits.begin() + static_cast<int64_t>(i) * 61;
      EXPECT_TRUE(std::equal(row, row + 61, expected.begin() + rows[i] * 61)) << rows[i];
    }
  }
}

TEST_F(ForwardTest, AllocatesNothing) {
  PretendDevice device;
  const auto model = load_model(open(gemma3()), device);
  model->reserve(8, 1, 16);
  const std::vector<int32_t> ids = prompt(8), positions = {0, 1, 2, 3, 4, 5, 6, 7}, rows = {2, 7};
  const std::vector<int32_t> query_start = {0, 8}, context_len = {8}, table = {0};
  const std::vector<ops::PagedBatch> batches(2, {.query_start = query_start,
                                                 .context_len = context_len,
                                                 .block_tables = table,
                                                 .block_table_stride = 1,
                                                 .slots = positions});
  const auto cache = device.make_kv_cache({.num_layers = 7,
                                           .num_blocks = 1,
                                           .num_kv_heads = 1,
                                           .head_dim = 16,
                                           .types = {.keys = DType::f32, .values = DType::f32}});
  const std::vector<ops::KvCache*> caches(2, cache.get());
  std::vector<float> logits(8 * 61);
  device.muted = true;  // the reference operations do allocate
  const std::span<const int32_t> some = rows;
  const int64_t before = allocation_count();
  for (const auto wanted : {some, some.last(1), some.first(0), std::span<const int32_t>(positions)})
    model->forward({ids, positions, batches, caches, wanted},
                   std::span(logits).first(wanted.size() * 61));
  EXPECT_EQ(allocation_count(), before);
}

TEST_F(ForwardTest, InfoIsArithmetic) {
  std::vector<std::pair<int64_t, int64_t>> progress;
  const LoadOptions options{
      .progress = [&](int64_t done, int64_t total) { progress.emplace_back(done, total); }};
  const auto backend = ops::make_reference_backend();
  const auto model = load_model(open(kLlamaConfig), *backend, options);
  const ModelInfo& info = model->info();
  // Per layer: Q and O 32x32, K and V 16x32, three matrices of the MLP 48x32.
  const int64_t layers = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32);
  const int64_t table = 61 * 32;
  EXPECT_EQ(info.family, "llama");
  EXPECT_EQ(info.name, folder_.path().filename().string());
  EXPECT_EQ(info.num_parameters, layers + 2 * table + (2 * 2 + 1) * 32);
  EXPECT_EQ(info.weight_bytes, 4 * info.num_parameters);
  EXPECT_EQ(info.bytes_per_token, 4 * (layers + table + 32));  // the embedding: one row
  EXPECT_EQ(info.matmul_ops_per_token, 2 * (layers + table));
  EXPECT_EQ(info.output_ops_per_token, 2 * table);
  EXPECT_EQ(info.last_layer_ops_per_token, 2 * (2 * 32 * 32 + 3 * 48 * 32));
  EXPECT_EQ(info.attention_ops_per_token_key, 4 * 2 * 32);
  EXPECT_EQ(info.weight_types, "f32 (100 %)");
  ASSERT_FALSE(progress.empty());
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), std::pair(info.weight_bytes, info.weight_bytes));
}

TEST_F(ForwardTest, WindowsBecomeCacheGroups) {
  const auto groups = [&](const std::string& config, int64_t context = 0) {
    const auto backend = ops::make_reference_backend();
    const auto model = load_model(open(config), *backend, {.context = context});
    std::vector<std::pair<int64_t, int64_t>> result;
    for (const CacheGroup& group : model->cache_groups())
      result.emplace_back(group.window, group.num_layers);
    return result;
  };
  using Groups = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(groups(gemma3()), (Groups{{6, 6}, {0, 1}}));
  EXPECT_EQ(groups(kLlamaConfig), (Groups{{0, 2}}));
  // A window that nothing outgrows is none.
  std::string wide = gemma3();
  wide.replace(wide.find("\"sliding_window\": 6"), 19, "\"sliding_window\": 128");
  EXPECT_EQ(groups(wide), (Groups{{0, 7}}));
  EXPECT_EQ(groups(wide, 256), (Groups{{128, 6}, {0, 1}}));
  // Mistral's is 4096 where the file does not say.
  std::string mistral = kLlamaConfig;
  mistral.replace(mistral.find("Llama"), 5, "Mistral");
  EXPECT_EQ(groups(mistral, 8192), (Groups{{4096, 2}}));
  mistral.replace(mistral.rfind('}'), 1, R"(, "sliding_window": null})");
  EXPECT_EQ(groups(mistral, 8192), (Groups{{0, 2}}));
}

// The engine may serve less than it was asked for, when memory is short.
TEST_F(ForwardTest, RopeScalingIsFixedByTheServedContext) {
  std::string longrope = kLlamaConfig;
  longrope.replace(longrope.rfind('}'), 1, R"(, "rope_scaling": {"rope_type": "longrope",
      "original_max_position_embeddings": 32, "short_factor": [1.0, 1.1, 1.2, 1.3],
      "long_factor": [1.5, 2.0, 3.0, 4.5]}})");
  const weights::Checkpoint& checkpoint = open(longrope);
  const auto logits = [&](int64_t asked, int64_t served) {
    ModelSession session(checkpoint, {.context = asked}, ops::make_reference_backend(), served);
    return session.logits(prompt(20));
  };
  EXPECT_EQ(logits(0, 32), logits(32, 32));
  EXPECT_NE(logits(0, 32), logits(0, 64));
}

// transformers 5 writes the same in other words.
TEST_F(ForwardTest, NewerConfigMeansTheSame) {
  const auto logits = [&](const std::string& config) {
    return ModelSession(open(config)).logits(prompt(20));
  };
  EXPECT_EQ(logits(gemma3(R"(, "rope_theta": 500000.0, "rope_local_base_freq": 100.0,
                "rope_scaling": {"rope_type": "linear", "factor": 8.0})")),
            logits(gemma3(R"(, "layer_types": ["sliding_attention", "sliding_attention",
                "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
                "sliding_attention"], "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 500000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})")));
  // What the new object leaves out stands where it stood before.
  const auto base = [](const std::string& value) { return R"(, "rope_theta": )" + value; };
  const std::string object = R"(, "rope_parameters": {"rope_type": "linear", "factor": 8.0)";
  EXPECT_EQ(logits(gemma3(base("70.0") + object + "}")),
            logits(gemma3(object + base("70.0") + "}")));
  EXPECT_NE(logits(gemma3(base("70.0") + object + "}")), logits(gemma3(object + "}")));
}

}  // namespace
}  // namespace hasten::models
