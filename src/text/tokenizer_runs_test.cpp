// SPDX-License-Identifier: Apache-2.0
// Runs of every class of characters through tokenizers of every kind: time is linear in the text.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "text/character_runs.h"
#include "text/pre_tokenizer.h"
#include "text/token_spelling.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using testing::kCharacterRuns;
using testing::repeated;

// Every byte, and 1, 2, 4, … 32 units of each run: tokens that merge again and again.
std::vector<std::string> pieces() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const auto& run : kCharacterRuns) {
    std::string piece(run.unit);
    for (int i = 0; i < 6; ++i, piece += piece) {
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
  }
  return pieces;
}

TokenizerSpec spec_of(TokenizerKind kind) {
  TokenizerSpec spec;
  spec.kind = kind;
  spec.merges_by_rank = kind == TokenizerKind::bpe;
  for (const std::string& piece : pieces()) {
    const bool sentencepiece = kind == TokenizerKind::spm || kind == TokenizerKind::unigram;
    if (kind == TokenizerKind::bpe) {
      spec.tokens.push_back(to_gpt2_alphabet(piece));
    } else if (kind == TokenizerKind::rwkv) {
      spec.tokens.push_back(to_python_bytes(piece));
    } else if (sentencepiece && piece.find(' ') != std::string::npos) {
      std::string symbols;
      for (const char c : piece) symbols += c == ' ' ? "\u2581" : std::string(1, c);
      spec.tokens.push_back(symbols);
    } else {
      spec.tokens.push_back(piece);
    }
    spec.scores.push_back(-static_cast<float>(spec.tokens.size()));
  }
  if (kind == TokenizerKind::word_piece) {
    spec.continuing_subword_prefix = "##";
    for (const std::string& piece : pieces()) spec.tokens.push_back("##" + piece);
  }
  if (kind == TokenizerKind::character_bpe) {
    const std::vector<std::string> all = pieces();
    for (const std::string& piece : all) {
      const std::string half = piece.substr(0, piece.size() / 2);
      if (half + half == piece) spec.merges.push_back(half + ' ' + half);
    }
  }
  spec.unk = 0;
  return spec;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_for(const Tokenizer& tokenizer, const std::string& text) {
  const double start = cpu_seconds();
  EXPECT_LE(tokenizer.encode(text).size(), 4 * text.size() + 2);
  return cpu_seconds() - start;
}

// Eight times the text takes eight times as long, and four times that for chance and for allocators
// that ask the system for large pieces (ASan: 20); what is quadratic takes 64 times. The best of a
// few tries counts: others use the machine too.
void expect_linear(const TokenizerSpec& spec, std::string_view name) {
  const auto tokenizer = make_tokenizer(spec);
  for (const auto& run : kCharacterRuns) {
    const std::string shorter = repeated(run.unit, size_t{1} << 14);
    const std::string longer = repeated(run.unit, size_t{1} << 17);
    double short_time = 1e9;
    double long_time = 1e9;
    for (int tries = 0; tries < 5; ++tries) {
      short_time = std::min(short_time, seconds_for(*tokenizer, shorter));
      long_time = std::min(long_time, seconds_for(*tokenizer, longer));
      if (long_time < 32 * short_time) break;
    }
    EXPECT_LT(long_time, 32 * short_time) << name << ": " << run.name;
  }
}

TEST(TokenizerRuns, EveryPreTokenizerIsLinear) {
  std::set<const std::string_view*> seen;
  TokenizerSpec spec = spec_of(TokenizerKind::bpe);
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    if (!seen.insert(known.expressions.data()).second) continue;
    spec.pre = std::string(known.name);
    expect_linear(spec, known.name);
  }
}

TEST(TokenizerRuns, EveryKindIsLinear) {
  expect_linear(spec_of(TokenizerKind::spm), "SentencePiece BPE");
  expect_linear(spec_of(TokenizerKind::unigram), "Unigram");
  expect_linear(spec_of(TokenizerKind::word_piece), "WordPiece");
  expect_linear(spec_of(TokenizerKind::rwkv), "RWKV");
  TokenizerSpec characters = spec_of(TokenizerKind::character_bpe);
  expect_linear(characters, "character BPE");
  characters.pre_steps = whitespace_steps();
  expect_linear(characters, "character BPE in words");
}

}  // namespace
}  // namespace hasten::text
