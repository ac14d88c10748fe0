// SPDX-License-Identifier: Apache-2.0
// What a tokenizer is made of, as plain data, and the readers of the files that hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/decoder_steps.h"
#include "text/normalizer_steps.h"
#include "text/pre_tokenizer_steps.h"

namespace hasten::text {

/// How a stretch of ordinary text becomes tokens.
enum class TokenizerKind {
  bpe,            // byte-level BPE: words of a pre-tokenizer, bytes written in the GPT-2 alphabet
  spm,            // SentencePiece BPE: spaces written as U+2581, unknown characters as byte tokens
  unigram,        // SentencePiece Unigram: the most probable pieces; spaces as in spm
  word_piece,     // BERT: the longest pieces of each word, from its front
  rwkv,           // the longest token, from the front of the text; tokens written as Python does
  character_bpe,  // words of a pre-tokenizer, merged from characters; tokens written as they are
  word_level,     // words of a pre-tokenizer, each a token or unknown
};

/// Numbered as in SentencePiece models and GGUF's tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  normal = 1,
  unknown = 2,
  control = 3,       // never produced from ordinary text
  user_defined = 4,  // matched in text before anything else
  unused = 5,
  byte = 6,  // "<0x0A>"
};

/// Where SentencePiece puts the space that text does not begin with.
enum class SpacePrefix {
  none,
  first,  // before the text
  every,  // before the text, and again after each special token
};

/// What a list of merges is known to be, by the file that it is from.
enum class MergeList : uint8_t {
  any,    // GGUF files are made of folders of any kind: a merge may be of pieces that do not exist
  known,  // every merge is of two tokens and makes one
  whole,  // and makes most tokens: a file of lines may have lost its end
};

/// How an added token treats its surroundings. Listed when it does, and for user-defined tokens
/// that a SentencePiece model does not know: those are matched in the text as it is written.
struct AddedTokenRule {
  int32_t id = -1;
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // swallows the white space after it
  bool single_word = false;  // matched only between characters that are no part of a word
  // Of a user-defined token: matched in what the normalizers make of the text, as they write it.
  bool normalized = false;
  bool beside_model = false;  // no piece of a tokenizer.json's model: never made of ordinary text
};

/// Everything that decides how text becomes tokens and back. Filled from a file by its reader and
/// not trusted: make_tokenizer checks it. An empty optional means "what kind and pre imply".
struct TokenizerSpec {
  std::string file;  // that it was read from, which errors begin with; empty: not known
  // What makes it doubtful that the files are whole and belong together, in sentences for people:
  // of "it", the tokenizer, or naming a file.
  std::vector<std::string> doubts;
  TokenizerKind kind = TokenizerKind::bpe;
  std::string pre;                             // bpe: tokenizer.ggml.pre, such as "llama-bpe"
  std::optional<PreTokenizerSteps> pre_steps;  // bpe: how words are cut, where `pre` does not say
  std::vector<std::string> tokens;             // [vocab_size], written as in the file
  std::vector<double> scores;  // [vocab_size]; spm: the highest merges first; unigram: logarithms
  std::vector<int32_t> types;  // [vocab_size] TokenType numbers; empty: all are normal
  std::vector<std::string> merges;  // "left right"; the first merges first
  MergeList merge_list = MergeList::any;
  // No merges are listed: whatever joins to a token, lowest id first. No two have the same bytes.
  bool merges_by_rank = false;
  std::vector<AddedTokenRule> added_token_rules;
  // Tokens of type normal are pieces even if they are called like the markers of turns: the file
  // lists all that are matched by their names.
  bool lists_added_tokens = false;
  // Ids, ascending, of pieces that no text has: those of a SentencePiece model that are spelled
  // with a space, for which it looks where its text has U+2581.
  std::vector<int32_t> never_found;

  int32_t bos = -1;  // ids; -1: none
  int32_t eos = -1;
  int32_t eot = -1;  // end of a turn, where that is not eos
  int32_t unk = -1;
  int32_t pad = -1;

  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  // What spm and unigram do before they look for pieces; unigram only where pre_steps are not
  // given.
  std::string precompiled_charsmap;         // of SentencePiece's normaliser; empty: none
  std::optional<SpacePrefix> space_prefix;  // every unless given
  bool single_space_prefix = false;         // no prefix where a space stands already
  bool remove_extra_whitespaces = false;    // spaces at both ends and repeated ones

  // word_piece: what continues a word is written with this before it ("##"). Empty: as GGUF has it,
  // what begins a word is written with U+2581. character_bpe: put before characters inside a word.
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;        // character_bpe: put behind the last character of a word
  int32_t max_input_chars_per_word = 0;  // word_piece: longer words are unknown; 0: none is
  bool words_in_gpt2_alphabet = false;   // character_bpe
  bool byte_fallback = false;            // character_bpe: byte tokens before the unknown one
  std::optional<bool> fuse_unk;          // one unknown token for a run; unigram: true unless given
  std::optional<bool> ignore_merges;     // bpe: a word that is a token is that token, merges or not
  std::optional<bool> normalize_nfc;     // Unicode composition before anything else
  std::optional<DecoderSteps> decoders;  // tokens to text, where it is not what the kind implies
  // Tokens around every text, where bos and eos are not enough.
  std::vector<int32_t> tokens_before;
  std::vector<int32_t> tokens_after;
  // What is done to the text, where it is not what the kind implies. word_piece: BERT's four rules
  // unless given.
  std::optional<NormalizerSteps> normalizers;
};

/// Reads a Hugging Face tokenizer.json whose model is BPE, Unigram, WordPiece or WordLevel.
/// `tokenizer_config_json` gives bos, eos, pad and added tokens; it may be empty. Throws
/// Error{invalid_data} for what is damaged, Error{unsupported} naming what is not known. Any
/// thread.
TokenizerSpec parse_tokenizer_json(std::string_view tokenizer_json,
                                   std::string_view tokenizer_config_json = {});

/// The text of files that lie beside a vocabulary; empty where there is none.
struct TokenizerSideFiles {
  std::string_view config = {};              // tokenizer_config.json
  std::string_view special_tokens_map = {};  // special_tokens_map.json; the config goes before
  std::string_view added_tokens = {};        // added_tokens.json: {"<|im_end|>": 151645}
};

/// Gives a vocabulary that lists no added tokens, such as a tokenizer.model, those of the files,
/// and the roles, the types and the flags that they say. Throws Error{invalid_data} that names the
/// file. Any thread.
void apply_side_files(const TokenizerSideFiles& files, TokenizerSpec& spec);

/// Reads the vocab.json and merges.txt of byte-level BPE, as GPT-2, RoBERTa and Qwen2 have them;
/// the config beside them names the family. Throws as parse_tokenizer_json. Any thread.
TokenizerSpec parse_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                     const TokenizerSideFiles& files = {});

/// Reads a SentencePiece tokenizer.model (protobuf) of type BPE, Unigram or characters. Throws
/// Error{invalid_data}, and Error{unsupported} for another type. Any thread.
TokenizerSpec parse_sentencepiece_model(std::string_view bytes);

/// Reads a tiktoken rank file ("base64 rank" lines, rank = id). `pre` names its pre-tokenizer and
/// `specials` are the tokens that follow the ranks, in order. Throws Error{invalid_data}. Any
/// thread.
TokenizerSpec parse_tiktoken_ranks(std::string_view ranks, std::string pre,
                                   const std::vector<std::string>& specials = {});
/// Whether a file looks like ranks: Meta gives them the name tokenizer.model too.
bool is_tiktoken_ranks(std::string_view file);
/// Reads a rank file whose `name` ("cl100k_base.tiktoken"), or the class that the config beside it
/// names, tells the pre-tokenizer and, where the config lists none, the special tokens. Throws as
/// parse_tiktoken_ranks, and Error{unsupported} for an unknown one. Any thread.
TokenizerSpec parse_tiktoken_file(std::string_view name, std::string_view ranks,
                                  const TokenizerSideFiles& files = {});

/// Reads Mistral's tekken.json: ranks behind special tokens, and the expression that cuts words.
/// Throws Error{invalid_data}, and Error{unsupported} for an expression that cannot be compiled.
/// Any thread.
TokenizerSpec parse_tekken_json(std::string_view tekken_json);

/// Reads RWKV's vocabulary file ("id 'token' bytes" lines, the token a Python literal). Throws
/// Error{invalid_data}. Any thread.
TokenizerSpec parse_rwkv_vocabulary(std::string_view lines);

/// Reads BERT's vocab.txt, a WordPiece on each line, for text in lower case unless the config says
/// "do_lower_case": false. Throws Error{invalid_data}, and Error{unsupported} for the class of a
/// tokenizer that is not BERT's. Any thread.
TokenizerSpec parse_word_piece_vocabulary(std::string_view lines,
                                          const TokenizerSideFiles& files = {});

}  // namespace hasten::text
