// SPDX-License-Identifier: Apache-2.0
// Every tokenizer that a GGUF file can hold, without the model that it belongs to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "api/tokenizer_files_test.h"
#include "hasten/error.h"
#include "hasten/tokenizer.h"
#include "text/tiny_charsmap.h"
#include "weights/gguf_writer.h"

namespace hasten {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

/// A GGUF file of nothing but a tokenizer.
class GgufTokenizer : public TokenizerFiles {
 protected:
  Tokenizer open() override {
    writer_.finish();
    return Tokenizer(path_);
  }
  void set_tokens(const char* model, const Strings& tokens, const std::vector<int32_t>& types) {
    writer_.set_string("tokenizer.ggml.model", model);
    writer_.set_strings("tokenizer.ggml.tokens", tokens);
    writer_.set_i32s("tokenizer.ggml.token_type", types);
  }

  std::filesystem::path path_ = folder_.path() / "vocabulary.gguf";
  weights::GgufWriter writer_{path_};
};

std::vector<int32_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};  // with signs, as one converter has it
}

std::string first_turn(const Tokenizer& tokenizer) {
  return tokenizer
      .render_chat({.messages = R"([{"role": "system", "content": "Be brief."},
                                    {"role": "user", "content": " Hi\n"}])"})
      .text;
}

TEST_F(GgufTokenizer, DoubtsMoreTokensThanEmbeddings) {
  std::vector<std::string> tokens{"</s>", "<unk>"};
  std::vector<int32_t> types{3, 2};
  for (int i = 2; i < 259; ++i) {
    tokens.push_back(fmt::format("w{}", i));
    types.push_back(1);
  }
  set_tokens("t5", tokens, types);
  writer_.set_f32s("tokenizer.ggml.scores", std::vector<float>(259));
  writer_.declare("token_embd.weight", DType::f32, {2, 4});
  writer_.append(std::vector<std::byte>(2 * 4 * sizeof(float)));
  EXPECT_THAT(open().info().doubts,
              ::testing::Contains(HasSubstr("it has 259 tokens and the model only 2: they do not "
                                            "belong together, and run and serve refuse them")));
}

TEST_F(GgufTokenizer, T5IsUnigram) {
  set_tokens("t5", {"<pad>", "</s>", "<unk>", "▁", "a", "▁a", "b"}, {3, 3, 2, 1, 1, 1, 1});
  writer_.set_f32s("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -2, -3, -1, -4});
  writer_.set_i32s("tokenizer.ggml.precompiled_charsmap",
                   bytes_of(text::testing::tiny_charsmap({{"A", "a"}})));
  writer_.set_bool("tokenizer.ggml.add_space_prefix", true);
  writer_.set_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  writer_.set_u32("tokenizer.ggml.bos_token_id", 0);
  writer_.set_u32("tokenizer.ggml.eos_token_id", 1);
  writer_.set_u32("tokenizer.ggml.unknown_token_id", 2);
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer.encode("A  bx"), (Ids{5, 3, 6, 2, 1}));  // an end, and no beginning
  EXPECT_EQ(tokenizer.decode({5, 6}), "ab");
}

TEST_F(GgufTokenizer, T5WithoutSpaces) {
  set_tokens("t5", {"<s>", "</s>", "<unk>", "▁", "a", "▁a"}, {3, 3, 2, 1, 1, 1});
  writer_.set_f32s("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -2, -3, -1});
  writer_.set_bool("tokenizer.ggml.add_space_prefix", false);
  writer_.set_u32("tokenizer.ggml.bos_token_id", 0);
  writer_.set_u32("tokenizer.ggml.eos_token_id", 1);
  writer_.set_bool("tokenizer.ggml.add_bos_token", true);
  writer_.set_bool("tokenizer.ggml.add_eos_token", false);
  EXPECT_EQ(open().encode("a  a"), (Ids{0, 4, 3, 5}));
}

TEST_F(GgufTokenizer, CharacterMapOfNoBytes) {
  set_tokens("t5", {"<unk>"}, {2});
  writer_.set_i32s("tokenizer.ggml.precompiled_charsmap", std::vector<int32_t>{4, 0, 256});
  expect_refusal(ErrorCode::invalid_data, "tokenizer.ggml.precompiled_charsmap holds 256");
}

TEST_F(GgufTokenizer, BertIsWordPiece) {
  set_tokens("bert", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "able", "▁!"},
             {3, 3, 3, 3, 1, 1, 1});
  writer_.set_u32("tokenizer.ggml.cls_token_id", 2);
  writer_.set_u32("tokenizer.ggml.seperator_token_id", 3);
  writer_.set_u32("tokenizer.ggml.unknown_token_id", 1);
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer.encode("Ünable! x"), (Ids{2, 4, 5, 6, 1, 3}));
  EXPECT_EQ(tokenizer.encode("unable", /*add_special=*/false), (Ids{4, 5}));
  EXPECT_EQ(tokenizer.bos(), 2);
}

TEST_F(GgufTokenizer, BertKeepsCaseWhereAsked) {
  set_tokens("bert", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un"}, {3, 3, 3, 3, 1});
  writer_.set_bool("tokenizer.ggml.normalizer.lowercase", false);
  writer_.set_bool("tokenizer.ggml.add_bos_token", false);
  writer_.set_bool("tokenizer.ggml.add_sep_token", false);
  EXPECT_EQ(open().encode("un Un"), (Ids{4, 1}));
}

TEST_F(GgufTokenizer, BertNeedsATypeForEachTokenOrNone) {
  const Strings tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un"};
  set_tokens("bert", tokens, {3, 3, 3, 3});
  expect_refusal(ErrorCode::invalid_data, "5 tokens but 4 token types");
}

TEST_F(GgufTokenizer, BertWithoutTypes) {
  writer_.set_string("tokenizer.ggml.model", "bert");
  const Strings tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un"};
  writer_.set_strings("tokenizer.ggml.tokens", tokens);
  EXPECT_EQ(open().encode("un x"), (Ids{2, 4, 1, 3}));
}

TEST_F(GgufTokenizer, RwkvTakesTheLongest) {
  set_tokens("rwkv", {"<s>", "a", R"(\n)", R"(\xe4\xb8)", R"(ab)", "[PAD5]"}, {3, 1, 1, 1, 1, 5});
  writer_.set_u32("tokenizer.ggml.bos_token_id", 0);
  writer_.set_u32("tokenizer.ggml.eos_token_id", 0);
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer.encode("aba\n中"), (Ids{4, 1, 2, 3}));
  EXPECT_EQ(tokenizer.encode("[PAD5]"), Ids{});
}

TEST_F(GgufTokenizer, TemplateThatIsAName) {
  set_tokens("rwkv", {"<s>", "a"}, {3, 1});
  writer_.set_string("tokenizer.chat_template", "rwkv-world");
  EXPECT_EQ(first_turn(open()), "System: Be brief.\n\nUser: Hi\n\nAssistant:");
}

TEST_F(GgufTokenizer, TemplateThatIsNone) {
  set_tokens("rwkv", {"<s>", "a"}, {3, 1});
  writer_.set_string("tokenizer.chat_template", "vicuna");
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer.chat_template().source, "");
  EXPECT_EQ(first_turn(tokenizer),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST_F(GgufTokenizer, GemmaMergesFromAList) {
  set_tokens("gemma4", {"<pad>", "<bos>", "a", "▁", "▁a", "<0xC3>", "<0xA9>"},
             {3, 3, 1, 1, 1, 6, 6});
  writer_.set_strings("tokenizer.ggml.merges", Strings{"▁ a"});
  writer_.set_u32("tokenizer.ggml.bos_token_id", 1);
  writer_.set_bool("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(open().encode("a aé"), (Ids{1, 2, 4, 5, 6}));
}

TEST_F(GgufTokenizer, NamesTheOnesItKnows) {
  set_tokens("morse", {"a"}, {1});
  expect_refusal(ErrorCode::unsupported,
                 "tokenizer.ggml.model is \"morse\"; this hasten knows gpt2, llama, gemma4, t5, "
                 "bert, rwkv");
}

TEST_F(GgufTokenizer, TemplateForTools) {
  set_tokens("rwkv", {"<s>", "a"}, {3, 1});
  writer_.set_string("tokenizer.chat_template", "{{ messages[0].content }}");
  writer_.set_string("tokenizer.chat_template.tool_use", "{{ tools[0].function.name }}");
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer
                .render_chat({.messages = R"([{"role": "user", "content": "a"}])",
                              .tools = R"([{"type": "function", "function": {"name": "b"}}])"})
                .text,
            "b");
  EXPECT_EQ(tokenizer.render_chat({.messages = R"([{"role": "user", "content": "a"}])"}).text, "a");
}

TEST_F(GgufTokenizer, MessagesNameTheModelAndTheKeyOfItsTemplate) {
  set_tokens("rwkv", {"<s>", "a"}, {3, 1});
  writer_.set_string("general.name", "Some Model");
  writer_.set_string("tokenizer.chat_template", "{{ raise_exception('say please') }}");
  const Chat plain{.messages = R"([{"role": "user", "content": "a"}])"};
  const Tokenizer tokenizer = open();
  EXPECT_THAT(
      [&] { (void)tokenizer.render_chat(plain); },
      ThrowsMessage<Error>(Eq("the chat template of Some Model (tokenizer.chat_template) refused "
                              "the conversation: say please")));
}

// Each answer that a request gets may have it.
TEST_F(GgufTokenizer, MessagesCutALongNameOfTheModel) {
  set_tokens("rwkv", {"<s>", "a"}, {3, 1});
  std::string name(99, 'x');
  for (int i = 0; i < 10'000; ++i) name += "\u4f60";
  writer_.set_string("general.name", name);
  writer_.set_string("tokenizer.chat_template", "{{ raise_exception('no') }}");
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer.chat_template().name,
            "the chat template of " + std::string(99, 'x') + "… (tokenizer.chat_template)");
}

TEST_F(GgufTokenizer, ErrorsBeginWithTheFile) {
  set_tokens("gpt2", {"a", "b"}, {1, 1});
  expect_refusal(ErrorCode::invalid_data, path_.string() + ": the BPE tokenizer has no merges");
}

TEST_F(GgufTokenizer, VocabularyThatIsDamaged) {
  set_tokens("gpt2", {"aa", "ab", "abc"}, {1, 1, 1});
  writer_.set_strings("tokenizer.ggml.merges", Strings{"a a"});
  expect_refusal(ErrorCode::invalid_data,
                 path_.string() + ": the vocabulary has tokens for no text: none of its 3 tokens");
}

TEST_F(GgufTokenizer, VocabularyOfOneTokenRepeated) {
  set_tokens("gpt2", Strings(300, "a"), std::vector<int32_t>(300, 1));
  writer_.set_strings("tokenizer.ggml.merges", Strings{"a a"});
  expect_refusal(ErrorCode::invalid_data, path_.string() + ": all 300 tokens of text are \"a\"");
}

TEST_F(GgufTokenizer, VocabularyThatLacksBytes) {
  set_tokens("gpt2", {"a", "b", "ab"}, {1, 1, 1});
  writer_.set_strings("tokenizer.ggml.merges", Strings{"a b"});
  const Tokenizer tokenizer = open();
  EXPECT_EQ(tokenizer.encode("abxab"), (Ids{2, 2}));
  EXPECT_THAT(tokenizer.info().doubts,
              ElementsAre(HasSubstr("it has no token for 209 bytes of text"),
                          HasSubstr("it does not name its pre-tokenizer")));
}

TEST_F(GgufTokenizer, MetadataErrorsBeginWithTheFile) {
  set_tokens("morse", {"a", "b"}, {1, 1});
  expect_refusal(ErrorCode::unsupported, path_.string() + ": tokenizer.ggml.model");
}

}  // namespace
}  // namespace hasten
