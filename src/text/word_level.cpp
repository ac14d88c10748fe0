// SPDX-License-Identifier: Apache-2.0
// WordLevel: every word of the text is a token, or unknown.
#include <string>

#include "text/wordwise_encoder.h"

namespace hasten::text {
namespace {

class WordLevel final : public WordwiseEncoder {
 public:
  WordLevel(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : WordwiseEncoder(spec.pre_steps.value_or(PreTokenizerSteps())),
        vocabulary_(vocabulary),
        unk_(spec.unk) {}

 private:
  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    std::vector<int32_t>& out) const override {
    std::string spelled;
    for (size_t i = first; i < last; ++i) {
      spelled.assign(1, ' ').append(cut.word(i));
      const int32_t known = vocabulary_.find_ordinary(spelled);
      const int32_t token = known >= 0 ? known : unk_;
      if (token >= 0) out.push_back(token);
    }
  }

  const Vocabulary& vocabulary_;
  int32_t unk_;
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_word_level(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary) {
  return std::make_unique<WordLevel>(spec, vocabulary);
}

}  // namespace hasten::text
