// SPDX-License-Identifier: Apache-2.0
// The names that GGUF files give to pre-tokenizers, and what each stands for.
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/pre_tokenizer.h"
#include "text/pre_tokenizer_expressions.h"

namespace hasten::text {
namespace {

using namespace expressions;
using Expressions = std::string_view[];

// Expressions that cut one after the other, each what the one before left.
// clang-format off
constexpr Expressions kGpt2Words = {kGpt2};
constexpr Expressions kGpt2WordsAndDigits = {kNumber, kGpt2};
constexpr Expressions kLlama3Words = {kLlama3};
constexpr Expressions kQwen2Words = {kQwen2};
constexpr Expressions kQwen35Words = {kQwen35};
constexpr Expressions kO200kWords = {kO200k};
constexpr Expressions kTekkenWords = {kTekken};
constexpr Expressions kDefaultWords = {kDefaultPunctuation, kGpt2, kNumbers, kThreeDigits};
constexpr Expressions kFalconWords = {kFalconPunctuation, kGpt2, kThreeDigits};
constexpr Expressions kBloomWords = {kBloom};
constexpr Expressions kVikingWords = {kBloom, kNumber};
constexpr Expressions kDeepSeekWords = {kNewline, kDeepSeekLetters, kDeepSeekPunctuation,
                                        kDeepSeekSpaceAtEnd, kDeepSeekCjk, kNumbers};
constexpr Expressions kDeepSeekCoderWords = {kNewline, kCoderLetters, kCoderPunctuation,
                                             kDeepSeekCjk, kNumber};
constexpr Expressions kDeepSeek3Words = {kThreeNumbers, kCjk, kDeepSeek3};
constexpr Expressions kSparkWords = {kThreeNumbers, kCjk, kSpark, kNumber};
constexpr Expressions kYoutuWords = {kYoutuScripts, kYoutu};
constexpr Expressions kAfmoeWords = {kThreeNumbersFromTheEnd, kAfmoeScripts, kDeepSeek3};
constexpr Expressions kTinyAyaWords = {kThreesFromTheEndOfWord, kO200k};
constexpr Expressions kSuperBpeWords = {kNumbers, kThreesFromTheEnd};
constexpr Expressions kMiniCpm5Words = {kThreeNumbers, kMiniCpm5};
constexpr Expressions kLagunaWords = {kLines, kQwen2};
constexpr Expressions kChameleonWords = {kChameleonSentinel, kChameleonImage, kChameleonSpace,
                                         kNumber, kChameleonPunctuation, kGpt2};
constexpr Expressions kJais2Words = {kJais2};
constexpr Expressions kKimiK2Words = {kKimiK2};
constexpr Expressions kBailingWords = {kBailing};
constexpr Expressions kSeedCoderWords = {kSeedCoder};
constexpr Expressions kUfakZekaWords = {kUfakZeka};
constexpr Expressions kExaoneMoeWords = {kExaoneMoe};

constexpr bool kNfc = true;  // normalize_nfc

// name, expressions, ignore_merges, add_bos, normalize_nfc. What a GGUF file says of merges and bos
// goes before; that a model's own tokenizer composes characters first, it cannot say.
constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", kGpt2Words, false, false, false},
    {"phi-2", kGpt2Words, false, false, false},
    {"mpt", kGpt2Words, false, false, kNfc},
    {"olmo", kGpt2Words, false, false, kNfc},
    {"modern-bert", kGpt2Words, false, false, kNfc},
    {"jais", kGpt2Words, false, false, false},
    {"trillion", kGpt2Words, false, false, false},
    {"granite-docling", kGpt2Words, false, false, false},
    {"exaone4", kGpt2Words, false, false, false},
    {"gigachat", kGpt2Words, false, false, false},
    {"a.x-4.0", kGpt2Words, false, false, false},
    {"mellum", kGpt2Words, false, false, false},
    {"roberta-bpe", kGpt2Words, false, false, false},
    {"jina-v1-en", kGpt2Words, false, false, false},
    {"jina-v2-code", kGpt2Words, false, false, false},
    {"jina-es", kGpt2Words, false, false, false},
    {"jina-de", kGpt2Words, false, false, false},
    {"jina-v2-es", kGpt2Words, false, false, false},
    {"jina-v2-de", kGpt2Words, false, false, false},
    {"smollm", kGpt2WordsAndDigits, false, false, false},
    {"starcoder", kGpt2WordsAndDigits, false, false, false},
    {"refact", kGpt2WordsAndDigits, false, false, false},
    {"command-r", kGpt2WordsAndDigits, false, false, kNfc},
    {"codeshell", kGpt2WordsAndDigits, false, false, false},
    {"exaone", kGpt2WordsAndDigits, false, false, false},
    {"minerva-7b", kGpt2WordsAndDigits, false, false, false},
    {"mellum2", kGpt2WordsAndDigits, false, false, false},
    {"llama-bpe", kLlama3Words, true, true, false},
    {"llama3", kLlama3Words, true, true, false},
    {"llama-v3", kLlama3Words, true, true, false},
    {"falcon3", kLlama3Words, true, true, false},
    {"falcon-h1", kLlama3Words, true, true, false},
    {"pixtral", kLlama3Words, true, true, false},
    {"midm-2.0", kLlama3Words, true, true, false},
    {"lfm2", kLlama3Words, true, true, false},
    {"jina-v5-nano", kLlama3Words, true, true, false},
    {"dbrx", kLlama3Words, false, false, false},
    {"smaug-bpe", kLlama3Words, false, false, false},
    {"chatglm-bpe", kLlama3Words, false, false, false},
    {"glm4", kLlama3Words, false, false, false},
    {"qwen2", kQwen2Words, false, false, kNfc},
    {"deepseek-r1-qwen", kQwen2Words, false, false, kNfc},
    {"kormo", kQwen2Words, false, false, false},
    {"f2llmv2", kQwen2Words, false, false, kNfc},
    {"megrez", kQwen2Words, false, false, false},
    {"stablelm2", kQwen2Words, false, false, false},
    {"hunyuan", kQwen2Words, false, false, false},
    {"solar-open", kQwen2Words, false, false, false},
    {"grok-2", kQwen2Words, false, false, false},
    {"qwen35", kQwen35Words, false, false, kNfc},
    {"gpt-4o", kO200kWords, false, false, false},
    {"llama4", kO200kWords, false, false, false},
    {"kanana2", kO200kWords, false, false, false},
    {"talkie", kO200kWords, false, false, false},
    {"minimax-m2", kO200kWords, false, false, false},
    {"granite-embed-multi-97m", kO200kWords, true, false, false},
    {"tekken", kTekkenWords, true, true, false},
    {"default", kDefaultWords, false, false, false},
    {"falcon", kFalconWords, false, false, false},
    {"poro-chat", kBloomWords, false, false, false},
    {"bloom", kBloomWords, false, false, false},
    {"gpt3-finnish", kBloomWords, false, false, false},
    {"viking", kVikingWords, false, false, false},
    {"deepseek-llm", kDeepSeekWords, false, false, false},
    {"deepseek-coder", kDeepSeekCoderWords, false, false, false},
    {"deepseek-v3", kDeepSeek3Words, false, false, false},
    {"hunyuan-dense", kDeepSeek3Words, false, false, false},
    {"joyai-llm", kDeepSeek3Words, false, false, false},
    {"hy_v4", kDeepSeek3Words, false, false, false},
    {"spark2_5", kSparkWords, false, false, false},
    {"youtu", kYoutuWords, true, false, false},
    {"afmoe", kAfmoeWords, false, false, false},
    {"tiny_aya", kTinyAyaWords, false, false, kNfc},
    {"cohere2moe", kTinyAyaWords, false, false, kNfc},
    {"superbpe", kSuperBpeWords, false, false, false},
    {"minicpm5", kMiniCpm5Words, true, false, false},
    {"laguna", kLagunaWords, false, false, false},
    {"chameleon", kChameleonWords, false, true, false},
    {"jais-2", kJais2Words, false, false, false},
    {"kimi-k2", kKimiK2Words, false, false, false},
    {"bailingmoe", kBailingWords, false, false, false},
    {"bailingmoe2", kBailingWords, false, false, false},
    {"llada-moe", kBailingWords, false, false, false},
    {"seed-coder", kSeedCoderWords, false, false, false},
    {"ufakzeka", kUfakZekaWords, false, false, false},
    {"exaone-moe", kExaoneMoeWords, false, false, false},
};
// clang-format on

}  // namespace

std::span<const PreTokenizer> known_pre_tokenizers() { return kPreTokenizers; }

const PreTokenizer& find_pre_tokenizer(std::string_view name) {
  std::string known;
  for (const PreTokenizer& entry : kPreTokenizers) {
    if (entry.name == name) return entry;
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  fail(ErrorCode::unsupported, "the pre-tokenizer {} is not known; known are {}", printable(name),
       known);
}

PreTokenizerSteps PreTokenizer::steps() const {
  PreTokenizerSteps steps;
  for (const std::string_view expression : expressions) {
    steps.push_back({.pattern = std::string(expression), .dialect = regex::Dialect::ruby});
  }
  return steps;
}

}  // namespace hasten::text
