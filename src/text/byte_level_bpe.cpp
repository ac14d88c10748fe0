// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE, as GPT-2, Llama 3 and Qwen use it: words of a pre-tokenizer, merged from bytes.
#include <numeric>

#include "base/error.h"
#include "text/merge_rules.h"
#include "text/pre_tokenizer.h"
#include "text/segment_encoder.h"

namespace hasten::text {
namespace {

MergeTable make_merges(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  if (!spec.merges_by_rank) {
    if (spec.merges.empty()) fail(ErrorCode::invalid_data, "the BPE tokenizer has no merges");
    return merges_of_list(spec.merges, vocabulary);
  }
  std::vector<int32_t> ranks(static_cast<size_t>(vocabulary.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return merges_of_ranks(ranks, vocabulary,
                         [&](std::string_view bytes) { return vocabulary.find_ordinary(bytes); });
}

class ByteLevelBpe final : public SegmentEncoder {
 public:
  ByteLevelBpe(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        pre_tokenizer_(find_pre_tokenizer(spec.pre)),
        ignore_merges_(spec.ignore_merges.value_or(pre_tokenizer_.ignore_merges)),
        unk_(spec.unk),
        merges_(make_merges(spec, vocabulary)) {}

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    std::string_view rest = segment.text;
    std::vector<int32_t> symbols;
    MergeTable::Scratch scratch;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, first_word_length(pre_tokenizer_.scanner, rest));
      rest.remove_prefix(word.size());
      const int32_t whole = ignore_merges_ ? vocabulary_.find_ordinary(word) : -1;
      if (whole >= 0) {
        out.push_back(whole);
        continue;
      }
      symbols.clear();
      for (const char byte : word) {
        symbols.push_back(vocabulary_.byte_token(static_cast<uint8_t>(byte)));
      }
      merges_.merge(symbols, scratch);
      for (const int32_t symbol : symbols) {
        const int32_t token = symbol >= 0 ? symbol : unk_;  // a byte that the vocabulary lacks
        if (token >= 0) out.push_back(token);
      }
    }
  }

 private:
  const Vocabulary& vocabulary_;
  const PreTokenizer& pre_tokenizer_;
  bool ignore_merges_;
  int32_t unk_;
  MergeTable merges_;
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_byte_level_bpe(const TokenizerSpec& spec,
                                                          const Vocabulary& vocabulary) {
  return std::make_unique<ByteLevelBpe>(spec, vocabulary);
}

}  // namespace hasten::text
