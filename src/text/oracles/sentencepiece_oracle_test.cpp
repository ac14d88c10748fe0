// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE against libsentencepiece on the models of the shared inputs.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <string>
#include <vector>

#include "text/oracles/random_text.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

class SentencePieceOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePieceOracle, SameTokensAndText) {
  constexpr size_t kTexts = 100000;
  const std::string path = std::string("data/") + GetParam();
  HASTEN_NEED_SHARED(path);
  const std::string model = hasten::testing::read_file(hasten::testing::shared_dir() / path);
  sentencepiece::SentencePieceProcessor oracle;
  ASSERT_TRUE(oracle.LoadFromSerializedProto(model).ok());
  const auto tokenizer = make_tokenizer(parse_sentencepiece_model(model));
  ASSERT_EQ(tokenizer->vocab_size(), oracle.GetPieceSize());
  EXPECT_EQ(tokenizer->bos(), oracle.bos_id());
  EXPECT_EQ(tokenizer->eos(), oracle.eos_id());

  testing::RandomText random(7);
  for (size_t i = 0; i < kTexts; ++i) {
    const std::string text = random.next(24);
    std::vector<int> expected;
    ASSERT_TRUE(oracle.Encode(text, &expected).ok());
    const auto tokens = tokenizer->encode(text, {.add_special = false});
    ASSERT_EQ(tokens, std::vector<int32_t>(expected.begin(), expected.end()))
        << "text " << i << ": " << text;
  }
  std::printf("%s: %zu random texts\n", GetParam(), kTexts);
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceOracle,
                         ::testing::Values("tokenizers/llama2/tokenizer.model",
                                           "tokenizers/tokenizer.model.v1",
                                           "tokenizers/mistral_instruct_tokenizer_240323.model.v3",
                                           "models/stories260K/tok512.model"),
                         [](const auto& one) { return "Model" + std::to_string(one.index); });

}  // namespace
}  // namespace hasten::text
