// SPDX-License-Identifier: Apache-2.0
// Every tokenizer that a folder can hold, without the model that it belongs to.
#include "api/tokenizer_files_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "api/model_files.h"
#include "base/json.h"
#include "hasten/error.h"
#include "hasten/tokenizer.h"
#include "hasten_test/paths.h"

namespace hasten {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

const std::string kVocabulary = R"({"a": 0, "b": 1, "ab": 2, "Ġ": 3, "<|endoftext|>": 4})";

TEST_F(TokenizerFolder, TokenizerJsonAlone) {
  write("tokenizer.json", R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  EXPECT_EQ(open().encode("aba"), (Ids{2, 0}));
}

TEST_F(TokenizerFolder, VocabAndMerges) {
  write("vocab.json", kVocabulary);
  write("merges.txt", "#version: 0.2\na b\n");
  EXPECT_EQ(open().encode("ab a"), (Ids{2, 3, 0}));
  write("added_tokens.json", R"({"<tool>": 5, "<|x|>": 6})");
  write("special_tokens_map.json",
        R"({"eos_token": "<|endoftext|>", "additional_special_tokens": ["<|x|>"]})");
  EXPECT_EQ(open().encode("a<tool>b<|x|>", true, true), (Ids{0, 5, 1, 6}));
  EXPECT_EQ(open().encode("<tool><|endoftext|>"), (Ids{5}));  // the rest is no text that it knows
  write("tokenizer_config.json",
        R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true, "bos_token": "<|x|>",
            "add_bos_token": true,
            "added_tokens_decoder": {"7": {"content": "<y>", "special": true, "rstrip": true}}})");
  EXPECT_EQ(open().encode("ab<y>  a", true, true), (Ids{6, 3, 2, 7, 3, 0}));
}

TEST_F(TokenizerFolder, NamesTheFileThatIsWrong) {
  write("vocab.json", kVocabulary);
  write("merges.txt", "a b\n");
  write("added_tokens.json", R"({"<tool>": 2})");
  expect_refusal(ErrorCode::invalid_data, R"(added_tokens.json: id 2 is "ab" and also "<tool>")");
  write("added_tokens.json", R"({"<tool>": 2000000000})");
  expect_refusal(ErrorCode::invalid_data, R"(added_tokens.json: the id of "<tool>")");
  write("added_tokens.json", "{}");
  write("tokenizer_config.json", R"({"add_bos_token": 1})");
  expect_refusal(ErrorCode::invalid_data, R"(tokenizer_config.json: "add_bos_token" is not true)");
  write("tokenizer_config.json", "[]");
  expect_refusal(ErrorCode::invalid_data, "tokenizer_config.json is not a JSON object");
  write("tokenizer_config.json", "{}");
  write("vocab.json", R"({"a": -1})");
  expect_refusal(ErrorCode::invalid_data, R"(vocab.json: the id of "a")");
}

TEST_F(TokenizerFolder, WordPieces) {
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\nÜn\n");
  EXPECT_EQ(open().encode("Ünable"), (Ids{2, 5, 6, 3}));
  write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(open().encode("Ünable"), (Ids{2, 7, 6, 3}));
  write("tokenizer_config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  expect_refusal(ErrorCode::unsupported, "BertJapaneseTokenizer");
}

TEST_F(TokenizerFolder, RanksByTheirName) {
  const std::string ranks = "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\n";
  write("mine.tiktoken", ranks);
  expect_refusal(ErrorCode::unsupported,
                 "cl100k_base, o200k_base, p50k_base, r50k_base, qwen.tiktoken, hy.tiktoken, "
                 "tiktoken.model, tokenizer.model, and otherwise");
  std::filesystem::rename(folder_.path() / "mine.tiktoken", folder_.path() / "hy.tiktoken");
  EXPECT_EQ(open().encode("ab a<|eos|><|extra_0|>", true, true), (Ids{2, 3, 0, 7, 9}));
  EXPECT_EQ(open().eos(), 7);
  EXPECT_EQ(open().bos(), 5);
  write("other.tiktoken", ranks);
  expect_refusal(ErrorCode::invalid_data, "hy.tiktoken and other.tiktoken");
  std::filesystem::remove(folder_.path() / "other.tiktoken");
  std::filesystem::rename(folder_.path() / "hy.tiktoken", folder_.path() / "tokenizer.model");
  expect_refusal(ErrorCode::unsupported,
                 "tokenizer.model holds 4 ranks, and does not say how it cuts words: Llama 3's has "
                 "128000, others are known by the tokenizer_class");
  write("tokenizer_config.json", R"({"tokenizer_class": "OtherTokenizer"})");
  expect_refusal(ErrorCode::unsupported, "4 ranks of a \"OtherTokenizer\", and");
  write("tokenizer_config.json",
        R"({"tokenizer_class": "ChatGLM4Tokenizer",
            "added_tokens_decoder": {"4": {"content": "<|user|>", "special": true}}})");
  EXPECT_EQ(open().encode("ab<|user|>", true, true), (Ids{2, 4}));
}

/// A rank file of each byte and `num_ranks` in all.
std::string ranks_of_bytes(int num_ranks) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto digit = [&](int shift) { return kDigits[static_cast<size_t>(rank >> shift & 63)]; };
    if (rank < 256) {
      ranks += {kDigits[static_cast<size_t>(rank >> 2)],
                kDigits[static_cast<size_t>(rank & 3) << 4], '=', '='};
    } else {
      ranks += {digit(18), digit(12), digit(6), digit(0)};
    }
    ranks += " " + std::to_string(rank) + "\n";
  }
  return ranks;
}

TEST_F(TokenizerFolder, RanksOfQwen) {
  write("qwen.tiktoken", ranks_of_bytes(151643));
  const Tokenizer qwen = open();
  EXPECT_EQ(qwen.encode("a<|im_end|><|extra_0|>", true, true), (Ids{97, 151645, 151646}));
  EXPECT_EQ(qwen.eos(), 151643);
  write("qwen.tiktoken", ranks_of_bytes(151642));
  expect_refusal(ErrorCode::invalid_data, "qwen.tiktoken holds 151642 ranks");
}

TEST_F(TokenizerFolder, RanksOfLlama3ByTheirNumber) {
  write("tokenizer.model", ranks_of_bytes(128000));
  const Tokenizer llama3 = open();
  EXPECT_EQ(llama3.vocab_size(), 128256);
  EXPECT_EQ(llama3.encode("a<|eot_id|>", true, true), (Ids{128000, 97, 128009}));
  std::filesystem::rename(folder_.path() / "tokenizer.model", folder_.path() / "tiktoken.model");
  write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(open().encode("a<|eot_id|>", true, true), (Ids{128000, 97, 128009}));
  write("tokenizer.model", ranks_of_bytes(128001));
  expect_refusal(ErrorCode::unsupported, "128001 ranks");
  write("tokenizer.model", ranks_of_bytes(127999));
  expect_refusal(ErrorCode::unsupported, "if it is Llama 3's, it was cut: fetch it again");
}

TEST_F(TokenizerFolder, Tekken) {
  write("tekken.json", R"({"config": {"pattern": "\\p{L}+", "default_vocab_size": 23,
                                      "default_num_special_tokens": 20},
                           "vocab": [{"rank": 0, "token_bytes": "YQ=="},
                                     {"rank": 1, "token_bytes": "Yg=="},
                                     {"rank": 2, "token_bytes": "YWI="}]})");
  EXPECT_EQ(open().encode("aba[INST]", true, true), (Ids{1, 22, 20, 3}));
}

TEST_F(TokenizerFolder, RwkvVocabulary) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n3 b'\\xe4\\xb8' 2\n");
  EXPECT_EQ(open().encode("aba中"), (Ids{2, 1, 3}));
}

// Also where the first text that comes to mind has no tokens, or those that stand around it.
TEST_F(TokenizerFolder, WhatStandsAroundAText) {
  const auto write_words = [&](const std::string& words, const char* unknown) {
    write("tokenizer.json",
          R"({"pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel",
              "vocab": {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2)" +
              words + R"(}, "unk_token": ")" + unknown + R"("}, "added_tokens": [
                {"id": 0, "content": "[CLS]", "special": true},
                {"id": 1, "content": "[SEP]", "special": true}],
              "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 0],
                                 "sep": ["[SEP]", 1]}})");
  };
  for (const auto& [words, unknown] : {std::pair(R"(, "a": 3)", "[UNK]"),
                                       {R"(, "b": 3)", "[UNK]"},
                                       {R"(, "b": 3)", "none"},
                                       {R"(, "b": 3)", "[CLS]"}}) {
    write_words(words, unknown);
    const Tokenizer tokenizer = open();
    EXPECT_EQ(tokenizer.info().before, Ids{0}) << words << unknown;
    EXPECT_EQ(tokenizer.info().after, Ids{1}) << words << unknown;
  }
}

// What is left of large files in a repository that was cloned without Git LFS.
TEST_F(TokenizerFolder, SaysWhatIsNotFetched) {
  write("tokenizer.model", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  expect_refusal(ErrorCode::invalid_data, "tokenizer.model is not there yet");
  write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  expect_refusal(ErrorCode::invalid_data, "tokenizer.json is not there yet");
  std::filesystem::remove(folder_.path() / "tokenizer.json");
  std::filesystem::remove(folder_.path() / "tokenizer.model");
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n");
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
    expect_refusal(ErrorCode::invalid_data, std::string(name) + " is not there yet");
    std::filesystem::remove(folder_.path() / name);
  }
}

// What a browser or an editor leaves: a page of the site, or the text in another encoding.
TEST_F(TokenizerFolder, SaysWhatIsNotTheFile) {
  using namespace std::string_literals;
  const std::string page = "<!DOCTYPE html>\n<html><title>Sign in</title></html>\n";
  const std::string utf16 = "\xFF\xFE{\0\"\0a\0"s;
  write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})");
  for (const char* name :
       {"chat_template.jinja", "chat_template.json", "tokenizer_config.json", "tokenizer.json"}) {
    const std::string path = (folder_.path() / name).string();
    write(name, page);
    expect_refusal(ErrorCode::invalid_data,
                   path + " is an HTML page and not the file (a failed download?): fetch it again");
    write(name, utf16);
    if (name == std::string_view("chat_template.jinja")) {
      // One that is no text keeps nothing but chats from working.
      const Tokenizer tokenizer = open();
      EXPECT_EQ(tokenizer.encode("a"), std::vector<int32_t>{0});
      EXPECT_THAT(
          tokenizer.chat_template().error,
          ::testing::MatchesRegex("the chat template of .* \\(chat_template.jinja\\) does not "
                                  "work: .* is UTF-16; save it as UTF-8"));
    } else {
      expect_refusal(ErrorCode::invalid_data, path + " is UTF-16; save it as UTF-8");
    }
    if (name != std::string_view("tokenizer.json")) std::filesystem::remove(folder_.path() / name);
  }
  for (const char* name :
       {"rwkv_vocab_v20230424.txt", "qwen.tiktoken", "vocab.txt", "tokenizer.model"}) {
    std::filesystem::remove(folder_.path() / "tokenizer.json");
    write(name, page);
    expect_refusal(ErrorCode::invalid_data, name + " is an HTML page"s);
    std::filesystem::remove(folder_.path() / name);
  }
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  write("merges.txt", utf16);
  expect_refusal(ErrorCode::invalid_data,
                 (folder_.path() / "merges.txt").string() + " is UTF-16; save it as UTF-8");
  write("merges.txt", "\xEF\xBB\xBF#version: 0.2\na b\n");
  EXPECT_EQ(open().encode("ab"), std::vector<int32_t>{2});
  std::filesystem::remove(folder_.path() / "vocab.json");
  std::filesystem::remove(folder_.path() / "merges.txt");
  write("vocab.txt", "\xEF\xBB\xBF[UNK]\na\n");
  EXPECT_EQ(open().encode("a"), std::vector<int32_t>{1});
}

TEST_F(TokenizerFolder, TakesAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  write(
      "tokenizer.json",
      mark +
          R"({"pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1},
        "unk_token": "b"}})");
  write("tokenizer_config.json", mark + R"({"bos_token": "b"})");
  EXPECT_EQ(open().encode("a"), (Ids{0}));
  EXPECT_EQ(open().bos(), 1);
  const std::string source = "{{ messages[0].content }}";
  write("chat_template.jinja", mark + source);
  EXPECT_EQ(open().chat_template().source, source);
  std::filesystem::rename(folder_.path() / "chat_template.jinja", folder_.path() / "x.jinja");
  EXPECT_EQ(read_template(folder_.path() / "x.jinja").source, source);
}

TEST_F(TokenizerFolder, SaysWhichFileIsEmpty) {
  for (const char* name :
       {"rwkv_vocab_v20230424.txt", "tiktoken.model", "qwen.tiktoken", "vocab.txt", "merges.txt",
        "vocab.json", "tokenizer.model", "tekken.json", "tokenizer.json"}) {
    write(name, "");
    expect_refusal(ErrorCode::invalid_data,
                   (folder_.path() / name).string() + " is empty: fetch it again");
  }
}

TEST_F(TokenizerFolder, ErrorsBeginWithThePathOfTheFile) {
  const struct {
    const char* file;
    const char* content;
    const char* said;
  } files[] = {
      {"rwkv_vocab_v20230424.txt", "1 'a' 2\n", ": RWKV vocabulary: line 1 is not"},
      {"qwen.tiktoken", "a\n", ": line 1 of the rank file is not"},
      {"vocab.txt", "", " is empty"},
      {"tokenizer.model", "\x0f", " is not what its name says"},
      {"tekken.json", "{}", ": "},
      {"tekken.json", "{", " is not valid JSON"},
      {"tokenizer.json", "{}", ": "},
      {"tokenizer_config.json", "{", " is not valid JSON"},
  };
  for (const auto& [file, content, said] : files) {
    write(file, content);
    const std::string path = (folder_.path() / file).string();
    SCOPED_TRACE(path);
    try {
      (void)open();
      ADD_FAILURE() << "it opens";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_THAT(message, StartsWith(path + said));
      EXPECT_EQ(message.find(file, path.size()), message.npos) << message;
    }
  }
}

TEST_F(TokenizerFolder, FilesThatEndTooSoonAreCalledCut) {
  const std::pair<const char*, const char*> cut[] = {
      {"rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'a"},
      {"qwen.tiktoken", "IQ== 0\nIg== "},
      {"tekken.json", R"({"config": {"pattern)"},
      {"tokenizer.json", R"({"model": )"},
  };
  for (const auto& [file, content] : cut) {
    write(file, content);
    expect_refusal(ErrorCode::invalid_data, "looks cut: fetch it again");
  }
  write("tokenizer.json", "{}");
  EXPECT_THAT([&] { (void)open(); }, ThrowsMessage<Error>(Not(HasSubstr("cut"))));
  // Another line than the last is not what a cut leaves.
  std::filesystem::remove(folder_.path() / "tokenizer.json");
  std::filesystem::remove(folder_.path() / "tekken.json");
  for (const char* content : {"IQ==\nIg== 1", "IQ== 0\nIg==\nIw== 2"}) {
    write("qwen.tiktoken", content);
    EXPECT_THAT([&] { (void)open(); },
                ThrowsMessage<Error>(AllOf(HasSubstr("line "), Not(HasSubstr("cut")))));
  }
}

// What is found when the encoder is made of the description.
TEST_F(TokenizerFolder, ErrorsOfTheEncoderBeginWithThePathOfTheFile) {
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})");
  expect_refusal(ErrorCode::invalid_data, (folder_.path() / "tokenizer.json").string() + ": ");
  EXPECT_FALSE(has_vocabulary_file(folder_.path() / "none"));
  EXPECT_TRUE(has_vocabulary_file(folder_.path()));
}

TEST_F(TokenizerFolder, SaysWhichHalfIsMissing) {
  write("vocab.json", kVocabulary);
  expect_refusal(ErrorCode::not_found, "has vocab.json but no merges.txt");
  std::filesystem::remove(folder_.path() / "vocab.json");
  write("merges.txt", "a b\n");
  expect_refusal(ErrorCode::not_found, "has merges.txt but no vocab.json");
}

// What only shows when the tokenizer is made of what was read.
TEST_F(TokenizerFolder, ErrorsBeginWithTheFile) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 2\n");
  expect_refusal(ErrorCode::invalid_data, "rwkv_vocab_v20230424.txt: RWKV vocabulary: line 1");
  write("hy.tiktoken", "YQ== 0\nYg== 0\n");
  expect_refusal(ErrorCode::invalid_data, "hy.tiktoken: line 2 of the rank file");
  write("hy.tiktoken", "YQ== 0\nYg== 1\nYQ== 2\n");
  expect_refusal(ErrorCode::invalid_data, "hy.tiktoken: the ranks of tokens 0 and 2");
  write("vocab.txt", std::string(3000, 'a') + "\n[UNK]\n");
  expect_refusal(ErrorCode::invalid_data, "vocab.txt: token 0 is 3000 bytes long");
  write("vocab.json", kVocabulary);
  write("merges.txt", "ab\n");
  expect_refusal(ErrorCode::invalid_data, "vocab.json with merges.txt: merge 0 is not two pieces");
  write("tokenizer.model", "\x0f");
  expect_refusal(ErrorCode::invalid_data,
                 "tokenizer.model is not what its name says, or damaged: a field of wire type 7");
  write("tekken.json", R"({"config": {"pattern": "*a", "default_vocab_size": 1,
                                      "default_num_special_tokens": 0},
                           "vocab": [{"rank": 0, "token_bytes": "YQ=="}]})");
  expect_refusal(ErrorCode::invalid_data, "tekken.json: regular expression: nothing to repeat");
  write("tokenizer.json", R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  expect_refusal(ErrorCode::invalid_data,
                 "tokenizer.json: regular expression: a ( without its ) at byte 2: \"(a\"");
}

// Engines and the program tell of them, with the path of the file.
TEST_F(TokenizerFolder, DoubtsAreToldOfTheTokenizer) {
  write("qwen.tiktoken", "YQ== 0\nYg== 1\n");
  write("added_tokens.json", R"({"<|endoftext|>": 2})");
  write("config.json", R"({"vocab_size": 100})");
  write("tokenizer_config.json", R"({"eos_token": "<e>"})");
  const TokenizerInfo info = open().info();
  EXPECT_EQ(info.file, (folder_.path() / "qwen.tiktoken").string());
  EXPECT_THAT(info.doubts,
              ElementsAre(HasSubstr("taken for a smaller one"),
                          HasSubstr(R"(the eos_token of tokenizer_config.json is "<e>")"),
                          HasSubstr("config.json's vocab_size is 100"),
                          HasSubstr("no token for 209 bytes of text")));
}

// As Qwen's tokenizer beside a Llama's config.json. The engine, which has the weights, knows
// better.
TEST_F(TokenizerFolder, DoubtsATokenizerLargerThanTheModel) {
  std::string vocabulary;
  for (int i = 0; i < 300; ++i) vocabulary += fmt::format("{}\"w{}\": {}", i > 0 ? ", " : "", i, i);
  write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {)" + vocabulary + "}}}");
  const auto doubts = [this](const char* config) {
    write("config.json", config);
    return open().info().doubts;
  };
  const auto is_doubted = ::testing::Contains(HasSubstr("it has 300 tokens, and config.json's"));
  EXPECT_THAT(doubts(R"({"vocab_size": 43})"), is_doubted);
  EXPECT_THAT(doubts(R"({"text_config": {"vocab_size": 43}})"), is_doubted);
  EXPECT_THAT(doubts(R"({"vocab_size": 44})"), ::testing::Not(is_doubted));
}

// The first is a model whose table has 2,385 rows without a token.
TEST(TokenizerSize, DoubtsATokenizerFarSmallerThanTheModel) {
  const auto doubt = [](int64_t num_tokens, const char* config) {
    return api::doubt_of_size(num_tokens, json::parse(config, "config.json").as_object());
  };
  EXPECT_EQ(doubt(100015, R"({"vocab_size": 102400})"), "");
  EXPECT_EQ(doubt(90, R"({"vocab_size": 100})"), "");
  EXPECT_EQ(doubt(89, R"({"vocab_size": 100})"),
            "it has 89 tokens, and config.json's vocab_size is 100: its file may be cut, or of "
            "another model; if answers are broken, fetch it again");
  EXPECT_THAT(doubt(89, R"({"text_config": {"vocab_size": 100}})"), HasSubstr("89 tokens"));
  EXPECT_EQ(doubt(1000, R"({"vocab_size": 100})"), "");
  for (const char* config : {"{}", R"({"vocab_size": "100"})", R"({"vocab_size": -1})",
                             R"({"text_config": 3})", R"({"vocab_size": 9223372036854775807})"}) {
    (void)doubt(1, config);
  }
  EXPECT_EQ(doubt(1, "{}"), "");
}

TEST_F(TokenizerFolder, SaysWhatItLookedFor) {
  expect_refusal(ErrorCode::not_found, "has no tokenizer: looked for tokenizer.json");
}

// Llama 2's model with the tokens that a fine-tune adds beside it.
TEST_F(TokenizerFolder, AddsTokensToASentencePieceModel) {
  HASTEN_NEED_SHARED("data/tokenizers/llama2");
  std::filesystem::copy(testing::shared_dir() / "data/tokenizers/llama2/tokenizer.model",
                        folder_.path() / "tokenizer.model");
  const Ids plain = open().encode("Hello world");
  EXPECT_EQ(plain, (Ids{1, 15043, 3186}));
  write("added_tokens.json", R"({"<|im_end|>": 32000, "<tool>": 32001})");
  write("tokenizer_config.json",
        R"({"eos_token": "<|im_end|>", "pad_token": "</s>", "add_eos_token": true})");
  EXPECT_EQ(open().encode("Hello world"), (Ids{1, 15043, 3186, 32000}));
  // A space stands before a text, and again behind an added token.
  EXPECT_EQ(open().encode("Hello<tool>Hello"), (Ids{1, 15043, 32001, 15043, 32000}));
  write("tokenizer_config.json", R"({"legacy": false})");
  EXPECT_EQ(open().encode("Hello<tool>Hello"), (Ids{1, 15043, 32001, 10994}));
}

// The published vectors of GPT-2, from its two files.
TEST_F(TokenizerFolder, Gpt2Vectors) {
  HASTEN_NEED_SHARED("data/tokenizers/gpt2");
  const auto shared = testing::shared_dir() / "data/tokenizers";
  const Tokenizer tokenizer(shared / "gpt2");
  const json::Value file =
      json::parse(testing::read_file(shared / "vectors/gpt2.json"), "gpt2.json");
  size_t checked = 0;
  for (const auto& [name, value] : file.at("Xenova/gpt2").as_object()) {
    Ids ids;
    for (const json::Value& id : value.at("ids").as_array()) {
      ids.push_back(static_cast<int32_t>(id.as_int64()));
    }
    EXPECT_EQ(tokenizer.encode(std::string(value.at("text").as_string()), true, true), ids) << name;
    ++checked;
  }
  EXPECT_GT(checked, 10U);
}

}  // namespace
}  // namespace hasten
