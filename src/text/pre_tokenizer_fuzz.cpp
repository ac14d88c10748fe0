// SPDX-License-Identifier: Apache-2.0
// Any text through every named pre-tokenizer: the words are the text, whole and in order, and the
// scanners find the words of the expressions.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/pre_tokenizer_chain.h"

namespace {

using namespace hasten::text;

// One of each kind of words.
std::vector<PreTokenizerChain> make_chains() {
  std::vector<PreTokenizerChain> chains;
  const std::string_view* last = nullptr;
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    if (known.expressions.data() != last) chains.emplace_back(known.steps());
    last = known.expressions.data();
  }
  return chains;
}

}  // namespace

// The first byte chooses the pre-tokenizer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<PreTokenizerChain> chains = make_chains();
  if (size == 0) return 0;
  const PreTokenizerChain& chain = chains[data[0] % chains.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  PreTokenizerChain::Words cut;
  chain.cut(text, /*starts_text=*/true, cut);
  size_t at = 0;
  for (const regex::Match& word : cut.words) {
    HASTEN_CHECK(word.begin == at && word.end > at);
    if (chain.scanner()) {
      HASTEN_CHECK(first_word_length(*chain.scanner(), text.substr(at)) == word.end - word.begin);
    }
    at = word.end;
  }
  HASTEN_CHECK(at == text.size());
  std::vector<regex::Match> in_batches;
  chain.cut_in_batches(text, /*starts_text=*/true, [&](const auto& words) {
    in_batches.insert(in_batches.end(), words.words.begin(), words.words.end());
  });
  HASTEN_CHECK(in_batches == cut.words);
  return 0;
}
