// SPDX-License-Identifier: Apache-2.0
// SentencePiece Unigram (Kudo 2018, arXiv:1804.10959): the most probable pieces of a text, by the
// Viterbi algorithm over a trie of the vocabulary.
#include <algorithm>
#include <array>
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

PieceTrie trie_of_pieces(const Vocabulary& vocabulary) {
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
        trie_(trie_of_pieces(vocabulary)) {
    check_scores(spec);
    double max_score = FLT_MIN;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.type(id) != TokenType::normal) continue;
      min_score_ = std::min(min_score_, spec.scores[static_cast<size_t>(id)]);
      max_score = std::max(max_score, spec.scores[static_cast<size_t>(id)]);
    }
    // A user-defined piece is worth more than anything else that could stand there. Sums are made
    // in double, kept in float and compared so, as SentencePiece does: it decides between ways that
    // are equally good. What reads a tokenizer.json keeps them in double.
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      const auto length = static_cast<float>(vocabulary.bytes(id).size());
      gains_.push_back(vocabulary.type(id) == TokenType::user_defined
                           ? static_cast<double>(length * static_cast<float>(max_score)) - 0.1
                           : spec.scores[static_cast<size_t>(id)]);
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
  static constexpr int32_t kUnreached = -1;
  // Unknown characters, by their length in bytes.
  static constexpr int32_t unknown(size_t length) { return -1 - static_cast<int32_t>(length); }

  // A piece that begins somewhere.
  struct Piece {
    uint32_t length;
    int32_t id;
    double gain;
  };
  // The pieces that begin at a place, which runs of a character or two repeat at the next.
  struct Walk {
    std::string_view seen;  // what decides which they are
    std::vector<Piece> pieces;
  };
  // The best ways to the places of a text from `origin` on, to which the way is settled.
  struct Lattice {
    std::vector<int32_t> ids;  // of the last piece of each: a token, unknown(length), kUnreached
    size_t origin = 0;
    // Of the whole way, to the places from `window` on: those before are not asked any more.
    std::vector<double> scores;
    size_t window = 0;
    std::vector<int32_t> way;   // of what is being settled, from its end
    std::array<Walk, 2> walks;  // the last two; views of the text
    size_t next_walk = 0;       // to be forgotten

    Lattice() : scores(kWindow) {}
    void begin_at(size_t place, double score) {
      ids.assign(1, kUnreached);
      scores[0] = score;
      origin = window = place;
    }
    // Makes room for the `num_more` places behind `place`.
    void reach(size_t place, size_t num_more) {
      const size_t end = place + num_more + 1;
      if (end - origin > ids.size()) ids.resize(2 * (end - origin), kUnreached);
      if (end - window <= scores.size()) return;
      std::copy(scores.begin() + static_cast<ptrdiff_t>(place - window), scores.end(),
                scores.begin());
      window = place;
    }
  };
  static constexpr size_t kWindow = 4096;               // places: 32 KiB
  static_assert(kWindow > Vocabulary::kMaxTokenBytes);  // of which a piece reaches no more

  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    std::vector<int32_t>& out) const override {
    Lattice lattice;
    for (size_t i = first; i < last; ++i) {
      UnknownFallback tokens(vocabulary_, unk_, fuse_unk_, out);
      encode_run(replace_space_symbol(cut.word(i)), lattice, tokens);
    }
  }

  // `id` and `score` of a way to a place, unless another is as good.
  void arrive(int32_t& best_id, double& best_score, int32_t id, double score) const {
    if (best_id != kUnreached && score <= best_score) return;
    best_id = id;
    best_score = has_words_ ? score : static_cast<double>(static_cast<float>(score));
  }

  void encode_run(std::string_view text, Lattice& lattice, UnknownFallback& tokens) const {
    // Ways that have all met are settled from time to time, which bounds the memory.
    constexpr size_t kSettleBytes = 4096;
    constexpr double kUnknownPenalty = 10;
    constexpr size_t kMaxCharacterBytes = 4;
    const double unknown_score =
        has_words_ ? min_score_ - kUnknownPenalty
                   : static_cast<double>(static_cast<float>(min_score_ - kUnknownPenalty));
    const size_t longest_step = std::max(longest_piece_, kMaxCharacterBytes);
    lattice.begin_at(0, 0);
    for (Walk& walk : lattice.walks) walk.seen = {};
    size_t reached = 0;  // the furthest arrival
    for (size_t begin = 0; begin < text.size();) {
      if (begin == reached && begin - lattice.origin >= kSettleBytes) {
        settle(text, begin, lattice, tokens);
      }
      lattice.reach(begin, longest_step);
      int32_t* const ids = &lattice.ids[begin - lattice.origin];  // [longest_step + 1]
      double* const scores = &lattice.scores[begin - lattice.window];
      const double so_far = scores[0];
      const size_t character = decode_utf8(text.substr(begin)).length;
      bool has_character = false;
      size_t longest = character;
      for (const Piece& piece : pieces_at(text.substr(begin), lattice)) {
        const size_t length = piece.length;
        has_character = has_character || length == character;
        longest = std::max(longest, length);
        arrive(ids[length], scores[length], piece.id, piece.gain + so_far);
      }
      if (!has_character) {
        const double score = unknown_score + so_far;
        arrive(ids[character], scores[character], unknown(character),
               has_words_ ? score : static_cast<double>(static_cast<float>(score)));
      }
      reached = std::max(reached, begin + longest);
      begin += character;
    }
    settle(text, text.size(), lattice, tokens);
  }

  // The pieces at the front of `text`, the shortest first.
  const std::vector<Piece>& pieces_at(std::string_view text, Lattice& lattice) const {
    for (const Walk& walk : lattice.walks) {
      if (!walk.seen.empty() && text.starts_with(walk.seen)) return walk.pieces;
    }
    Walk& walk = lattice.walks[lattice.next_walk];
    lattice.next_walk = 1 - lattice.next_walk;
    walk.pieces.clear();
    const size_t seen = trie_.prefixes(text, [&](size_t length, int32_t id) {
      walk.pieces.push_back({static_cast<uint32_t>(length), id, gains_[static_cast<size_t>(id)]});
    });
    walk.seen = seen <= text.size() ? text.substr(0, seen) : std::string_view();
    return walk.pieces;
  }

  // Emits the best way from the origin to `end`, which becomes the origin.
  void settle(std::string_view text, size_t end, Lattice& lattice, UnknownFallback& tokens) const {
    lattice.way.clear();
    for (size_t place = end; place > lattice.origin;) {
      lattice.way.push_back(lattice.ids[place - lattice.origin]);
      place -= length_of(lattice.way.back());
    }
    size_t begin = lattice.origin;
    for (size_t i = lattice.way.size(); i > 0; --i) {
      const int32_t id = lattice.way[i - 1];
      const size_t length = length_of(id);
      if (id >= 0) {
        tokens.append_token(id);
      } else {
        tokens.append_unknown(text.substr(begin, length));
      }
      begin += length;
    }
    lattice.begin_at(end, lattice.scores[end - lattice.window]);
  }

  // Of what arrives somewhere, in bytes.
  size_t length_of(int32_t id) const {
    return id >= 0 ? vocabulary_.bytes(id).size() : static_cast<size_t>(-1 - id);
  }

  const Vocabulary& vocabulary_;
  SentencePieceNormalizer normalizer_;
  bool has_words_;
  int32_t unk_;
  bool fuse_unk_;
  PieceTrie trie_;
  std::vector<double> gains_;   // [vocab_size]: what a piece adds to the score of a way
  double min_score_ = FLT_MAX;  // of normal tokens
  size_t longest_piece_ = 0;    // bytes
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_sentencepiece_unigram(const TokenizerSpec& spec,
                                                                 const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceUnigram>(spec, vocabulary);
}

}  // namespace hasten::text
