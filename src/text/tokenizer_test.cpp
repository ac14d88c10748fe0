// SPDX-License-Identifier: Apache-2.0
// Published tokenizers against their published vectors, and the rules that no vector covers.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "text/shared_vocabularies.h"

namespace hasten::text {
namespace {

using testing::GgufVocabulary;
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

}  // namespace
}  // namespace hasten::text
