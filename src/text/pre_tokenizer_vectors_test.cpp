// SPDX-License-Identifier: Apache-2.0
// Names every pre-tokenizer, and runs the published vectors of those that have any.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/pre_tokenizer_chain.h"
#include "text/shared_vocabularies.h"
#include "text/vocabulary.h"

namespace hasten::text {
namespace {

using testing::GgufVocabulary;
using testing::read_tokenizer_file;

struct Vector {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Vector> ggml_vectors(const std::string& name) {
  static constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string path = "ggml-vocab/ggml-vocab-" + name + ".gguf";
  const std::string texts = read_tokenizer_file(path + ".inp");
  std::istringstream lines(read_tokenizer_file(path + ".out"));
  std::vector<Vector> vectors;
  std::string line;
  for (size_t begin = 0; begin <= texts.size() && std::getline(lines, line);) {
    const size_t end = std::min(texts.find(kSeparator, begin), texts.size());
    std::istringstream numbers(line);
    vectors.push_back(
        {texts.substr(begin, end - begin),
         {std::istream_iterator<int32_t>(numbers), std::istream_iterator<int32_t>()}});
    begin = end + kSeparator.size();
  }
  return vectors;
}

std::vector<Vector> json_vectors(const std::string& file, const std::string& model) {
  const json::Value all = json::parse(read_tokenizer_file("vectors/" + file), file);
  std::vector<Vector> vectors;
  for (const auto& [name, value] : all.as_object().at(model).as_object()) {
    Vector vector{.text = std::string(value.as_object().at("text").as_string()), .ids = {}};
    for (const json::Value& id : value.as_object().at("ids").as_array()) {
      vector.ids.push_back(static_cast<int32_t>(id.as_int64()));
    }
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

// A vocabulary whose published vectors show how `pre` cuts.
struct Published {
  std::string pre;
  TokenizerSpec spec;
  std::vector<Vector> vectors;
};

std::vector<Published> published() {
  std::vector<Published> all;
  const GgufVocabulary gpt2(read_tokenizer_file("ggml-vocab/ggml-vocab-gpt-2.gguf"));
  all.push_back({"gpt-2", gpt2.spec(), ggml_vectors("gpt-2")});
  all.push_back({"llama-bpe", testing::llama3_spec(), ggml_vectors("llama-bpe")});
  all.push_back({"qwen2", testing::qwen2_spec(), ggml_vectors("qwen2")});
  all.push_back({"gpt-4o", testing::o200k_spec(), json_vectors("gpt2.json", "Xenova/gpt-4o")});
  return all;
}

TEST(PreTokenizerVectors, OfEveryName) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const std::vector<Published> sources = published();
  std::string without;
  size_t with_vectors = 0;
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    const auto source = std::find_if(sources.begin(), sources.end(), [&](const Published& one) {
      return std::ranges::equal(find_pre_tokenizer(one.pre).expressions, known.expressions);
    });
    if (source == sources.end()) {
      without.append(without.empty() ? "" : ", ").append(known.name);
      continue;
    }
    TokenizerSpec spec = source->spec;
    spec.pre = known.name;
    // The same words of another model: what else its name implies is not the vectors' subject.
    if (known.name != source->pre) {
      spec.normalize_nfc = find_pre_tokenizer(source->pre).normalize_nfc;
      spec.ignore_merges = find_pre_tokenizer(source->pre).ignore_merges;
    }
    const auto tokenizer = make_tokenizer(std::move(spec));
    for (const Vector& vector : source->vectors) {
      EXPECT_EQ(tokenizer->encode(vector.text, {.add_special = false}), vector.ids)
          << known.name << ": " << vector.text;
    }
    std::printf("%s: %zu published vectors%s\n", std::string(known.name).c_str(),
                source->vectors.size(),
                known.name == source->pre ? "" : (" of " + source->pre).c_str());
    ++with_vectors;
  }
  std::printf("compared with PCRE2 only: %s\n", without.c_str());
  std::printf("%zu names, %zu with vectors\n", known_pre_tokenizers().size(), with_vectors);
  EXPECT_GE(with_vectors, 40U);
}

// Every name makes a tokenizer that gives the text back.
TEST(PreTokenizerVectors, EveryNameMakesATokenizer) {
  const std::string text = "It's 1234567 \u0e44\u0e17\u0e22, \u4e2d\u6587!\n\n  <x> \u00e9\xff";
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    TokenizerSpec spec;
    spec.pre = known.name;
    spec.normalize_nfc = false;
    for (int byte = 0; byte < 256; ++byte) {
      spec.tokens.push_back(to_gpt2_alphabet(std::string(1, static_cast<char>(byte))));
    }
    spec.tokens.push_back(spec.tokens['1'] + spec.tokens['2']);
    spec.merges = {"1 2"};
    const auto tokenizer = make_tokenizer(std::move(spec));
    std::string bytes;
    for (const int32_t id : tokenizer->encode(text)) bytes += tokenizer->token_bytes(id);
    EXPECT_EQ(bytes, text) << known.name;
  }
}

// A run of one kind of character, however long, is cut in time linear in it. Reading it anew from
// every position would take some 20 s.
TEST(PreTokenizerVectors, LongRunsOfAnything) {
  constexpr size_t kLength = 200000;
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    const bool seen = &known != known_pre_tokenizers().data() &&
                      std::prev(&known)->expressions.data() == known.expressions.data();
    if (seen) continue;
    const PreTokenizerChain chain(known.steps());
    for (const char* part :
         {"a", "A", "1", "!", " ", "\n", "\t", "'", "\u4e2d", "\u0301", "1a", " \n", "\xff"}) {
      std::string text;
      while (text.size() < kLength) text += part;
      text += 'x';
      PreTokenizerChain::Words cut;
      const auto start = std::chrono::steady_clock::now();
      chain.cut(text, /*starts_text=*/true, cut);
      for (size_t at = 0; chain.scanner() && at < text.size();) {
        at += first_word_length(*chain.scanner(), std::string_view(text).substr(at));
      }
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3))
          << known.name << ": " << part;
      EXPECT_EQ(cut.words.back().end, text.size());
    }
  }
}

}  // namespace
}  // namespace hasten::text
