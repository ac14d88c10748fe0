// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE (Kudo and Richardson 2018, arXiv:1808.06226): characters merged by the scores
// of the pieces that they make, bytes where a character is unknown, spaces kept as symbols.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/error.h"
#include "text/merge_rules.h"
#include "text/prefix_matcher.h"
#include "text/segment_encoder.h"
#include "text/sentencepiece_normalizer.h"
#include "text/unknown_fallback.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

// The rank of each token: equal scores share one, the highest score is 0.
std::vector<int32_t> ranks_of_scores(const std::vector<double>& scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) fail(ErrorCode::invalid_data, "the score of token {} is NaN", i);
  }
  std::vector<double> distinct = scores;
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<int32_t> ranks;
  ranks.reserve(scores.size());
  for (const double score : scores) {
    const auto place = std::lower_bound(distinct.begin(), distinct.end(), score, std::greater<>());
    ranks.push_back(static_cast<int32_t>(place - distinct.begin()));
  }
  return ranks;
}

std::vector<PrefixMatcher::Name> user_defined_pieces(const TokenizerSpec& spec,
                                                     const Vocabulary& vocabulary) {
  std::vector<PrefixMatcher::Name> names;
  for (int32_t id = 0; spec.merges.empty() && id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) != TokenType::user_defined || !vocabulary.is_ordinary(id)) continue;
    names.push_back({vocabulary.bytes(id), id});
  }
  return names;
}

// Whether spaces stand only at the fronts of the names.
bool spaces_lead(const std::vector<PrefixMatcher::Name>& names) {
  return std::all_of(names.begin(), names.end(), [](const PrefixMatcher::Name& name) {
    return name.text.find(' ', 1) == std::string_view::npos;
  });
}

class SentencePieceBpe final : public SegmentEncoder {
 public:
  SentencePieceBpe(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        normalizer_(spec),
        unk_(spec.unk),
        user_defined_(user_defined_pieces(spec, vocabulary)),
        words_are_apart_(spaces_only_lead(vocabulary)),
        symbols_(vocabulary, MergeSymbols::First::character),
        merges_(make_merges(spec)),
        joins_at_spaces_(words_are_apart_ && vocabulary.find_ordinary(" ") >= 0 &&
                         spaces_lead(user_defined_pieces(spec, vocabulary))) {
    for (size_t c = 0; c < ascii_symbols_.size(); ++c) {
      const char character = static_cast<char>(c);
      ascii_symbols_[c] = symbols_.find({&character, 1});
    }
  }

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    encode_normalized(normalizer_.apply(segment), out);
  }

  std::unique_ptr<SplitSegment> split(const Segment& segment, size_t num_parts) const override {
    if (!joins_at_spaces_) return nullptr;
    return split_at_joints(
        normalizer_.apply(segment), num_parts,
        [](std::string_view text, size_t at) { return text[at] == ' ' && text[at - 1] != ' '; },
        [this](std::string_view text, std::vector<int32_t>& out) { encode_normalized(text, out); });
  }

 private:
  void encode_normalized(std::string_view text, std::vector<int32_t>& out) const {
    PrefixMatcher::Search user_defined(user_defined_, text);
    EncodeState state{.tokens = {vocabulary_, unk_, /*fuse=*/true, out}};
    size_t begin = 0;  // of the run that is not yet encoded
    for (size_t at = 0; at < text.size();) {
      const PrefixMatcher::Match piece =
          user_defined_.empty() ? PrefixMatcher::Match() : user_defined.longest(at);
      if (piece.length > 0) {
        encode_run(text.substr(begin, at - begin), state);
        state.tokens.append_token(piece.id);
        at += piece.length;
        begin = at;
        continue;
      }
      if (words_are_apart_ && at > begin && text[at] == ' ' && text[at - 1] != ' ') {
        encode_run(text.substr(begin, at - begin), state);
        begin = at;
      }
      const bool is_ascii = static_cast<uint8_t>(text[at]) < 0x80;
      at += is_ascii ? 1 : decode_utf8(text.substr(at)).length;
    }
    encode_run(text.substr(begin), state);
  }

  struct EncodeState {
    UnknownFallback tokens;
    std::vector<int32_t> symbols = {};
    MergeTable::Scratch table = {};
  };

  // Whether no piece holds a space after something else. Then nothing merges across the beginning
  // of a word, and words can be merged one by one, which is the same and faster.
  static bool spaces_only_lead(const Vocabulary& vocabulary) {
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      const std::string_view piece = vocabulary.bytes(id);
      const size_t word = std::min(piece.find_first_not_of(' '), piece.size());
      if (piece.find(' ', word) < piece.size() && vocabulary.find_ordinary(piece) >= 0)
        return false;
    }
    return true;
  }

  MergeTable make_merges(const TokenizerSpec& spec) const {
    if (!spec.merges.empty()) return merges_of_list(spec, vocabulary_);
    if (spec.scores.size() != spec.tokens.size()) {
      fail(ErrorCode::invalid_data, "the tokenizer has {} tokens but {} scores", spec.tokens.size(),
           spec.scores.size());
    }
    return merges_of_ranks(ranks_of_scores(spec.scores), vocabulary_, symbols_);
  }

  void encode_run(std::string_view run, EncodeState& state) const {
    std::vector<int32_t>& symbols = state.symbols;
    symbols.clear();
    for (size_t at = 0; at < run.size();) {
      const auto byte = static_cast<uint8_t>(run[at]);
      const size_t length = byte < 0x80 ? 1 : decode_utf8(run.substr(at)).length;
      symbols.push_back(byte < 0x80 ? ascii_symbols_[byte] : symbols_.find(run.substr(at, length)));
      at += length;
    }
    merges_.merge(symbols, state.table);
    size_t at = 0;
    for (const int32_t symbol : symbols) {
      const bool is_token = symbol >= 0 && symbol < vocabulary_.size();
      const size_t length =
          is_token ? vocabulary_.bytes(symbol).size() : decode_utf8(run.substr(at)).length;
      if (is_token) {
        state.tokens.append_token(symbol);
      } else {
        state.tokens.append_unknown(run.substr(at, length));
      }
      at += length;
    }
  }

  const Vocabulary& vocabulary_;
  SentencePieceNormalizer normalizer_;
  int32_t unk_;
  PrefixMatcher user_defined_;
  bool words_are_apart_;
  MergeSymbols symbols_;  // what no token stands for becomes bytes if nothing joins it
  MergeTable merges_;
  // Whether the text falls apart where a word begins: the space there is or begins a token, so that
  // no run of unknown characters goes on, and nothing merges and no user-defined piece reaches
  // across.
  bool joins_at_spaces_;
  std::array<int32_t, 128> ascii_symbols_{};
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_sentencepiece_bpe(const TokenizerSpec& spec,
                                                             const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceBpe>(spec, vocabulary);
}

}  // namespace hasten::text
