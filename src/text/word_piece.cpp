// SPDX-License-Identifier: Apache-2.0
// WordPiece, as BERT has it (Wu et al. 2016, arXiv:1609.08144, section 4.1): the longest piece at
// the front of a word, then the longest of those that continue one, and so on.
#include <string>

#include "text/piece_trie.h"
#include "text/utf8.h"
#include "text/wordwise_encoder.h"

namespace hasten::text {
namespace {

// Pieces that begin a word begin with a space in the vocabulary, which is left out here.
PieceTrie trie_of_words(const Vocabulary& vocabulary, bool begins_word) {
  std::vector<PieceTrie::Entry> entries;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view piece = vocabulary.bytes(id);
    if (!vocabulary.is_ordinary(id) || piece.starts_with(' ') != begins_word) continue;
    entries.push_back({piece.substr(begins_word ? 1 : 0), id});
  }
  return PieceTrie(std::move(entries));
}

class WordPiece final : public WordwiseEncoder {
 public:
  WordPiece(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : WordwiseEncoder(spec.pre_steps.value_or(bert_steps())),
        begins_(trie_of_words(vocabulary, true)),
        continues_(trie_of_words(vocabulary, false)),
        unk_(spec.unk),
        max_characters_(spec.max_input_chars_per_word) {}

 private:
  struct Longest {
    size_t length = 0;
    int32_t id = -1;
  };
  // Pieces end where characters do.
  static Longest longest(const PieceTrie& trie, std::string_view text) {
    Longest found;
    trie.prefixes(text, [&](size_t length, int32_t id) {
      const bool inside =
          length < text.size() && (static_cast<uint8_t>(text[length]) & 0xC0) == 0x80;
      if (!inside) found = {length, id};
    });
    return found;
  }

  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    std::vector<int32_t>& out) const override {
    for (size_t i = first; i < last; ++i) encode_word(cut.word(i), out);
  }

  // One unknown token for a word that cannot be put together.
  void encode_word(std::string_view word, std::vector<int32_t>& out) const {
    const size_t before = out.size();
    bool known = !is_too_long(word);
    for (std::string_view rest = word; known && !rest.empty();) {
      const Longest piece = longest(rest.size() == word.size() ? begins_ : continues_, rest);
      known = piece.length > 0;
      if (known) out.push_back(piece.id);
      rest.remove_prefix(piece.length);
    }
    if (known) return;
    out.resize(before);
    if (unk_ >= 0) out.push_back(unk_);
  }

  bool is_too_long(std::string_view word) const {
    if (max_characters_ <= 0) return false;
    int32_t count = 0;
    while (!word.empty() && count <= max_characters_) {
      word.remove_prefix(decode_utf8(word).length);
      ++count;
    }
    return count > max_characters_;
  }

  PieceTrie begins_;
  PieceTrie continues_;
  int32_t unk_;
  int32_t max_characters_;  // 0: any number
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_word_piece(const TokenizerSpec& spec,
                                                      const Vocabulary& vocabulary) {
  return std::make_unique<WordPiece>(spec, vocabulary);
}

}  // namespace hasten::text
