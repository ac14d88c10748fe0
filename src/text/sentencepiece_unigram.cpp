// SPDX-License-Identifier: Apache-2.0
// SentencePiece Unigram (Kudo 2018, arXiv:1804.10959): the most probable pieces of a text, by the
// Viterbi algorithm over a trie of the vocabulary.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "base/error.h"
#include "text/piece_trie.h"
#include "text/sentencepiece_normalizer.h"
#include "text/unknown_fallback.h"
#include "text/utf8.h"
#include "text/wordwise_encoder.h"

namespace hasten::text {
namespace {

void check_scores(const TokenizerSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    fail(ErrorCode::invalid_data, "the tokenizer has {} tokens but {} scores", spec.tokens.size(),
         spec.scores.size());
  }
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (std::isnan(spec.scores[i]))
      fail(ErrorCode::invalid_data, "the score of token {} is NaN", i);
  }
}

PieceTrie make_trie(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Entry> entries;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_ordinary(id) && vocabulary.type(id) != TokenType::unused) {
      entries.push_back({vocabulary.bytes(id), id});
    }
  }
  return PieceTrie(std::move(entries));
}

class SentencePieceUnigram final : public WordwiseEncoder {
 public:
  SentencePieceUnigram(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : WordwiseEncoder(spec.pre_steps.value_or(PreTokenizerSteps())),
        vocabulary_(vocabulary),
        normalizer_(spec),
        has_words_(spec.pre_steps.has_value()),
        unk_(spec.unk),
        fuse_unk_(spec.fuse_unk.value_or(true)),
        trie_(make_trie(vocabulary)) {
    check_scores(spec);
    float max_score = FLT_MIN;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.type(id) != TokenType::normal) continue;
      min_score_ = std::min(min_score_, spec.scores[static_cast<size_t>(id)]);
      max_score = std::max(max_score, spec.scores[static_cast<size_t>(id)]);
    }
    // A user-defined piece is worth more than anything else that could stand there. Sums are made
    // in double, kept in float and compared so, as SentencePiece does: it decides between ways that
    // are equally good.
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      const auto length = static_cast<float>(vocabulary.bytes(id).size());
      gains_.push_back(vocabulary.type(id) == TokenType::user_defined
                           ? static_cast<double>(length * max_score) - 0.1
                           : static_cast<double>(spec.scores[static_cast<size_t>(id)]));
      if (vocabulary.is_ordinary(id)) {
        longest_piece_ = std::max(longest_piece_, vocabulary.bytes(id).size());
      }
    }
  }

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    if (!has_words_) {
      Lattice lattice;
      UnknownFallback tokens(vocabulary_, unk_, fuse_unk_, out);
      encode_run(normalizer_.apply(segment), lattice, tokens);
      return;
    }
    WordwiseEncoder::encode(segment, out);
  }

  std::unique_ptr<SplitSegment> split(const Segment& segment, size_t num_parts) const override {
    // Without words, the rounding of all scores before a piece can decide which one it is.
    return has_words_ ? WordwiseEncoder::split(segment, num_parts) : nullptr;
  }

 private:
  static constexpr int32_t kUnreached = -2;
  static constexpr int32_t kUnknown = -1;

  // The best way to a place in the text.
  struct Arrival {
    float score = 0;      // of the whole way
    uint32_t length = 0;  // of its last piece, in bytes
    int32_t id = kUnreached;
  };
  // Arrivals at the places from `origin` on; the way to `origin` is settled.
  struct Lattice {
    std::vector<Arrival> arrivals;
    std::vector<Arrival> way;
    size_t origin = 0;

    // The arrival at `place`, and room for those at the `num_more` places behind it.
    Arrival* at(size_t place, size_t num_more) {
      const size_t i = place - origin;
      if (i + num_more >= arrivals.size()) arrivals.resize(2 * (i + num_more) + 1);
      return &arrivals[i];
    }
  };

  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    std::vector<int32_t>& out) const override {
    Lattice lattice;
    for (size_t i = first; i < last; ++i) {
      UnknownFallback tokens(vocabulary_, unk_, fuse_unk_, out);
      encode_run(replace_space_symbol(cut.word(i)), lattice, tokens);
    }
  }

  static void arrive(Arrival& place, double score, size_t length, int32_t id) {
    if (place.id != kUnreached && score <= static_cast<double>(place.score)) return;
    place = {.score = static_cast<float>(score), .length = static_cast<uint32_t>(length), .id = id};
  }

  void encode_run(std::string_view text, Lattice& lattice, UnknownFallback& tokens) const {
    // Ways that have all met are settled from time to time, which bounds the memory.
    constexpr size_t kSettleBytes = 4096;
    constexpr float kUnknownPenalty = 10;
    constexpr size_t kMaxCharacterBytes = 4;
    const float unknown_score = min_score_ - kUnknownPenalty;
    const size_t longest_step = std::max(longest_piece_, kMaxCharacterBytes);
    lattice.arrivals.assign(1, Arrival{});
    lattice.origin = 0;
    size_t reached = 0;  // the furthest arrival
    for (size_t begin = 0; begin < text.size();) {
      if (begin == reached && begin - lattice.origin >= kSettleBytes) {
        settle(text, begin, lattice, tokens);
      }
      Arrival* const here = lattice.at(begin, longest_step);
      const float so_far = here->score;
      const size_t character = decode_utf8(text.substr(begin)).length;
      bool has_character = false;
      size_t longest = character;
      trie_.prefixes(text.substr(begin), [&](size_t length, int32_t id) {
        has_character = has_character || length == character;
        longest = std::max(longest, length);
        arrive(here[length], gains_[static_cast<size_t>(id)] + static_cast<double>(so_far), length,
               id);
      });
      if (!has_character) {
        arrive(here[character], static_cast<double>(unknown_score + so_far), character, kUnknown);
      }
      reached = std::max(reached, begin + longest);
      begin += character;
    }
    settle(text, text.size(), lattice, tokens);
  }

  // Emits the best way from the origin to `end`, which becomes the origin.
  static void settle(std::string_view text, size_t end, Lattice& lattice, UnknownFallback& tokens) {
    lattice.way.clear();
    for (size_t place = end; place > lattice.origin; place -= lattice.way.back().length) {
      lattice.way.push_back(*lattice.at(place, 0));
    }
    const float score = lattice.at(end, 0)->score;
    size_t begin = lattice.origin;
    for (size_t i = lattice.way.size(); i > 0; --i) {
      const Arrival& piece = lattice.way[i - 1];
      if (piece.id >= 0) {
        tokens.append_token(piece.id);
      } else {
        tokens.append_unknown(text.substr(begin, piece.length));
      }
      begin += piece.length;
    }
    lattice.arrivals.assign(1, Arrival{.score = score, .length = 0, .id = kUnknown});
    lattice.origin = end;
  }

  const Vocabulary& vocabulary_;
  SentencePieceNormalizer normalizer_;
  bool has_words_;
  int32_t unk_;
  bool fuse_unk_;
  PieceTrie trie_;
  std::vector<double> gains_;  // [vocab_size]: what a piece adds to the score of a way
  float min_score_ = FLT_MAX;  // of normal tokens
  size_t longest_piece_ = 0;   // bytes
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_sentencepiece_unigram(const TokenizerSpec& spec,
                                                                 const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceUnigram>(spec, vocabulary);
}

}  // namespace hasten::text
