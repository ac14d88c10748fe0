// SPDX-License-Identifier: Apache-2.0
// Trained models whose logits or texts are known: hasten-tiny and stories260K.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/json.h"
#include "hasten_test/errors.h"
#include "hasten_test/paths.h"
#include "models/model_session_test.h"

namespace hasten::models {
namespace {

using hasten::testing::read_file;
using hasten::testing::shared_dir;

template <class T>
std::vector<T> numbers(const json::Value& array) {
  std::vector<T> result;
  for (const json::Value& value : array.as_array()) result.push_back(value.to_number<T>());
  return result;
}

// golden.json was made in float64 from the same BF16 weights; logits there have six decimals.
void expect_golden(const std::string& model_name, const std::string& file,
                   size_t num_greedy_prompts) {
  const auto folder = shared_dir() / "models" / model_name;
  const json::Value golden = json::parse(read_file(folder / "golden.json"), "golden.json");
  const auto checkpoint = weights::open_checkpoint(folder / file);
  ModelSession session(*checkpoint);
  const std::vector<int32_t> stop = {2045, 2047};  // <|endoftext|>, <|im_end|>
  double worst = 0.0;
  ASSERT_FALSE(golden.at("logits").as_array().empty());
  for (const json::Value& value : golden.at("logits").as_array()) {
    const json::Object& prompt = value.as_object();
    const auto tokens = numbers<int32_t>(prompt.at("tokens"));
    const auto expected = numbers<double>(prompt.at("last_logits"));
    const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
    session.reset();
    const double error = testing::largest_error(session.feed(tokens, {&last, 1}), expected);
    EXPECT_LT(error, 1e-5) << prompt.at("prompt");  // here, since max would drop a NaN
    worst = std::max(worst, error);
    if (num_greedy_prompts == 0) continue;
    --num_greedy_prompts;
    EXPECT_EQ(session.greedy(tokens, 48, stop), numbers<int32_t>(prompt.at("greedy_tokens")))
        << prompt.at("prompt");
  }
  std::printf("%s/%s: largest relative error of a logit %.1e\n", model_name.c_str(), file.c_str(),
              worst);
}

TEST(Golden, HastenTinyFromGguf) {
  HASTEN_NEED_SHARED("models/hasten-tiny");
  expect_golden("hasten-tiny", "hasten-tiny-bf16.gguf", 6);
}

TEST(Golden, HastenTinyFromHuggingFaceFolder) {
  HASTEN_NEED_SHARED("models/hasten-tiny");
  expect_golden("hasten-tiny", "hf", 1);
}

TEST(Golden, HastenTinyDraft) {
  HASTEN_NEED_SHARED("models/hasten-tiny-draft");
  expect_golden("hasten-tiny-draft", "hasten-tiny-draft-bf16.gguf", 6);
}

// One layer of hasten-tiny, quantised by another tool; float64 logits of the dequantised weights.
TEST(Golden, EveryWeightFormat) {
  HASTEN_NEED_SHARED("models/formats");
  const auto folder = shared_dir() / "models/formats";
  const json::Value golden = json::parse(read_file(folder / "golden.json"), "golden.json");
  const auto tokens = numbers<int32_t>(golden.at("tokens"));
  const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
  int formats = 0;
  for (const auto& [file, logits] : golden.at("last_logits").as_object()) {
    if (file == "one-layer-iq3_s.gguf") continue;  // not one of ours
    const auto checkpoint = weights::open_checkpoint(folder / std::string(file));
    ModelSession session(*checkpoint);
    const double error =
        testing::largest_error(session.feed(tokens, {&last, 1}), numbers<double>(logits));
    std::printf("%s: %s, largest relative error %.1e\n", std::string(file).c_str(),
                session.model().info().weight_types.c_str(), error);
    EXPECT_LT(error, 1e-5) << file;
    ++formats;
  }
  EXPECT_EQ(formats, 15);
}

/// The text of SentencePiece tokens: U+2581 is a space, <0xNN> a byte.
std::string text_of(std::span<const int32_t> ids, std::span<const std::string_view> pieces) {
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece(pieces[static_cast<size_t>(id)]);
    if (piece.size() == 6 && piece.starts_with("<0x"))
      text += static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
    else
      text += piece;
  }
  const std::string space = "\u2581";
  for (size_t at = 0; (at = text.find(space, at)) != text.npos;)
    text.replace(at, space.size(), " ");
  return text;
}

// The file claims a context of 128; the published text has 256 tokens, as an explicit context may.
TEST(Golden, Stories260KWritesThePublishedText) {
  HASTEN_NEED_SHARED("data/models/stories260K");
  const auto folder = shared_dir() / "data/models/stories260K";
  const std::string page = read_file(folder / "stories260K.golden.md");
  const size_t begin = page.find("Once upon a time");
  const std::string expected = page.substr(begin, page.find("\n```", begin) - begin);

  const auto checkpoint = weights::open_checkpoint(folder / "stories260Ktok512.gguf");
  ModelSession session(*checkpoint, {.context = 256});
  EXPECT_EQ(session.model().info().max_context, 128);
  const int32_t bos = 1;
  const auto tokens = session.greedy({&bos, 1}, 256);
  const std::string text =
      text_of(tokens, checkpoint->metadata().get_strings("tokenizer.ggml.tokens"));
  EXPECT_EQ(text, " " + expected);
}

}  // namespace
}  // namespace hasten::models
