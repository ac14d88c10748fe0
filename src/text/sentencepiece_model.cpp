// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.model: SentencePiece's ModelProto (sentencepiece_model.proto).
#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "text/protobuf_reader.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

constexpr std::string_view kModelFile = "tokenizer.model";

// Field numbers of sentencepiece_model.proto.
enum ModelField : uint32_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3 };
enum PieceField : uint32_t { kPiece = 1, kScore = 2, kType = 3 };
enum TrainerField : uint32_t {
  kModelType = 3,
  kWhitespaceSuffix = 24,
  kBosPiece = 46,
  kEosPiece = 47
};
enum NormalizerField : uint32_t {
  kCharsMap = 2,
  kDummyPrefix = 3,
  kExtraWhitespaces = 4,
  kEscape = 5
};

// Of TrainerSpec.ModelType.
constexpr uint64_t kUnigram = 1;
constexpr uint64_t kBpe = 2;
constexpr uint64_t kCharacters = 4;

void read_piece(std::string_view message, TokenizerSpec& spec) {
  std::string_view text;
  float score = 0;
  uint64_t type = static_cast<uint64_t>(TokenType::normal);
  for (ProtobufReader piece(message, kModelFile); piece.next();) {
    if (piece.field() == kPiece) text = piece.bytes();
    if (piece.field() == kScore) score = piece.float32();
    if (piece.field() == kType) type = piece.varint();
  }
  if (type < 1 || type > 6) {
    fail(ErrorCode::invalid_data, "{}: piece {} has type {}; known are 1 to 6", kModelFile,
         spec.tokens.size(), type);
  }
  if (type == static_cast<uint64_t>(TokenType::user_defined) &&
      text.find(' ') != std::string_view::npos) {
    spec.never_found.push_back(static_cast<int32_t>(spec.tokens.size()));
  }
  spec.tokens.emplace_back(text);
  spec.scores.push_back(score);
  spec.types.push_back(static_cast<int32_t>(type));
}

struct ControlNames {
  std::string bos = "<s>";
  std::string eos = "</s>";
};

void check_characters(const TokenizerSpec& spec) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto type = static_cast<TokenType>(spec.types[id]);
    if (type != TokenType::normal && type != TokenType::unused) continue;
    if (decode_utf8(spec.tokens[id]).length == spec.tokens[id].size()) continue;
    fail(ErrorCode::unsupported,
         "{}: a model of characters (type 4) whose piece {} has several: {}", kModelFile, id,
         printable(spec.tokens[id]));
  }
}

ControlNames read_trainer(std::string_view message, TokenizerSpec& spec) {
  ControlNames names;
  uint64_t model_type = kUnigram;  // the default of the format
  bool whitespace_suffix = false;
  for (ProtobufReader trainer(message, kModelFile); trainer.next();) {
    if (trainer.field() == kModelType) model_type = trainer.varint();
    if (trainer.field() == kWhitespaceSuffix) whitespace_suffix = trainer.varint() != 0;
    if (trainer.field() == kBosPiece) names.bos = trainer.bytes();
    if (trainer.field() == kEosPiece) names.eos = trainer.bytes();
  }
  if (model_type != kBpe && model_type != kUnigram && model_type != kCharacters) {
    fail(ErrorCode::unsupported,
         "{}: SentencePiece models of types Unigram (1), BPE (2) and characters (4) are supported, "
         "not type {}",
         kModelFile, model_type);
  }
  if (model_type == kCharacters) check_characters(spec);
  // Where every piece is a character BPE merges nothing.
  spec.kind = model_type == kUnigram ? TokenizerKind::unigram : TokenizerKind::spm;
  if (whitespace_suffix) {
    fail(ErrorCode::unsupported, "{}: spaces at the end of pieces are not supported", kModelFile);
  }
  return names;
}

void read_normalizer(std::string_view message, TokenizerSpec& spec) {
  bool escapes = true;
  for (ProtobufReader normalizer(message, kModelFile); normalizer.next();) {
    if (normalizer.field() == kCharsMap) spec.precompiled_charsmap = normalizer.bytes();
    if (normalizer.field() == kDummyPrefix && normalizer.varint() == 0) {
      spec.space_prefix = SpacePrefix::none;
    }
    if (normalizer.field() == kExtraWhitespaces) {
      spec.remove_extra_whitespaces = normalizer.varint() != 0;
    }
    if (normalizer.field() == kEscape) escapes = normalizer.varint() != 0;
  }
  if (!escapes) {
    fail(ErrorCode::unsupported, "{}: pieces with bare spaces are not supported", kModelFile);
  }
}

// A file that was cut between two fields parses. SentencePiece writes the trainer's and the
// normalizer's settings behind the pieces, whatever they say.
void check_is_whole(size_t num_pieces, bool has_trainer, bool has_normalizer) {
  if (num_pieces == 0) {
    fail(ErrorCode::invalid_data,
         "{} holds no pieces: it is no SentencePiece model, or damaged; fetch it again",
         kModelFile);
  }
  if (has_trainer && has_normalizer) return;
  fail(ErrorCode::invalid_data,
       "{} looks cut: it ends after {} pieces without the {} that every SentencePiece model has "
       "behind them; fetch it again",
       kModelFile, num_pieces, has_trainer ? "normalizer_spec" : "trainer_spec");
}

int32_t find_token(const TokenizerSpec& spec, std::string_view text) {
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return found == spec.tokens.end() ? -1 : static_cast<int32_t>(found - spec.tokens.begin());
}

}  // namespace

TokenizerSpec parse_sentencepiece_model(std::string_view bytes) {
  TokenizerSpec spec;
  spec.space_prefix = SpacePrefix::every;
  spec.remove_extra_whitespaces = true;  // the default of the format
  std::optional<std::string_view> trainer;
  std::optional<std::string_view> normalizer;
  for (ProtobufReader model(bytes, kModelFile); model.next();) {
    if (model.field() == kPieces) read_piece(model.bytes(), spec);
    if (model.field() == kTrainerSpec) trainer = model.bytes();
    if (model.field() == kNormalizerSpec) normalizer = model.bytes();
  }
  check_is_whole(spec.tokens.size(), trainer.has_value(), normalizer.has_value());
  const ControlNames names = read_trainer(*trainer, spec);
  read_normalizer(*normalizer, spec);
  spec.bos = find_token(spec, names.bos);
  spec.eos = find_token(spec, names.eos);
  const auto unk =
      std::find(spec.types.begin(), spec.types.end(), static_cast<int32_t>(TokenType::unknown));
  spec.unk = unk == spec.types.end() ? -1 : static_cast<int32_t>(unk - spec.types.begin());
  return spec;
}

}  // namespace hasten::text
