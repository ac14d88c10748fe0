// SPDX-License-Identifier: Apache-2.0
// Tests of synthetic models: they open, decode, have the published sizes and valid vocabularies.
#include "weights/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "hasten_test/paths.h"
#include "hasten_test/temporary_folder.h"
#include "quant/codec.h"
#include "weights/checkpoint.h"
#include "weights/synth/random_weights.h"
#include "weights/synth/shapes.h"
#include "weights/synth/tensors.h"

namespace hasten::weights {
namespace {

using synthetic::ModelShape;
using ::testing::HasSubstr;

const ModelShape& shape_named(std::string_view name) {
  for (const ModelShape& shape : synthetic::model_shapes()) {
    if (shape.name == name) return shape;
  }
  throw std::runtime_error("no such shape");
}

bool is_tiny(std::string_view name) { return name.starts_with("tiny-"); }

std::vector<float> decoded(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  for (int64_t r = 0; r < tensor.num_rows(); ++r) {
    quant::decode_row(tensor.dtype(), tensor.row(r), values.data() + r * tensor.shape().back(),
                      tensor.shape().back());
  }
  return values;
}

struct Moments {
  double mean;
  double deviation;
};

Moments moments(const std::vector<float>& values) {
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    EXPECT_TRUE(std::isfinite(value));
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count - std::pow(sum / count, 2))};
}

void check_vocabulary(const Metadata& metadata, int64_t size) {
  const auto tokens = metadata.get_strings("tokenizer.ggml.tokens");
  ASSERT_EQ(std::ssize(tokens), size);
  const std::set<std::string_view> known(tokens.begin(), tokens.end());
  EXPECT_EQ(known.size(), tokens.size());
  EXPECT_EQ(metadata.get_i64s("tokenizer.ggml.token_type", std::ssize(tokens)).size(),
            tokens.size());
  for (const char* role : {"bos", "eos", "padding"})
    EXPECT_LT(metadata.get_i64(std::string("tokenizer.ggml.") + role + "_token_id"), size);
  EXPECT_FALSE(metadata.get_string("tokenizer.chat_template").empty());
  if (metadata.get_string("tokenizer.ggml.model") == "llama") {
    EXPECT_EQ(metadata.get_f32s("tokenizer.ggml.scores", std::ssize(tokens)).size(), tokens.size());
    EXPECT_TRUE(known.contains("<0xFF>"));
    EXPECT_TRUE(known.contains("\u2581t"));
    return;
  }
  EXPECT_TRUE(known.contains("\u0120t"));  // a space and a t
  std::set<std::string_view> merged;
  for (const std::string_view merge : metadata.get_strings("tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ');
    const std::string whole(std::string(merge.substr(0, space)) +
                            std::string(merge.substr(space + 1)));
    ASSERT_TRUE(known.contains(merge.substr(0, space)) && known.contains(merge.substr(space + 1)) &&
                known.contains(whole))
        << merge;
    merged.insert(*known.find(whole));
  }
  EXPECT_EQ(merged.size(), metadata.get_strings("tokenizer.ggml.merges").size());
}

// Every type for one shape; one of each kind for the others.
std::vector<DType> types_to_try(std::string_view shape) {
  std::vector<DType> types = {DType::f32, DType::q4_0, DType::q6_k};
  if (shape != "tiny-llama") return types;
  types.clear();
  for (const DTypeInfo& row : dtypes())
    if (quant::has_codec(row.dtype)) types.push_back(row.dtype);
  return types;
}

TEST(Synth, TinyShapesOpenInEveryType) {
  const testing::TemporaryFolder folder;
  int num_models = 0;
  for (const std::string_view name : synth_shapes()) {
    if (!is_tiny(name)) continue;
    for (const DType type : types_to_try(name)) {
      SynthOptions options{
          .shape = std::string(name), .type = type, .out = folder.path() / "m.gguf"};
      int64_t last_done = 0;
      int64_t total = 0;
      options.progress = [&](int64_t done, int64_t all) {
        EXPECT_GE(done, last_done);
        last_done = done;
        total = all;
      };
      EXPECT_EQ(synth_type(info(type).name), type);
      const SynthResult result = synth(options);
      ++num_models;
      EXPECT_EQ(last_done, total);
      EXPECT_LT(result.num_bytes, 2 << 20) << name << " " << info(type).name;

      const auto checkpoint = open_checkpoint(options.out);
      const auto plans = synthetic::plan_tensors(shape_named(name), type);
      ASSERT_EQ(checkpoint->tensors().size(), plans.size());
      for (const auto& plan : plans) {
        const Tensor* tensor = checkpoint->find(plan.name);
        ASSERT_NE(tensor, nullptr) << plan.name;
        EXPECT_EQ(tensor->shape(), plan.shape);
        const auto values = decoded(*tensor);
        // Two-bit weights lose a good part of their variance.
        if (plan.deviation > 0 && values.size() > 1000) {
          const Moments found = moments(values);
          EXPECT_NEAR(found.mean / plan.deviation, 0, 0.12) << plan.name;
          EXPECT_NEAR(found.deviation / plan.deviation, 1, 0.12) << plan.name;
        }
      }
      const Metadata& metadata = checkpoint->metadata();
      const std::string family(metadata.get_string("general.architecture"));
      EXPECT_EQ(metadata.get_i64(family + ".block_count"), shape_named(name).num_layers);
      EXPECT_EQ(metadata.get_i64(family + ".embedding_length"), shape_named(name).hidden);
      check_vocabulary(metadata, shape_named(name).vocabulary_size);
    }
  }
  EXPECT_EQ(num_models, 15 + 6 * 3);
}

TEST(Synth, RealShapesHaveThePublishedNumberOfParameters) {
  // As the models' own pages and safetensors indexes count them; a tied output counts once.
  const std::map<std::string_view, int64_t> published = {
      {"llama-3.2-1b", 1235814400}, {"llama-3.1-8b", 8030261248}, {"qwen2.5-0.5b", 494032768},
      {"smollm2-135m", 134515008},  {"qwen3-0.6b", 596049920},    {"qwen3-8b", 8190735360},
      {"gemma-2-2b", 2614341888},   {"phi-3-mini", 3821079552},   {"phi-3-mini-128k", 3821079552},
      {"mistral-7b", 7248023552},
  };
  for (const std::string_view name : synth_shapes()) {
    if (is_tiny(name)) continue;
    int64_t count = 0;
    for (const auto& plan : synthetic::plan_tensors(shape_named(name), DType::q4_0)) {
      if (plan.values.empty()) count += plan.shape.num_elements();
    }
    EXPECT_EQ(count, published.at(name)) << name;
  }
}

TEST(Synth, FallsBackAsLlamaCppDoes) {
  using synthetic::storable_type;
  EXPECT_EQ(storable_type(DType::q4_k, 2048), DType::q4_k);
  EXPECT_EQ(storable_type(DType::q4_k, 896), DType::q5_0);
  EXPECT_EQ(storable_type(DType::q5_k, 896), DType::q5_1);
  EXPECT_EQ(storable_type(DType::q6_k, 896), DType::q8_0);
  EXPECT_EQ(storable_type(DType::q2_k, 896), DType::iq4_nl);
  EXPECT_EQ(storable_type(DType::iq4_xs, 896), DType::iq4_nl);
  EXPECT_EQ(storable_type(DType::q4_0, 120), DType::f16);
  EXPECT_EQ(storable_type(DType::f32, 7), DType::f32);
  const testing::TemporaryFolder folder;
  const SynthResult result =
      synth({.shape = "tiny-llama", .type = DType::q4_k, .out = folder.path() / "m.gguf"});
  EXPECT_EQ(result.tensors_of_type.at(DType::q4_k), 2);  // ffn_down of both layers, 256 wide
  EXPECT_EQ(result.tensors_of_type.at(DType::q5_0), 14);
}

TEST(Synth, ScalesRope) {
  for (const auto& plan : synthetic::plan_tensors(shape_named("llama-3.2-1b"), DType::q4_0)) {
    if (plan.name != "rope_freqs.weight") continue;
    ASSERT_EQ(plan.values.size(), 32U);
    EXPECT_EQ(plan.values.front(), 1.0F);
    EXPECT_EQ(plan.values.back(), 32.0F);
    // Frequency 15: wavelength 2 pi 500000^(30/64) = 2948.4, 2.7785 turns in 8192 tokens,
    // 1 / ((1 - 0.59285) / 32 + 0.59285) = 1.65133.
    EXPECT_NEAR(plan.values[15], 1.65133, 1e-5);
  }
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "m.gguf";
  synth({.shape = "tiny-phi3", .type = DType::q8_0, .out = path});
  const auto checkpoint = open_checkpoint(path);
  EXPECT_EQ(checkpoint->find("rope_factors_long.weight")->shape(), (Shape{12}));
  EXPECT_EQ(checkpoint->metadata().get_i64("phi3.rope.scaling.original_context_length"), 64);
  // sqrt(1 + ln 8 / ln 64)
  EXPECT_NEAR(checkpoint->metadata().get_f64("phi3.rope.scaling.attn_factor"), 1.224745, 1e-6);
}

TEST(Synth, VocabulariesOfRealSizeAreValid) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "v.gguf";
  std::set<std::pair<synthetic::VocabularyKind, int64_t>> checked;
  for (const ModelShape& shape : synthetic::model_shapes()) {
    if (is_tiny(shape.name)) continue;
    if (!checked.emplace(shape.vocabulary, shape.vocabulary_size).second) continue;
    GgufWriter writer(path);
    synthetic::write_vocabulary(writer, shape.vocabulary, shape.vocabulary_size);
    writer.finish();
    check_vocabulary(open_checkpoint(path)->metadata(), shape.vocabulary_size);
  }
}

TEST(Synth, SameSeedSameBytes) {
  const testing::TemporaryFolder folder;
  const auto bytes = [&](uint64_t seed) {
    const auto path = folder.path() / "m.gguf";
    synth({.shape = "tiny-qwen3", .type = DType::q5_k, .out = path, .seed = seed});
    return hasten::testing::read_file(path);
  };
  const std::string first = bytes(1);
  EXPECT_EQ(first, bytes(1));
  EXPECT_NE(first, bytes(2));
}

TEST(Synth, LargeTensorsComeFromAPool) {
  for (const DType type : {DType::f32, DType::bf16, DType::q4_0, DType::q4_k, DType::iq4_xs}) {
    synthetic::RandomWeights weights(1);
    const int64_t count = (int64_t{1} << 21) + 256 * 3;
    std::vector<std::byte> bytes;
    weights.generate(type, 0, 0.02F, count, 9, [&](std::span<const std::byte> part) {
      bytes.insert(bytes.end(), part.begin(), part.end());
    });
    ASSERT_EQ(std::ssize(bytes), row_bytes(type, count));
    const Tensor tensor(static_cast<const void*>(bytes.data()), type, {1, count});
    const Moments found = moments(decoded(tensor));
    EXPECT_NEAR(found.mean / 0.02, 0, 0.05) << info(type).name;
    EXPECT_NEAR(found.deviation / 0.02, 1, 0.05) << info(type).name;
    const auto row = row_bytes(type, 4096);
    EXPECT_FALSE(std::equal(bytes.begin(), bytes.begin() + row, bytes.begin() + row));
  }
}

TEST(Synth, NamesWhatItDoesNotKnow) {
  const testing::TemporaryFolder folder;
  const auto message = [&](const char* shape, DType type) -> std::string {
    try {
      synth({.shape = shape, .type = type, .out = folder.path() / "m.gguf"});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("gpt-9", DType::q4_0),
              HasSubstr("--shape gpt-9 is unknown; known: llama-3.2-1b "));
  EXPECT_THAT(message("tiny-llama", DType::i8), HasSubstr("cannot be of type i8"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace hasten::weights
