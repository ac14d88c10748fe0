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
    std::string spelled;
    for (const regex::Match& word : cut.words) {
      spelled.assign(1, ' ').append(cut.text.substr(word.begin, word.end - word.begin));
      const int32_t known = vocabulary_.find_ordinary(spelled);
      const int32_t token = known >= 0 ? known : unk_;
      if (token >= 0) out.push_back(token);
    }
  }

 private:
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
