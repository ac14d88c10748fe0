// SPDX-License-Identifier: Apache-2.0
// Reads BERT's vocab.txt: a piece on each line, its number the id.
#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/pre_tokenizer_steps.h"
#include "text/tokenizer_side_files.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

namespace {

// The classes of transformers that read a vocab.txt as BERT does. Others cut words their own way.
bool reads_as_bert(std::string_view tokenizer_class) {
  static constexpr std::string_view kFamilies[] = {
      "BertTokenizer", "BasicTokenizer", "DistilBert", "Electra",   "ConvBert",
      "MobileBert",    "LayoutLM",       "Funnel",     "DPR",       "Lxmert",
      "Splinter",      "SqueezeBert",    "Realm",      "Retribert", "PreTrainedTokenizer"};
  return tokenizer_class.empty() ||
         std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](std::string_view family) { return tokenizer_class.starts_with(family); });
}

}  // namespace

TokenizerSpec parse_word_piece_vocabulary(std::string_view lines, const TokenizerSideFiles& files) {
  static constexpr std::array<std::string_view, 5> kSpecials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                                "[MASK]"};
  TokenizerSpec spec;
  spec.kind = TokenizerKind::word_piece;
  spec.continuing_subword_prefix = "##";
  spec.max_input_chars_per_word = 100;
  const SideFiles beside(files);
  if (!reads_as_bert(beside.tokenizer_class())) {
    fail(ErrorCode::unsupported,
         "vocab.txt of a {}: read without its tokenizer.json is only that of BERT's kin",
         printable(beside.tokenizer_class()));
  }
  const bool lowercase = beside.flag("do_lower_case", true);
  spec.normalizers = {{.kind = NormalizerStep::Kind::bert,
                       .handle_chinese_chars = beside.flag("tokenize_chinese_chars", true),
                       .strip_accents = beside.flag("strip_accents", lowercase),
                       .lowercase = lowercase}};
  spec.pre_steps = bert_steps();
  std::array<int32_t, kSpecials.size()> ids;
  ids.fill(-1);
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view piece = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    TokenType type = TokenType::normal;
    for (size_t i = 0; i < kSpecials.size(); ++i) {
      if (piece != kSpecials[i]) continue;
      type = i == 1 ? TokenType::unknown : TokenType::control;
      ids[i] = static_cast<int32_t>(spec.tokens.size());
    }
    spec.tokens.emplace_back(piece);
    spec.types.push_back(static_cast<int32_t>(type));
  }
  spec.pad = ids[0];
  spec.unk = ids[1];
  spec.bos = ids[2];
  spec.eos = ids[3];
  spec.add_bos = true;
  spec.add_eos = true;
  beside.apply(spec);
  doubt_roles(beside.config(), spec);
  if (spec.unk < 0) {
    fail(ErrorCode::invalid_data,
         "none of its {} lines is [UNK] or the unk_token of the files beside it: words that it "
         "lacks would be lost; is it a vocabulary of WordPiece?",
         spec.tokens.size());
  }
  return spec;
}

}  // namespace hasten::text
