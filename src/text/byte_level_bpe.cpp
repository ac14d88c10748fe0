// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE, as GPT-2, Llama 3 and Qwen use it: words of a pre-tokenizer, merged from bytes.
#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <numeric>
#include <span>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/merge_rules.h"
#include "text/pre_tokenizer_chain.h"
#include "text/segment_encoder.h"
#include "text/token_joints.h"
#include "text/word_cache.h"

namespace hasten::text {
namespace {

// tiktoken keeps the last rank of bytes that a file lists twice, others keep the first.
void check_ranks(const Vocabulary& vocabulary) {
  for (int32_t id = 0; vocabulary.has_duplicates() && id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    if (!vocabulary.is_ordinary(id) || vocabulary.is_first_ordinary(id)) continue;
    fail(ErrorCode::invalid_data, "the ranks of tokens {} and {} are of the same bytes: {}",
         vocabulary.find_ordinary(bytes), id, printable(bytes));
  }
}

/// Whether most of the tokens of text could only come of merges. (Some are names that nobody lists
/// as special.)
bool has_pieces_to_merge(const Vocabulary& vocabulary) {
  int64_t num_single = 0;
  int64_t num_longer = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.is_ordinary(id)) ++(vocabulary.bytes(id).size() > 1 ? num_longer : num_single);
  return num_longer > num_single;
}

MergeTable byte_merges(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  if (spec.merges_by_rank) {
    check_ranks(vocabulary);
    std::vector<int32_t> ids(static_cast<size_t>(vocabulary.size()));
    std::iota(ids.begin(), ids.end(), 0);
    return merges_of_ranks(ids, vocabulary, MergeSymbols(vocabulary, MergeSymbols::First::byte));
  }
  // A tokenizer.json may list none, and say so, where its tokens are single bytes.
  if (spec.merges.empty() &&
      (spec.merge_list != MergeList::known || has_pieces_to_merge(vocabulary)))
    fail(ErrorCode::invalid_data, "the BPE tokenizer has no merges");
  return merges_of_list(spec, vocabulary);
}

TokenJoints make_joints(const Vocabulary& vocabulary) {
  TokenJoints joints;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_ordinary(id)) joints.add(vocabulary.bytes(id));
  }
  return joints;
}

uint64_t next_encoder_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

/// This thread's cache, emptied if another encoder used it last.
WordCache& cache_of(uint64_t encoder_id) {
  struct Owned {
    uint64_t encoder_id = 0;
    WordCache words;
  };
  thread_local Owned cache;
  if (cache.encoder_id != encoder_id) cache = {.encoder_id = encoder_id, .words = {}};
  return cache.words;
}

PreTokenizerSteps steps_of(const TokenizerSpec& spec) {
  return spec.pre_steps ? *spec.pre_steps : find_pre_tokenizer(spec.pre).steps();
}

bool ignores_merges(const TokenizerSpec& spec) {
  if (spec.ignore_merges) return *spec.ignore_merges;
  return !spec.pre_steps && find_pre_tokenizer(spec.pre).ignore_merges;
}

class ByteLevelBpe final : public SegmentEncoder {
 public:
  ByteLevelBpe(const TokenizerSpec& spec, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        words_(steps_of(spec)),
        scanner_(words_.scanner()),
        ignore_merges_(ignores_merges(spec)),
        unk_(spec.unk),
        merges_(byte_merges(spec, vocabulary)),
        joints_(make_joints(vocabulary)),
        id_(next_encoder_id()) {
    for (size_t byte = 0; byte < byte_words_.size(); ++byte) {
      const char character = static_cast<char>(byte);
      int32_t token = whole_word({&character, 1});
      if (token < 0) token = vocabulary.byte_token(static_cast<uint8_t>(byte));
      byte_words_[byte] = token >= 0 ? token : unk_;
      leaves_out_[byte] = unk_ < 0 && vocabulary.byte_token(static_cast<uint8_t>(byte)) < 0;
      leaves_out_any_ = leaves_out_any_ || leaves_out_[byte];
    }
    const auto is_none = [](int32_t token) { return token < 0; };
    if (!ignore_merges_ && std::all_of(byte_words_.begin(), byte_words_.end(), is_none)) {
      fail(ErrorCode::invalid_data,
           "the vocabulary has tokens for no text: none of its {} tokens is a single byte",
           vocabulary.size());
    }
  }

  void encode(const Segment& segment, std::vector<int32_t>& out) const override {
    if (scanner_) {
      Work work{.cache = cache_of(id_), .symbols = {}, .scratch = {}, .out = &out};
      for (std::string_view rest = segment.text; !rest.empty();) {
        rest.remove_prefix(encode_first_word(rest, rest.size(), work));
      }
      return;
    }
    Work work{.cache = cache_of(id_), .symbols = {}, .scratch = {}, .out = &out};
    words_.cut_in_batches(segment.text, segment.starts_text, [&](const auto& words) {
      encode_words(words, 0, words.words.size(), work);
    });
  }

  std::unique_ptr<SplitSegment> split(const Segment& segment, size_t num_parts) const override {
    if (scanner_) {
      return split_at_steps(segment.text, num_parts, [this]() -> EncodeStep {
        const auto work = std::make_shared<Work>(
            Work{.cache = cache_of(id_), .symbols = {}, .scratch = {}, .out = nullptr});
        return [this, work](std::string_view text, size_t at, size_t limit,
                            std::vector<int32_t>& out) {
          work->out = &out;
          return encode_first_word(text.substr(at), limit - at, *work);
        };
      });
    }
    return split_at_words(words_, segment.text, segment.starts_text, num_parts,
                          [this](const auto& words, size_t first, size_t last, auto& out) {
                            Work work{
                                .cache = cache_of(id_), .symbols = {}, .scratch = {}, .out = &out};
                            encode_words(words, first, last, work);
                          });
  }

 private:
  struct Work {
    WordCache& cache;
    std::vector<int32_t> symbols;
    MergeTable::Scratch scratch;
    std::vector<int32_t>* out;
  };

  // Encodes the word at the front of `rest`, which the scanner finds, and answers its length; 0 if
  // it has more than `max_bytes` and is left.
  size_t encode_first_word(std::string_view rest, size_t max_bytes, Work& work) const {
    const size_t length = first_word_length(*scanner_, rest);
    if (length > max_bytes) return 0;
    append_word(rest, length, work);
    return length;
  }

  void encode_words(const PreTokenizerChain::Words& cut, size_t first, size_t last,
                    Work& work) const {
    for (size_t i = first; i < last; ++i) {
      const regex::Match& word = cut.words[i];
      append_word(cut.text.substr(word.begin), word.end - word.begin, work);
    }
  }

  /// The word is the first `length` bytes of `text`.
  void append_word(std::string_view text, size_t length, Work& work) const {
    if (length > 1) {
      return remember(text, length, /*part=*/false, work,
                      [&](auto word) { encode_word(word, work); });
    }
    const int32_t token = byte_words_[static_cast<uint8_t>(text[0])];
    if (token >= 0) work.out->push_back(token);
  }

  /// encode(the first `length` bytes of `text`), which appends tokens: from memory if they are few.
  template <class Encode>
  void remember(std::string_view text, size_t length, bool part, Work& work,
                const Encode& encode) const {
    const std::string_view word = text.substr(0, length);
    if (length > WordKey::kMaxBytes) return encode(word);
    const WordKey key(word, text, part);
    if (work.cache.find(key, *work.out)) return;
    const size_t before = work.out->size();
    encode(word);
    work.cache.put(key, std::span(*work.out).subspan(before));
  }

  /// The token that a word is whatever merges, or -1.
  int32_t whole_word(std::string_view word) const {
    return ignore_merges_ ? vocabulary_.find_ordinary(word) : -1;
  }

  void encode_word(std::string_view word, Work& work) const {
    const int32_t whole = whole_word(word);
    if (whole >= 0) {
      work.out->push_back(whole);
      return;
    }
    // What stood around a byte without a token merges, as in the readers of tokenizer.json.
    std::string kept;
    const auto is_left_out = [&](char byte) { return leaves_out_[static_cast<uint8_t>(byte)]; };
    if (leaves_out_any_ && std::any_of(word.begin(), word.end(), is_left_out)) {
      std::remove_copy_if(word.begin(), word.end(), std::back_inserter(kept), is_left_out);
      word = kept;
    }
    size_t begin = 0;
    for (size_t at = 1; at < word.size(); ++at) {
      if (joints_.may_join(word, at)) continue;
      encode_part(word.substr(begin), at - begin, work);
      begin = at;
    }
    if (begin == 0) return merge(word, work);
    encode_part(word.substr(begin), word.size() - begin, work);
  }

  void encode_part(std::string_view text, size_t length, Work& work) const {
    remember(text, length, /*part=*/true, work, [&](auto part) { merge(part, work); });
  }

  void merge(std::string_view part, Work& work) const {
    work.symbols.clear();
    for (const char byte : part) {
      work.symbols.push_back(vocabulary_.byte_token(static_cast<uint8_t>(byte)));
    }
    merges_.merge(work.symbols, work.scratch);
    for (const int32_t symbol : work.symbols) {
      const int32_t token = symbol >= 0 ? symbol : unk_;  // a byte that the vocabulary lacks
      if (token >= 0) work.out->push_back(token);
    }
  }

  const Vocabulary& vocabulary_;
  PreTokenizerChain words_;
  std::optional<WordScanner> scanner_;  // of words_, where it has one
  bool ignore_merges_;
  int32_t unk_;
  MergeTable merges_;
  TokenJoints joints_;
  std::array<int32_t, 256> byte_words_{};  // the token of each word of one byte, or -1
  std::array<bool, 256> leaves_out_{};     // the bytes that have no token, nor an unknown one
  bool leaves_out_any_ = false;
  uint64_t id_;  // of this object among all that ever were
};

}  // namespace

std::unique_ptr<const SegmentEncoder> make_byte_level_bpe(const TokenizerSpec& spec,
                                                          const Vocabulary& vocabulary) {
  return std::make_unique<ByteLevelBpe>(spec, vocabulary);
}

}  // namespace hasten::text
