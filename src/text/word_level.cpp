// SPDX-License-Identifier: Apache-2.0
// WordLevel: every word of the text is a token, or unknown.
#include <string>

#include "text/pre_tokenizer_chain.h"
#include "text/segment_encoder.h"

namespace hasten::text {
namespace {

class WordLevel final : public SegmentEncoder {
 public:
  WordLevel(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        words_(spec.pre_steps.value_or(PreTokenizerSteps())),
        unk_(spec.unk) {}

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    PreTokenizerChain::Words cut;
    words_.cut(segment.text, segment.starts_text, cut);
    encode_words(cut, 0, cut.words.size(), out);
  }

  std::unique_ptr<SplitSegment> split(const Segment& segment, size_t num_parts) const override {
    return split_at_words(words_, segment.text, segment.starts_text, num_parts,
                          [this](const auto& words, size_t first, size_t last, auto& out) {
                            encode_words(words, first, last, out);
                          });
  }

 private:
  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    std::vector<int32_t>& out) const {
    std::string spelled;
    for (size_t i = first; i < last; ++i) {
      spelled.assign(1, ' ').append(cut.word(i));
      const int32_t known = vocabulary_.find_ordinary(spelled);
      const int32_t token = known >= 0 ? known : unk_;
      if (token >= 0) out.push_back(token);
    }
  }

  const Vocabulary& vocabulary_;
  PreTokenizerChain words_;
  int32_t unk_;
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_word_level(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary) {
  return std::make_unique<WordLevel>(spec, vocabulary);
}

}  // namespace hasten::text
