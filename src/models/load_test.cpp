// SPDX-License-Identifier: Apache-2.0
// Files that lie, lack something or ask for the unknown: each gets one error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "hasten_test/temporary_folder.h"
#include "models/layers/hyperparameters.h"
#include "models/model.h"
#include "models/model_session_test.h"
#include "models/tiny_model_test.h"
#include "weights/gguf_writer.h"

namespace hasten::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 61,
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": true})";

/// The message of the error that loading throws, after its code; "" when nothing is thrown.
std::string load_error(const weights::Checkpoint& checkpoint, const LoadOptions& options = {}) {
  const auto backend = ops::make_reference_backend();
  try {
    (void)load_model(checkpoint, *backend, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return std::string("unsupported: ") + error.what();
    if (error.code() == ErrorCode::invalid_data) return std::string("invalid: ") + error.what();
    return std::string("argument: ") + error.what();
  }
  return {};
}

std::string folder_error(const std::function<void(TinyModel&)>& damage) {
  const testing::TemporaryFolder folder;
  TinyModel model = TinyModel::random(kConfig, 1);
  damage(model);
  model.write_folder(folder.path());
  return load_error(*weights::open_checkpoint(folder.path()));
}

/// The same with one key of config.json set to a JSON value.
std::string config_error(const std::string& key, const std::string& value) {
  return folder_error(
      [&](TinyModel& model) { model.config[key] = json::parse(value, "value of the test"); });
}

void remove(TinyModel& model, std::string_view name) {
  std::erase_if(model.tensors, [&](const TinyTensor& tensor) { return tensor.name == name; });
}

TEST(Load, UndamagedModelLoads) {
  EXPECT_EQ(folder_error([](TinyModel&) {}), "");
}

TEST(Load, MissingTensorIsNamed) {
  EXPECT_THAT(
      folder_error([](TinyModel& m) { remove(m, "model.layers.1.mlp.up_proj.weight"); }),
      AllOf(HasSubstr("invalid"), HasSubstr("no tensor model.layers.1.mlp.up_proj.weight")));
  EXPECT_THAT(folder_error([](TinyModel& m) { remove(m, "model.embed_tokens.weight"); }),
              HasSubstr("no tensor model.embed_tokens.weight"));
  EXPECT_THAT(folder_error([](TinyModel& m) { remove(m, "model.norm.weight"); }),
              HasSubstr("no tensor model.norm.weight"));
}

TEST(Load, OutputThatTheFileSaysIsItsOwnMustBeThere) {
  EXPECT_THAT(config_error("tie_word_embeddings", "false"), HasSubstr("no tensor lm_head.weight"));
}

TEST(Load, RequiredBiasIsNamed) {
  EXPECT_THAT(config_error("architectures", R"(["Qwen2ForCausalLM"])"),
              HasSubstr("no tensor model.layers.0.self_attn.q_proj.bias"));
}

TEST(Load, WrongShapeIsNamedWithFoundAndWanted) {
  const auto reshape = [](const char* name, Shape shape) {
    return folder_error([&](TinyModel& m) {
      m.tensor(name).shape = shape;
      m.tensor(name).values.resize(static_cast<size_t>(shape.num_elements()));
    });
  };
  EXPECT_THAT(reshape("model.layers.0.self_attn.o_proj.weight", {32, 16}),
              AllOf(HasSubstr("invalid"),
                    HasSubstr("model.layers.0.self_attn.o_proj.weight is "
                              "[32, 16]"),
                    HasSubstr("must be [32, 32]")));
  EXPECT_THAT(reshape("model.layers.1.input_layernorm.weight", {31}), HasSubstr("must be [32]"));
  EXPECT_THAT(reshape("model.layers.1.input_layernorm.weight", {1, 32}), HasSubstr("must be [32]"));
  EXPECT_THAT(reshape("model.embed_tokens.weight", {61, 33}), HasSubstr("rows of 32"));
  EXPECT_THAT(reshape("model.embed_tokens.weight", {0, 32}), HasSubstr("1 to 16777216 rows"));
  EXPECT_THAT(reshape("model.embed_tokens.weight", {60, 32}),
              HasSubstr("60 rows for a vocabulary of 61"));
}

TEST(Load, PaddedVocabularyIsWelcome) {
  const testing::TemporaryFolder folder;
  TinyModel model = TinyModel::random(kConfig, 1);
  model.config["vocab_size"] = 50;
  model.write_folder(folder.path());
  const auto checkpoint = weights::open_checkpoint(folder.path());
  EXPECT_EQ(ModelSession(*checkpoint).vocab_size(), 61);
}

TEST(Load, HyperparametersAreBounded) {
  EXPECT_THAT(config_error("num_hidden_layers", "5000"),
              AllOf(HasSubstr("invalid"), HasSubstr("num_hidden_layers is 5000"),
                    HasSubstr("between 1 and 1024")));
  EXPECT_THAT(config_error("num_hidden_layers", "-1"), HasSubstr("num_hidden_layers is -1"));
  EXPECT_THAT(config_error("num_hidden_layers", "null"), HasSubstr("has no num_hidden_layers"));
  EXPECT_THAT(config_error("num_hidden_layers", "2.5"), HasSubstr("must be a whole number"));
  EXPECT_THAT(config_error("hidden_size", "\"32\""), HasSubstr("hidden_size must be a whole"));
  EXPECT_THAT(config_error("hidden_size", "1e18"), HasSubstr("hidden_size"));
  EXPECT_THAT(config_error("num_attention_heads", "0"), HasSubstr("num_attention_heads is 0"));
  EXPECT_THAT(config_error("num_attention_heads", "33"), HasSubstr("has no head_dim"));
  EXPECT_THAT(config_error("num_key_value_heads", "3"),
              HasSubstr("4 attention heads do not divide among 3 key/value heads"));
  EXPECT_THAT(config_error("head_dim", "1000"), HasSubstr("head_dim is 1000"));
  EXPECT_THAT(config_error("head_dim", "7"), HasSubstr("7 rotary dimensions; they must be even"));
  EXPECT_THAT(config_error("partial_rotary_factor", "0.1"), HasSubstr("0 rotary dimensions"));
  EXPECT_THAT(config_error("rms_norm_eps", "0"), HasSubstr("rms_norm_eps is 0"));
  EXPECT_THAT(config_error("rms_norm_eps", "-1e-5"), HasSubstr("rms_norm_eps is -1e-05"));
  EXPECT_THAT(config_error("rope_theta", "0"), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(config_error("max_position_embeddings", "0"), HasSubstr("max_position_embeddings"));
  EXPECT_THAT(config_error("sliding_window", "-4"), HasSubstr("sliding_window is -4"));
  EXPECT_THAT(config_error("vocab_size", "99999999999"), HasSubstr("vocab_size is 99999999999"));
  EXPECT_THAT(config_error("tie_word_embeddings", "1"), HasSubstr("must be true or false"));
}

TEST(Load, UnknownKindsAreNamed) {
  EXPECT_THAT(config_error("architectures", R"(["MambaForCausalLM"])"),
              AllOf(HasSubstr("unsupported"), HasSubstr("\"MambaForCausalLM\" is not supported"),
                    HasSubstr("Qwen3ForCausalLM")));
  EXPECT_THAT(config_error("architectures", R"(["\u001b[2J"])"), HasSubstr(R"("\x1b[2J" is not)"));
  EXPECT_THAT(config_error("architectures", "[]"), HasSubstr("architectures must name"));
  EXPECT_THAT(config_error("hidden_act", "\"relu\""),
              AllOf(HasSubstr("unsupported"), HasSubstr("activation \"relu\"")));
  EXPECT_THAT(config_error("hidden_act", R"("\u001b")"), HasSubstr(R"(activation "\x1b")"));
  EXPECT_THAT(config_error("quantization_config", R"({"quant_method": "awq"})"),
              AllOf(HasSubstr("unsupported"), HasSubstr("quantised by \"awq\"")));
  EXPECT_THAT(config_error("layer_types", R"(["full_attention", "linear_attention"])"),
              AllOf(HasSubstr("unsupported"), HasSubstr("\"linear_attention\"")));
  EXPECT_THAT(config_error("layer_types", R"(["full_attention"])"),
              HasSubstr("layer_types names 1 layers of 2"));
  EXPECT_THAT(config_error("use_bidirectional_attention", "true"), HasSubstr("unsupported"));
}

TEST(Load, RopeScalingIsChecked) {
  const auto scaling = [](const std::string& value) { return config_error("rope_scaling", value); };
  EXPECT_THAT(scaling(R"({"rope_type": "mrope", "factor": 2})"),
              AllOf(HasSubstr("unsupported"), HasSubstr("type \"mrope\"")));
  EXPECT_THAT(scaling(R"({"rope_type": "\u001b"})"), HasSubstr(R"(type "\x1b")"));
  EXPECT_THAT(scaling(R"({"type": "linear"})"), HasSubstr("has no rope_scaling.factor"));
  EXPECT_THAT(scaling(R"({"type": "linear", "factor": 0.5})"), HasSubstr("factor is 0.5"));
  EXPECT_THAT(scaling(R"({"type": "llama3", "factor": 8, "low_freq_factor": 1,
                          "high_freq_factor": 4})"),
              HasSubstr("has no original_max_position_embeddings"));
  EXPECT_THAT(scaling(R"({"type": "llama3", "factor": 8, "low_freq_factor": 4,
                          "high_freq_factor": 4, "original_max_position_embeddings": 32})"),
              HasSubstr("high_freq_factor 4 is not above low_freq_factor 4"));
  EXPECT_THAT(scaling(R"({"type": "longrope", "factor": 2, "short_factor": [1, 1, 1, 1],
                          "long_factor": [1, 1, 1]})"),
              HasSubstr("rope_scaling.long_factor has 3 numbers; it must have 4"));
  EXPECT_THAT(scaling(R"({"type": "longrope", "factor": 2, "short_factor": [1, 1, 0, 1],
                          "long_factor": [1, 1, 1, 1]})"),
              HasSubstr("rope_scaling.short_factor is 0"));
  EXPECT_THAT(scaling("7"), HasSubstr("rope_scaling must be an object"));
}

TEST(Load, ContextIsAnArgument) {
  const testing::TemporaryFolder folder;
  TinyModel::random(kConfig, 1).write_folder(folder.path());
  const auto checkpoint = weights::open_checkpoint(folder.path());
  EXPECT_THAT(load_error(*checkpoint, {.context = -1}), HasSubstr("argument: a context of -1"));
  EXPECT_EQ(load_error(*checkpoint, {.context = 6400}), "");  // more than trained for: a warning
}

/// A GGUF file of nothing but what `write` puts in.
std::string gguf_error(const std::function<void(weights::GgufWriter&)>& write) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "bad.gguf";
  weights::GgufWriter writer(path);
  write(writer);
  writer.finish();
  return load_error(*weights::open_checkpoint(path));
}

void write_sizes(weights::GgufWriter& writer, float epsilon = 1e-5F, uint32_t value_length = 8,
                 uint32_t num_layers = 1) {
  writer.set_string("general.architecture", "llama");
  writer.set_u32("llama.block_count", num_layers);
  writer.set_u32("llama.embedding_length", 32);
  writer.set_u32("llama.feed_forward_length", 48);
  writer.set_u32("llama.context_length", 64);
  writer.set_u32("llama.attention.head_count", 4);
  writer.set_u32("llama.attention.value_length", value_length);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", epsilon);
}

void write_tensor(weights::GgufWriter& writer, const char* name, const std::vector<float>& values) {
  writer.declare(name, DType::f32, {static_cast<int64_t>(values.size())});
  writer.append(std::as_bytes(std::span(values)));
}

TEST(Load, GgufErrorsNameTheKey) {
  EXPECT_THAT(gguf_error([](auto& w) { w.set_string("general.name", "x"); }),
              HasSubstr("has no general.architecture"));
  EXPECT_THAT(gguf_error([](auto& w) { w.set_string("general.architecture", "mamba"); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("\"mamba\""), HasSubstr("llama, qwen2")));
  EXPECT_THAT(gguf_error([](auto& w) { w.set_string("general.architecture", "llama"); }),
              HasSubstr("has no llama.block_count"));
  EXPECT_THAT(gguf_error([](auto& w) { write_sizes(w); }),
              HasSubstr("no tensor token_embd.weight"));
  EXPECT_THAT(gguf_error([](auto& w) { write_sizes(w, std::nanf("")); }),
              HasSubstr("llama.attention.layer_norm_rms_epsilon is nan"));
  EXPECT_THAT(gguf_error([](auto& w) { write_sizes(w, 1e-5F, 16); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("values of 16 elements")));
  EXPECT_THAT(gguf_error([](auto& w) {
                write_sizes(w);
                w.set_i32s("llama.attention.head_count_kv", std::vector<int32_t>{2, 4});
              }),
              AllOf(HasSubstr("unsupported"), HasSubstr("head_count_kv differs from layer")));
  EXPECT_THAT(gguf_error([](auto& w) {
                write_sizes(w);
                w.set_u32("llama.expert_count", 8);
              }),
              AllOf(HasSubstr("unsupported"), HasSubstr("mixtures of experts")));
  EXPECT_THAT(gguf_error([](auto& w) {
                write_sizes(w);
                w.set_string("llama.rope.scaling.type", "spiral");
              }),
              HasSubstr("type \"spiral\""));
}

// Files of the first years name the factor otherwise, or not its type.
TEST(Load, OldNamesOfLinearScalingAreRead) {
  const auto scaling_of = [](const char* key, const char* type) {
    const testing::TemporaryFolder folder;
    const auto path = folder.path() / "old.gguf";
    weights::GgufWriter writer(path);
    write_sizes(writer);
    writer.set_f32(std::string("llama.") + key, 4.0F);
    if (type != nullptr) writer.set_string("llama.rope.scaling.type", type);
    writer.finish();
    Hyperparameters defaults;
    defaults.rope_base = 10000.0;
    return read_hyperparameters(*weights::open_checkpoint(path), defaults).rope_scaling;
  };
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    for (const char* type : {"linear", static_cast<const char*>(nullptr)}) {
      EXPECT_EQ(scaling_of(key, type).kind, RopeScaling::Kind::linear) << key;
      EXPECT_EQ(scaling_of(key, type).factor, 4.0) << key;
    }
  }
  EXPECT_EQ(scaling_of("rope.scale_linear", "none").kind, RopeScaling::Kind::none);
}

TEST(Load, GgufSaysWhichLayersHaveAWindow) {
  const auto windows = [](const std::function<void(weights::GgufWriter&)>& write) {
    const testing::TemporaryFolder folder;
    const auto path = folder.path() / "windows.gguf";
    weights::GgufWriter writer(path);
    write_sizes(writer, 1e-5F, 8, 4);
    writer.set_u32("llama.attention.sliding_window", 7);
    write(writer);
    writer.finish();
    Hyperparameters defaults;
    defaults.rope_base = 10000.0;
    defaults.window_pattern = 4;
    const Hyperparameters h = read_hyperparameters(*weights::open_checkpoint(path), defaults);
    return std::vector<int64_t>{h.layer_window(0), h.layer_window(1), h.layer_window(2),
                                h.layer_window(3)};
  };
  const std::string key = "llama.attention.sliding_window_pattern";
  using ::testing::ElementsAre;
  EXPECT_THAT(windows([](auto&) {}), ElementsAre(7, 7, 7, 0));
  EXPECT_THAT(windows([&](auto& w) { w.set_u32(key, 2); }), ElementsAre(7, 0, 7, 0));
  EXPECT_THAT(windows([&](auto& w) { w.set_u32(key, 0); }), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(windows([&](auto& w) {
                w.set_i32s(key, std::vector<int32_t>{0, 1, 1, 0});
              }),
              ElementsAre(0, 7, 7, 0));
  EXPECT_THAT(gguf_error([&](auto& w) {
                write_sizes(w);
                w.set_i32s(key, std::vector<int32_t>{0, 1});
              }),
              HasSubstr("sliding_window_pattern has 2 elements for 1 layers"));
}

TEST(Load, GgufRopeTensorsAreChecked) {
  const auto with = [](const char* name, const std::vector<float>& values) {
    return gguf_error([&](weights::GgufWriter& writer) {
      write_sizes(writer);
      write_tensor(writer, name, values);
    });
  };
  EXPECT_THAT(with("rope_freqs.weight", {1, 1, 1}), HasSubstr("[3]; by the model's"));
  EXPECT_THAT(with("rope_freqs.weight", {1, 1, 0, 1}), HasSubstr("rope_freqs.weight has 0"));
  EXPECT_THAT(with("rope_freqs.weight", {1, 1, std::numeric_limits<float>::infinity(), 1}),
              HasSubstr("rope_freqs.weight has inf"));
  EXPECT_THAT(with("rope_factors_long.weight", {1, 1, 1, 1}), HasSubstr("only one is there"));
}

}  // namespace
}  // namespace hasten::models
