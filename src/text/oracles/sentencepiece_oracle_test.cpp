// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE and Unigram against libsentencepiece, on the models of the shared inputs and on
// models that it trains here with the options which those do not use.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "hasten_test/random_inputs.h"
#include "text/oracles/random_text.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

// Random texts of valid UTF-8 get the same tokens from both.
void expect_same_tokens(const std::string& model, const std::string& name) {
  const size_t num_texts = hasten::testing::num_random_texts(100000);
  sentencepiece::SentencePieceProcessor oracle;
  ASSERT_TRUE(oracle.LoadFromSerializedProto(model).ok());
  const auto tokenizer = make_tokenizer(parse_sentencepiece_model(model));
  ASSERT_EQ(tokenizer->vocab_size(), oracle.GetPieceSize());
  EXPECT_EQ(tokenizer->bos(), oracle.bos_id());
  EXPECT_EQ(tokenizer->eos(), oracle.eos_id());

  size_t num_decoded = 0;  // those without unknown tokens, which SentencePiece writes as U+2047
  testing::RandomText random(hasten::testing::random_seed(7));
  for (size_t i = 0; i < num_texts; ++i) {
    const std::string text = random.next(24);
    std::vector<int> expected;
    ASSERT_TRUE(oracle.Encode(text, &expected).ok());
    const auto tokens = tokenizer->encode(text, {.add_special = false});
    ASSERT_EQ(tokens, std::vector<int32_t>(expected.begin(), expected.end()))
        << "text " << i << ": " << text;
    if (std::find(tokens.begin(), tokens.end(), oracle.unk_id()) != tokens.end()) continue;
    std::string decoded;
    ASSERT_TRUE(oracle.Decode(expected, &decoded).ok());
    // SentencePiece takes more than its own space from a text that it reads U+2581 in.
    const std::string ours = tokenizer->decode(tokens);
    ASSERT_TRUE(ours == decoded || (text.find("\u2581") < text.size() && ours.ends_with(decoded)))
        << "text " << i << ": " << text << " became " << ours;
    ++num_decoded;
  }
  std::printf("%s: %zu random texts, %zu decoded\n", name.c_str(), num_texts, num_decoded);
}

class SentencePieceOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePieceOracle, SameTokens) {
  const std::string path = std::string("data/") + GetParam();
  HASTEN_NEED_SHARED(path);
  expect_same_tokens(hasten::testing::read_file(hasten::testing::shared_dir() / path), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceOracle,
                         ::testing::Values("tokenizers/llama2/tokenizer.model",
                                           "tokenizers/tokenizer.model.v1",
                                           "tokenizers/mistral_instruct_tokenizer_240323.model.v3",
                                           "models/stories260K/tok512.model",
                                           "tokenizers/sentencepiece/test_model.model",
                                           "tokenizers/sentencepiece/test_ja_model.model"),
                         [](const auto& one) { return "Model" + std::to_string(one.index); });

class TrainedOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedOracle, SameTokens) {
  HASTEN_NEED_SHARED("data/text");
  const std::string corpus = (hasten::testing::shared_dir() / "data/text/botchan_en.txt").string();
  const auto folder = hasten::testing::temp_path("hasten_sentencepiece_oracle");
  std::filesystem::create_directories(folder);
  const auto prefix = folder / std::to_string(std::hash<std::string>()(GetParam()));
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      "--minloglevel=2 --num_threads=1 --input_sentence_size=2000 --character_coverage=0.98"
      " --hard_vocab_limit=false --vocab_size=900 --input=" +
      corpus + " --model_prefix=" + prefix.string() + ' ' + GetParam());
  ASSERT_TRUE(trained.ok()) << trained.ToString();
  expect_same_tokens(hasten::testing::read_file(prefix.string() + ".model"), GetParam());
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    Options, TrainedOracle,
    ::testing::Values(
        "--model_type=unigram --normalization_rule_name=nfkc_cf --byte_fallback",
        "--model_type=unigram --normalization_rule_name=identity --remove_extra_whitespaces=false"
        " --split_by_whitespace=false --user_defined_symbols=the,<tool>,\u4e2d,\u2581an\u2581",
        "--model_type=unigram --add_dummy_prefix=false --user_defined_symbols=\u00c9,..,'s",
        "--model_type=bpe --normalization_rule_name=nmt_nfkc_cf --byte_fallback"
        " --user_defined_symbols=\u00c9,HTTP,..",
        "--model_type=bpe --normalization_rule_name=nfkc --remove_extra_whitespaces=false"
        " --add_dummy_prefix=false",
        "--model_type=char --user_defined_symbols=the,HTTP,\u2581an\u2581 --byte_fallback",
        "--model_type=char --normalization_rule_name=identity --remove_extra_whitespaces=false"),
    [](const auto& one) { return "Model" + std::to_string(one.index); });

}  // namespace
}  // namespace hasten::text
