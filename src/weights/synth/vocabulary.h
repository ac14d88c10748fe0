// SPDX-License-Identifier: Apache-2.0
// Generated vocabularies: valid for their tokenizer, of any size, with short words of common
// letters.
#pragma once

#include <cstdint>

#include "weights/gguf_writer.h"

namespace hasten::weights::synthetic {

enum class VocabularyKind : uint8_t {
  llama3,     // byte-level BPE, pre-tokenizer llama-bpe
  qwen2,      // byte-level BPE, pre-tokenizer qwen2
  llama_spm,  // SentencePiece with byte fallback, as Llama 2 and Mistral
  gemma,      // the same with Gemma's special tokens
  phi3,       // the same with Phi-3's special tokens
};

/// Writes the tokenizer.* keys of a vocabulary of `size` tokens (at least 400), chat template
/// included.
void write_vocabulary(GgufWriter& writer, VocabularyKind kind, int64_t size);

}  // namespace hasten::weights::synthetic
