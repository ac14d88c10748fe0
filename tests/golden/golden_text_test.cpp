// SPDX-License-Identifier: Apache-2.0
// Greedy text through the front door against published and recorded answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "hasten/engine.h"
#include "hasten_test/paths.h"

namespace hasten {
namespace {

using testing::read_file;
using testing::shared_dir;
using testing::source_dir;

constexpr json::Limits kRecordLimits{.max_bytes = int64_t{16} << 20, .max_depth = 16};

std::string greedy(Engine& engine, std::vector<int32_t> prompt, int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return engine.generate(std::move(request));
}

/// The most that a token of the answer falls short of the likeliest one, in log-probability, where
/// all before it is as recorded.
double worst_gap(Engine& engine, const std::vector<int32_t>& prompt,
                 const std::vector<int32_t>& answer) {
  Request request;
  request.prompt = prompt;
  request.prompt.insert(request.prompt.end(), answer.begin(), answer.end());
  request.prompt_logprobs = 1;
  request.max_tokens = 1;
  std::vector<double> gaps;
  Generation generation = engine.submit(std::move(request), [&](const Chunk& chunk) {
    for (const TokenLogprob& token : chunk.prompt_logprobs) {
      gaps.push_back(double{token.top.at(0).logprob} - double{token.chosen.logprob});
    }
  });
  generation.wait();
  EXPECT_EQ(gaps.size(), prompt.size() + answer.size() - 1);
  if (gaps.size() < prompt.size()) return std::numeric_limits<double>::infinity();
  return *std::max_element(gaps.begin() + static_cast<std::ptrdiff_t>(prompt.size()) - 1,
                           gaps.end());
}

TEST(GoldenText, Stories260KMatchesThePublishedText) {
  HASTEN_NEED_SHARED("data/models/stories260K");
  const auto folder = shared_dir() / "data/models/stories260K";
  // The published greedy text is the first code block of the page; a line of timing follows it.
  const std::string page = read_file(folder / "stories260K.golden.md");
  const size_t begin = page.find("Once upon a time");
  ASSERT_NE(begin, std::string::npos);
  std::string published = page.substr(begin, page.find("```", begin) - begin);
  if (const size_t timing = published.find("\nachieved"); timing != std::string::npos) {
    published.resize(timing);
  }
  while (!published.empty() && published.back() == '\n') published.pop_back();

  // The file says 128 tokens of context; the weights were trained for 512.
  Engine engine({.model = folder / "stories260Ktok512.gguf", .context = 512});
  Request request;
  request.prompt = engine.tokenize("");
  request.sampling.temperature = 0;
  request.max_tokens = 256;  // steps of the published command
  std::string text = engine.generate(std::move(request));
  while (!text.empty() && (text.front() == ' ')) text.erase(0, 1);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  EXPECT_GT(published.size(), 400U);
  EXPECT_EQ(text, published);
  std::printf("stories260K: %zu bytes of greedy text equal the published ones\n", text.size());
}

TEST(GoldenText, DemonstrationModelSaysWhatItsReferenceSaid) {
  const auto golden = json::parse(read_file(source_dir() / "tests/golden/hasten-tiny.json"),
                                  "golden", kRecordLimits);
  // Rounding may choose between two tokens that are as likely, and all that follows is another
  // text; each token of the recorded one must remain a choice all the same. The
  // only tie seen is 5e-4 apart ("Once upon a time", AVX-512 BF16); ten times that is still one.
  constexpr double kTie = 5e-3;
  Engine engine;
  int equal = 0;
  for (const json::Value& entry : golden.at("logits").as_array()) {
    const std::string prompt(entry.at("prompt").as_string());
    const std::vector<int32_t> tokens = engine.tokenize(prompt, false, /*parse_special=*/true);
    std::vector<int32_t> expected;
    for (const json::Value& id : entry.at("tokens").as_array()) {
      expected.push_back(id.to_number<int32_t>());
    }
    EXPECT_EQ(tokens, expected) << prompt;
    std::vector<int32_t> answer;
    for (const json::Value& id : entry.at("greedy_tokens").as_array()) {
      answer.push_back(id.to_number<int32_t>());
    }
    const std::string_view recorded = entry.at("greedy_text").as_string();
    const std::string text = greedy(engine, tokens, 48);
    const double gap = worst_gap(engine, tokens, answer);
    EXPECT_LE(gap, kTie) << prompt;
    if (text == recorded) {
      ++equal;
    } else {
      EXPECT_GT(gap, 0) << text << "\nwhere the recorded answer is\n" << recorded;
      std::printf("%s: another answer after a tie of %.4f\n", prompt.c_str(), gap);
    }
  }
  EXPECT_GE(equal, 5);
  std::printf("hasten-tiny: %d greedy answers as recorded\n", equal);
}

TEST(GoldenText, DemonstrationModelKeepsItsPerplexity) {
  const auto golden = json::parse(read_file(source_dir() / "tests/golden/hasten-tiny.json"),
                                  "golden", kRecordLimits);
  Engine engine;
  for (const json::Value& entry : golden.at("perplexity").as_array()) {
    const std::string name(entry.at("text").as_string());
    auto path = source_dir() / "tests/golden" / name;
    if (!std::filesystem::exists(path)) path = shared_dir() / "data/text" / name;
    if (!std::filesystem::exists(path)) {
      std::printf("%s is absent, not measured\n", path.c_str());
      continue;
    }
    std::vector<int32_t> tokens = engine.tokenize(read_file(path), false, /*parse_special=*/true);
    tokens.resize(std::min(tokens.size(), entry.at("first_tokens").to_number<size_t>()));
    const auto window = entry.at("window").to_number<size_t>();
    double sum = 0;
    int64_t predicted = 0;
    for (size_t i = 0; i + 1 < tokens.size(); i += window) {
      Request request;
      const size_t end = std::min(i + window + 1, tokens.size());
      request.prompt.assign(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                            tokens.begin() + static_cast<std::ptrdiff_t>(end));
      request.prompt_logprobs = 0;
      request.max_tokens = 1;
      Generation generation = engine.submit(std::move(request), [&](const Chunk& chunk) {
        for (const TokenLogprob& token : chunk.prompt_logprobs) {
          sum += token.chosen.logprob;
          ++predicted;
        }
      });
      generation.wait();
    }
    const double perplexity = std::exp(-sum / static_cast<double>(predicted));
    const auto expected = entry.at("perplexity").to_number<double>();
    std::printf("%s: perplexity %.5f over %ld tokens, reference %.5f\n", name.c_str(), perplexity,
                predicted, expected);
    EXPECT_EQ(predicted, entry.at("first_tokens").to_number<int64_t>() - 1);
    EXPECT_NEAR(perplexity / expected, 1.0, 1e-2);
  }
}

TEST(GoldenText, ToolCallsParse) {
  Engine engine;
  const Chat chat{.messages = R"([{"role": "user", "content": "What is the weather in Paris?"}])",
                  .tools = R"([{"type": "function", "function": {"name": "get_weather",
        "description": "Get the weather of a city.", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])"};
  const RenderedChat prompt = engine.render_chat(chat);
  const std::string answer = greedy(engine, prompt.tokens, 96);
  const auto parser = engine.chat_parser(prompt);
  std::vector<ChatEvent> events = parser->push(answer);
  for (ChatEvent& event : parser->finish()) events.push_back(std::move(event));
  std::string name;
  std::string arguments;
  for (const ChatEvent& event : events) {
    if (event.kind == ChatEvent::Kind::tool_call) name = event.name;
    if (event.kind == ChatEvent::Kind::tool_arguments) arguments += event.text;
  }
  EXPECT_EQ(name, "get_weather") << answer;
  const json::Value parsed = json::parse(arguments, "arguments");
  EXPECT_EQ(parsed.at("city").as_string(), "Paris") << answer;
}

}  // namespace
}  // namespace hasten
