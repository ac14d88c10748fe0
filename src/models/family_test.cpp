// SPDX-License-Identifier: Apache-2.0
// Every family and every kind of RoPE scaling on small random models: GGUF against safetensors,
// both against a float64 oracle in numpy, chunked prompts against whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "hasten_test/errors.h"
#include "hasten_test/paths.h"
#include "hasten_test/temporary_folder.h"
#include "models/model_session_test.h"
#include "models/tiny_model_test.h"

namespace hasten::models {
namespace {

struct Case {
  std::string name;
  std::string config;
  int64_t context = 0;  // of LoadOptions; 0: the model's own
  bool gguf = true;     // whether GGUF can say all that the config says
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

/// A config with the sizes that most cases share, and what is special to one.
std::string config(const std::string& architecture, const std::string& special) {
  return R"({"architectures": [")" + architecture + R"("], "vocab_size": 61, "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, )" +
         special + "}";
}

std::string gemma(const std::string& architecture, int layers, const std::string& special) {
  return R"({"architectures": [")" + architecture + R"("], "vocab_size": 61, "hidden_size": 24,
    "intermediate_size": 40, "num_hidden_layers": )" +
         std::to_string(layers) + R"(, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, )" +
         special + "}";
}

const char* const kLlama = "LlamaForCausalLM";

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"llama", config(kLlama, R"("tie_word_embeddings": false)")},
      {"llama_tied_wide_heads", config(kLlama, R"("tie_word_embeddings": true, "head_dim": 12,
          "attention_bias": true)")},
      {"llama_without_window", config(kLlama, R"("tie_word_embeddings": true,
          "sliding_window": 5)"),
       0, false},
      {"llama_linear", config(kLlama, R"("tie_word_embeddings": true,
          "rope_scaling": {"rope_type": "linear", "factor": 2.5})")},
      {"llama_dynamic", config(kLlama, R"("tie_word_embeddings": true,
          "rope_scaling": {"rope_type": "dynamic", "factor": 2.0})"),
       160, false},
      {"llama_llama3", config(kLlama, R"("tie_word_embeddings": true, "head_dim": 16,
          "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 40})")},
      {"llama_yarn", config(kLlama, R"("tie_word_embeddings": true, "head_dim": 16,
          "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
          "original_max_position_embeddings": 64})")},
      {"llama_yarn_options", config(kLlama, R"("tie_word_embeddings": true, "head_dim": 16,
          "rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 8, "beta_slow": 2,
          "mscale": 1.0, "mscale_all_dim": 0.7, "truncate": false,
          "original_max_position_embeddings": 64})"),
       0, false},
      {"llama_yarn_attention_factor", config(kLlama, R"("tie_word_embeddings": true,
          "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.3})"),
       0, false},
      {"mistral", config("MistralForCausalLM", R"("tie_word_embeddings": false,
          "sliding_window": null)")},
      {"mistral_window", config("MistralForCausalLM", R"("tie_word_embeddings": false,
          "sliding_window": 7)")},
      {"qwen2", config("Qwen2ForCausalLM", R"("tie_word_embeddings": true, "sliding_window": 5,
          "use_sliding_window": false, "max_window_layers": 1)")},
      {"qwen2_window", config("Qwen2ForCausalLM", R"("tie_word_embeddings": false,
          "sliding_window": 5, "use_sliding_window": true, "max_window_layers": 1)"),
       0, false},
      {"qwen3", config("Qwen3ForCausalLM", R"("tie_word_embeddings": true, "head_dim": 16)")},
      {"gemma2", gemma("Gemma2ForCausalLM", 4, R"("query_pre_attn_scalar": 16, "sliding_window": 6,
          "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
          "hidden_activation": "gelu_pytorch_tanh")")},
      {"gemma2_no_caps", gemma("Gemma2ForCausalLM", 2, R"("query_pre_attn_scalar": 20,
          "sliding_window": 6, "attn_logit_softcapping": null, "final_logit_softcapping": null)"),
       0, false},
      {"gemma2_27b", gemma("Gemma2ForCausalLM", 46, R"("query_pre_attn_scalar": 12,
          "sliding_window": 6, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0)")},
      {"gemma3", gemma("Gemma3ForCausalLM", 7, R"("query_pre_attn_scalar": 16,
          "sliding_window": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
          "rope_scaling": {"rope_type": "linear", "factor": 8.0})")},
      {"gemma3_pattern", gemma("Gemma3ForCausalLM", 4, R"("query_pre_attn_scalar": 24,
          "sliding_window": 6, "sliding_window_pattern": 2, "rope_theta": 500000.0,
          "rope_local_base_freq": 100.0)"),
       0, false},
      {"gemma3_27b", gemma("Gemma3ForCausalLM", 62, R"("query_pre_attn_scalar": 12,
          "sliding_window": 6, "rope_theta": 1000000.0)")},
      {"gemma3_multimodal", R"({"architectures": ["Gemma3ForConditionalGeneration"],
          "vision_config": {"hidden_size": 9}, "text_config":
          {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 7,
           "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
           "query_pre_attn_scalar": 16, "sliding_window": 6}})",
       0, false},
      {"phi3", config("Phi3ForCausalLM", R"("tie_word_embeddings": false, "sliding_window": 9)")},
      {"phi3_partial", config("Phi3ForCausalLM", R"("tie_word_embeddings": true,
          "partial_rotary_factor": 0.75)")},
      {"phi3_longrope_long", config("Phi3ForCausalLM", R"("tie_word_embeddings": false,
          "original_max_position_embeddings": 16, "rope_scaling": {"rope_type": "longrope",
          "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 3.0, 4.5]})")},
      {"phi3_longrope_short", config("Phi3ForCausalLM", R"("tie_word_embeddings": false,
          "original_max_position_embeddings": 48, "rope_scaling": {"rope_type": "longrope",
          "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 3.0, 4.5]})"),
       48},
  };
  return all;
}

std::vector<int32_t> prompt() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back((i * i * 7 + i * 3 + 5) % 61);
  return ids;
}

/// What the oracle prints, flattened; nullopt when there is no Python with numpy.
std::optional<std::vector<double>> oracle(const std::filesystem::path& folder, int64_t context,
                                          std::span<const int32_t> ids) {
  const auto script = hasten::testing::source_dir() / "tools/oracles/logits.py";
  std::string arguments = " '" + script.string() + "' '" + folder.string() + "' ";
  arguments += std::to_string(context);
  for (const int32_t id : ids) arguments += " " + std::to_string(id);
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) != 0) continue;
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((python + arguments).c_str(), "r"),
                                                     ::pclose);
    std::string text;
    std::array<char, 4096> piece;
    while (const size_t count = std::fread(piece.data(), 1, piece.size(), pipe.get()))
      text.append(piece.data(), count);
    std::vector<double> logits;
    const json::Value rows = json::parse(text, "oracle", {.max_bytes = int64_t{64} << 20});
    for (const json::Value& row : rows.as_array())
      for (const json::Value& value : row.as_array()) logits.push_back(value.to_number<double>());
    return logits;
  }
  return std::nullopt;
}

class FamilyTest : public ::testing::TestWithParam<Case> {
 protected:
  FamilyTest() : model_(TinyModel::random(GetParam().config, 7)) {
    model_.write_folder(hf_path());
    hf_ = weights::open_checkpoint(hf_path());
  }
  std::filesystem::path hf_path() const { return folder_.path() / "tiny"; }

  testing::TemporaryFolder folder_;
  TinyModel model_;
  std::unique_ptr<const weights::Checkpoint> hf_;
};

TEST_P(FamilyTest, AgreesWithOracle) {
  ModelSession session(*hf_, {.context = GetParam().context});
  const std::vector<int32_t> ids = prompt();
  const std::vector<float> found = session.logits(ids);
  const int64_t context =
      GetParam().context > 0 ? GetParam().context : session.model().info().max_context;
  const auto expected = oracle(hf_path(), context, ids);
  if (!expected) GTEST_SKIP() << "no python3 with numpy";
  const double error = testing::largest_error(found, *expected);
  std::printf("%s: relative error against the oracle %.1e\n", GetParam().name.c_str(), error);
  EXPECT_LT(error, 1e-5);
}

using GgufTest = FamilyTest;

TEST_P(GgufTest, EqualsSafetensors) {
  const auto path = folder_.path() / "tiny.gguf";
  model_.write_gguf(path);
  const auto gguf = weights::open_checkpoint(path);
  const LoadOptions options{.context = GetParam().context};
  ModelSession from_gguf(*gguf, options), from_hf(*hf_, options);
  const std::vector<float> found = from_gguf.logits(prompt());
  const std::vector<float> expected = from_hf.logits(prompt());
  EXPECT_LT(testing::largest_error(found, std::vector<double>(expected.begin(), expected.end())),
            1e-5);
  EXPECT_EQ(from_gguf.model().info().num_parameters, from_hf.model().info().num_parameters);
  EXPECT_EQ(from_gguf.model().info().max_context, from_hf.model().info().max_context);
}

TEST_P(FamilyTest, ChunkedEqualsWhole) {
  ModelSession session(*hf_, {.context = GetParam().context});
  const std::vector<float> whole = session.logits(prompt());
  for (const size_t chunk : {1, 7, 16}) EXPECT_EQ(session.logits(prompt(), chunk), whole) << chunk;
}

std::vector<Case> gguf_cases() {
  std::vector<Case> result;
  std::copy_if(cases().begin(), cases().end(), std::back_inserter(result),
               [](const Case& c) { return c.gguf; });
  return result;
}

std::string name_of(const ::testing::TestParamInfo<Case>& instance) { return instance.param.name; }
INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Families, GgufTest, ::testing::ValuesIn(gguf_cases()), name_of);

}  // namespace
}  // namespace hasten::models
