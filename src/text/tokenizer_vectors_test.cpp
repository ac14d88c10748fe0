// SPDX-License-Identifier: Apache-2.0
// Published tokenizers against their published vectors.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/pre_tokenizer_expressions.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using testing::cl100k_spec;
using testing::GgufVocabulary;
using testing::llama3_spec;
using testing::o200k_spec;
using testing::qwen2_spec;
using testing::read_tokenizer_file;

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<int32_t> json_ids(const json::Value& list) {
  std::vector<int32_t> ids;
  for (const json::Value& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int64()));
  return ids;
}

// The .gguf.inp/.out pairs: texts, and lines of ids without bos.
void expect_ggml_vectors(const Tokenizer& tokenizer, const std::string& name) {
  const std::string path = "ggml-vocab/ggml-vocab-" + name + ".gguf";
  const auto texts = split(read_tokenizer_file(path + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_tokenizer_file(path + ".out"), "\n");
  ASSERT_LE(texts.size(), lines.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    const std::vector<int32_t> expected{std::istream_iterator<int32_t>(line), {}};
    EXPECT_EQ(tokenizer.encode(texts[i], {.add_special = false}), expected)
        << "text " << i << ": " << texts[i];
  }
  std::printf("%s: %zu vectors\n", name.c_str(), texts.size());
}

TEST(GgmlVectors, Gpt2) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const GgufVocabulary file(read_tokenizer_file("ggml-vocab/ggml-vocab-gpt-2.gguf"));
  expect_ggml_vectors(*make_tokenizer(file.spec()), "gpt-2");
}

TEST(GgmlVectors, LlamaSpm) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const GgufVocabulary file(read_tokenizer_file("ggml-vocab/ggml-vocab-llama-spm.gguf"));
  expect_ggml_vectors(*make_tokenizer(file.spec()), "llama-spm");
}

TEST(GgmlVectors, LlamaBpe) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const auto spec =
      parse_tiktoken_ranks(read_tokenizer_file("llama3/tokenizer.model"), "llama-bpe");
  expect_ggml_vectors(*make_tokenizer(spec), "llama-bpe");
}

TEST(GgmlVectors, Qwen2) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const auto spec = parse_tiktoken_ranks(read_tokenizer_file("qwen/qwen.tiktoken"), "qwen2");
  expect_ggml_vectors(*make_tokenizer(spec), "qwen2");
}

// What the tools that made the vectors do to decoded text afterwards: English is closed up.
std::string close_up_punctuation(std::string text) {
  for (const std::string mark : {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"}) {
    for (size_t at; (at = text.find(" " + mark)) != std::string::npos;) text.erase(at, 1);
  }
  return text;
}

struct VectorSet {
  std::string file;   // in vectors/
  std::string model;  // key in the file
  bool with_bos = false;
  std::set<std::string> left_out = {};
};

// Published vectors: text, ids and decoded text.
void expect_json_vectors(const Tokenizer& tokenizer, const VectorSet& set) {
  const json::Value all = json::parse(read_tokenizer_file("vectors/" + set.file), set.file);
  size_t checked = 0;
  for (const auto& [name, value] : all.as_object().at(set.model).as_object()) {
    if (set.left_out.contains(name)) continue;
    const json::Object& expected = value.as_object();
    const auto ids = json_ids(expected.at("ids"));
    const std::string text(expected.at("text").as_string());
    const std::string decoded(expected.at("decoded").as_string());
    EXPECT_EQ(tokenizer.encode(text, {.add_special = set.with_bos, .parse_special = true}), ids)
        << name << ": " << text;
    const std::string ours = tokenizer.decode(ids, /*keep_special=*/true);
    EXPECT_TRUE(ours == decoded || close_up_punctuation(ours) == decoded)
        << name << ": " << ours << " instead of " << decoded;
    ++checked;
  }
  std::printf("%s, %s: %zu vectors\n", set.file.c_str(), set.model.c_str(), checked);
}

TEST(JsonVectors, Llama2) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const auto spec = parse_tokenizer_json(read_tokenizer_file("hf/llama2/tokenizer.json"),
                                         read_tokenizer_file("hf/llama2/tokenizer_config.json"));
  // This copy of the file has lost the piece of two no-break spaces.
  expect_json_vectors(*make_tokenizer(spec),
                      {"llama.json",
                       "Xenova/llama-tokenizer",
                       /*with_bos=*/true,
                       {"TEXT_WITH_ESCAPE_CHARACTERS", "TEXT_WITH_ESCAPE_CHARACTERS_2"}});
}

TEST(JsonVectors, Llama2Model) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const auto spec = parse_sentencepiece_model(read_tokenizer_file("llama2/tokenizer.model"));
  expect_json_vectors(*make_tokenizer(spec),
                      {"llama.json", "Xenova/llama-tokenizer", /*with_bos=*/true});
}

TEST(JsonVectors, Llama3) {
  HASTEN_NEED_SHARED("data/tokenizers");
  expect_json_vectors(*make_tokenizer(llama3_spec()), {"llama.json", "Xenova/llama3-tokenizer"});
  expect_json_vectors(*make_tokenizer(llama3_spec()),
                      {"llama.json", "Xenova/llama3-tokenizer-new", /*with_bos=*/true});
}

TEST(JsonVectors, Gpt2) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const GgufVocabulary file(read_tokenizer_file("ggml-vocab/ggml-vocab-gpt-2.gguf"));
  expect_json_vectors(*make_tokenizer(file.spec()), {"gpt2.json", "Xenova/gpt2"});
  expect_json_vectors(*make_tokenizer(file.spec()), {"gpt2.json", "openai-community/gpt2"});
  expect_json_vectors(*make_tokenizer(cl100k_spec()), {"gpt2.json", "Xenova/gpt-4"});
  expect_json_vectors(*make_tokenizer(o200k_spec()), {"gpt2.json", "Xenova/gpt-4o"});
}

TEST(JsonVectors, Qwen2) {
  HASTEN_NEED_SHARED("data/tokenizers");
  expect_json_vectors(*make_tokenizer(qwen2_spec()), {"qwen2.json", "Xenova/Qwen1.5-0.5B-Chat"});
}

// The test plans of gpt-tokenizer: "EncodingName: …", "Sample: …", "Encoded: [ids]".
void expect_test_plans(const Tokenizer& tokenizer, const std::string& encoding) {
  size_t checked = 0;
  for (const std::string& plan : split(read_tokenizer_file("tiktoken/TestPlans.txt"), "\n\n")) {
    const auto lines = split(plan, "\n");
    if (lines.front() != "EncodingName: " + encoding) continue;
    ASSERT_GE(lines.size(), 3U);
    const std::string sample = lines[1].substr(std::string("Sample: ").size());
    const auto ids = json_ids(json::parse(lines[2].substr(std::string("Encoded: ").size()), "ids"));
    EXPECT_EQ(tokenizer.encode(sample, {.add_special = false}), ids) << sample;
    EXPECT_EQ(tokenizer.decode(ids), sample);
    ++checked;
  }
  EXPECT_GT(checked, 0U);
  std::printf("TestPlans.txt, %s: %zu vectors\n", encoding.c_str(), checked);
}

TEST(TestPlans, KnownEncodings) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const GgufVocabulary gpt2(read_tokenizer_file("ggml-vocab/ggml-vocab-gpt-2.gguf"));
  expect_test_plans(*make_tokenizer(gpt2.spec()), "r50k_base");
  expect_test_plans(*make_tokenizer(cl100k_spec()), "cl100k_base");
  expect_test_plans(*make_tokenizer(o200k_spec()), "o200k_base");
}

TEST(HastenTiny, GoldenTokens) {
  HASTEN_NEED_SHARED("models/hasten-tiny");
  const auto folder = hasten::testing::shared_dir() / "models/hasten-tiny";
  const auto read = [&](const char* name) { return hasten::testing::read_file(folder / name); };
  const auto tokenizer = make_tokenizer(
      parse_tokenizer_json(read("hf/tokenizer.json"), read("hf/tokenizer_config.json")));
  const json::Value golden = json::parse(read("golden.json"), "golden.json");
  for (const json::Value& value : golden.as_object().at("logits").as_array()) {
    const json::Object& expected = value.as_object();
    const std::string prompt(expected.at("prompt").as_string());
    const auto greedy = json_ids(expected.at("greedy_tokens"));
    EXPECT_EQ(tokenizer->encode(prompt, {.parse_special = true}), json_ids(expected.at("tokens")));
    EXPECT_EQ(tokenizer->decode(greedy), expected.at("greedy_text").as_string());
  }
  EXPECT_EQ(tokenizer->vocab_size(), 2048);
  EXPECT_EQ(tokenizer->find("<|im_end|>"), 2047);
  EXPECT_EQ(tokenizer->eos(), 2047);
  EXPECT_TRUE(tokenizer->is_end_of_generation(2045));
}

TEST(Formats, Gpt2FromVocabAndMerges) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const auto tokenizer = make_tokenizer(parse_vocab_and_merges(
      read_tokenizer_file("gpt2/vocab.json"), read_tokenizer_file("gpt2/merges.txt")));
  expect_json_vectors(*tokenizer, {"gpt2.json", "Xenova/gpt2"});
  EXPECT_EQ(tokenizer->eos(), 50256);
  EXPECT_TRUE(tokenizer->is_special(50256));
}

// A vocabulary as large as those that Mistral publishes, behind its 1,000 special tokens: GPT-4o's
// first ranks, with the words of Mistral's expression.
TEST(Formats, TekkenOfPublishedSize) {
  HASTEN_NEED_SHARED("data/tokenizers");
  constexpr int32_t kNumSpecials = 1000;
  constexpr int32_t kVocabSize = 131072;
  const auto lines = split(read_tokenizer_file("tiktoken/o200k_base.tiktoken"), "\n");
  std::string kept;  // of the ranks, as far as the size goes
  std::string vocab;
  for (size_t rank = 0; rank < 150'000; ++rank) {
    const std::string& line = lines.at(rank);
    if (rank < kVocabSize - kNumSpecials) kept += line + "\n";
    vocab += rank == 0 ? "" : ",";
    vocab += R"({"rank": )" + std::to_string(rank) + R"(, "token_str": null, "token_bytes": ")" +
             line.substr(0, line.find(' ')) + R"("})";
  }
  const std::string pattern = json::serialize(json::Value(expressions::kTekken));
  const auto tekken = make_tokenizer(parse_tekken_json(
      R"({"config": {"default_vocab_size": 131072, "default_num_special_tokens": 1000,
                     "num_vocab_tokens": 150000, "pattern": )" +
      pattern + R"(}, "vocab": [)" + vocab + "]}"));
  const auto ranks = make_tokenizer(parse_tiktoken_ranks(kept, "tekken"));
  EXPECT_EQ(tekken->vocab_size(), kVocabSize);
  EXPECT_EQ(tekken->bos(), 1);
  const auto folder = hasten::testing::shared_dir() / "data/text";
  for (const char* name : {"botchan_en.txt", "wagahai_ja.txt", "natural-heldout.txt"}) {
    const std::string text = hasten::testing::read_file(folder / name);
    std::vector<int32_t> tokens = tekken->encode(text, {.add_special = false});
    EXPECT_EQ(tekken->decode(tokens), text) << name;
    for (int32_t& token : tokens) token -= kNumSpecials;
    EXPECT_EQ(tokens, ranks->encode(text, {.add_special = false})) << name;
  }
}

// The same vocabulary in three file formats cuts the same text alike.
TEST(Formats, Gpt2FromJson) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const GgufVocabulary gguf(read_tokenizer_file("ggml-vocab/ggml-vocab-gpt-2.gguf"));
  const auto from_gguf = make_tokenizer(gguf.spec());
  const auto from_json =
      make_tokenizer(parse_tokenizer_json(read_tokenizer_file("hf/phi-2/tokenizer.json"),
                                          read_tokenizer_file("hf/phi-2/tokenizer_config.json")));
  const std::string text =
      read_tokenizer_file("tiktoken/TestPlans.txt").substr(0, 50000);  // no runs of spaces
  EXPECT_EQ(from_gguf->encode(text), from_json->encode(text));
  // Phi-2 adds runs of spaces, which are matched first: two are token 50286.
  EXPECT_EQ(from_json->encode("a  b"), (std::vector<int32_t>{64, 50286, 65}));
}

}  // namespace
}  // namespace hasten::text
