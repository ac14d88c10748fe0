// SPDX-License-Identifier: Apache-2.0
// One file of a tokenizer, named as a model.
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer_spec.h"
#include "weights/checkpoint.h"

namespace hasten::api {

struct OpenVocabulary {
  std::unique_ptr<const weights::Checkpoint> checkpoint;
  text::TokenizerSpec spec;
};

/// Reads what has a vocabulary: what open_model does, without weights, or one of the files that
/// read_tokenizer_spec looks for, also under another name of its kind ("my.model",
/// "tokenizer.model.v3"). Such a file is read as if it were the only vocabulary of its folder; what
/// lies beside it (tokenizer_config.json, a chat template) counts. Throws as open_model and
/// read_tokenizer_spec, in words of the file's own name.
OpenVocabulary open_vocabulary(const std::filesystem::path& path);

}  // namespace hasten::api
