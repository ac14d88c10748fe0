// SPDX-License-Identifier: Apache-2.0
// BPE over characters (Sennrich et al. 2016, arXiv:1508.07909), with marks inside and at the end of
// words: what tokenizer.json's BPE is where it is neither byte-level nor SentencePiece's.
#include <string>

#include "base/hash.h"
#include "text/merge_check.h"
#include "text/merge_rules.h"
#include "text/unknown_fallback.h"
#include "text/utf8.h"
#include "text/wordwise_encoder.h"

namespace hasten::text {
namespace {

// The token that two make; the right one sheds the mark of what continues a word.
MergeTable character_merges(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  uint64_t seed = 0;
  for (const std::string& merge : spec.merges) seed = hash_bytes(merge, seed);
  MergeTable table(spec.merges.size(), seed);
  const std::string_view mark = spec.continuing_subword_prefix;
  MergeCheck check(spec, vocabulary);
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    check_merge(merge, rank);
    const bool applies = cut_merge(merge, [&](std::string_view front, std::string_view back) {
      const int32_t left = vocabulary.find_ordinary(front);
      const int32_t right = left < 0 ? -1 : vocabulary.find_ordinary(back);
      if (right < 0) return false;
      if (back.starts_with(mark)) back.remove_prefix(mark.size());
      joined.assign(vocabulary.bytes(left)).append(back);
      const int32_t merged = vocabulary.find_ordinary(joined);
      if (merged < 0) return false;
      table.add(left, right, merged, static_cast<int32_t>(rank));
      return true;
    });
    if (!applies) check.add_unused(rank);
  }
  check.finish();
  return table;
}

class CharacterBpe final : public WordwiseEncoder {
 public:
  CharacterBpe(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : WordwiseEncoder(spec.pre_steps.value_or(PreTokenizerSteps())),
        vocabulary_(vocabulary),
        has_words_(spec.pre_steps && !spec.pre_steps->empty()),
        continuing_prefix_(spec.continuing_subword_prefix),
        end_suffix_(spec.end_of_word_suffix),
        in_gpt2_alphabet_(spec.words_in_gpt2_alphabet),
        byte_fallback_(spec.byte_fallback),
        ignore_merges_(spec.ignore_merges.value_or(false)),
        unk_(spec.unk),
        fuse_unk_(spec.fuse_unk.value_or(false)),
        merges_(character_merges(spec, vocabulary)) {}

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    if (!has_words_) {
      Work work{.symbols = {}, .scratch = {}, .spelled = {}, .out = out};
      return encode_word(segment.text, work);
    }
    WordwiseEncoder::encode(segment, out);
  }

  std::unique_ptr<SplitSegment> split(const Segment& segment, size_t num_parts) const override {
    return has_words_ ? WordwiseEncoder::split(segment, num_parts) : nullptr;
  }

 private:
  struct Work {
    std::vector<int32_t> symbols;
    MergeTable::Scratch scratch;
    std::string spelled;  // one symbol with its marks
    std::vector<int32_t>& out;
  };

  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    std::vector<int32_t>& out) const override {
    Work work{.symbols = {}, .scratch = {}, .spelled = {}, .out = out};
    for (size_t i = first; i < last; ++i) encode_word(cut.word(i), work);
  }

  void encode_word(std::string_view word, Work& work) const {
    std::string respelled;
    if (in_gpt2_alphabet_) {
      respelled = to_gpt2_alphabet(word);
      word = respelled;
    }
    const int32_t whole = ignore_merges_ ? vocabulary_.find_ordinary(word) : -1;
    if (whole >= 0) {
      work.out.push_back(whole);
      return;
    }
    work.symbols.clear();
    UnknownFallback symbols(vocabulary_, unk_, fuse_unk_, work.symbols);
    for (size_t at = 0; at < word.size();) {
      const std::string_view character = word.substr(at, decode_utf8(word.substr(at)).length);
      work.spelled.clear();
      if (at > 0) work.spelled += continuing_prefix_;
      work.spelled += character;
      at += character.size();
      if (at == word.size()) work.spelled += end_suffix_;
      const int32_t token = vocabulary_.find_ordinary(work.spelled);
      if (token >= 0) {
        symbols.append_token(token);
      } else if (byte_fallback_) {
        symbols.append_unknown(work.spelled);
      } else {
        symbols.append_unknown_token();
      }
    }
    merges_.merge(work.symbols, work.scratch);
    work.out.insert(work.out.end(), work.symbols.begin(), work.symbols.end());
  }

  const Vocabulary& vocabulary_;
  bool has_words_;  // or the text is one
  std::string continuing_prefix_;
  std::string end_suffix_;
  bool in_gpt2_alphabet_;
  bool byte_fallback_;
  bool ignore_merges_;
  int32_t unk_;
  bool fuse_unk_;
  MergeTable merges_;
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_character_bpe(const TokenizerSpec& spec,
                                                         const Vocabulary& vocabulary) {
  return std::make_unique<CharacterBpe>(spec, vocabulary);
}

}  // namespace hasten::text
