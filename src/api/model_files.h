// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to what the text layer and the engine need: opening, tokenizer, chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"

namespace hasten::api {

/// Opens `path`; empty: the demonstration model built into the library. Throws Error.
std::unique_ptr<const weights::Checkpoint> open_model(
    const std::filesystem::path& path, weights::Contents contents = weights::Contents::everything);

/// A name or message from outside as JSON answers, metrics and the log can carry it: U+FFFD for
/// control characters and for bytes that are no UTF-8.
std::string cleaned(std::string_view given);

/// What clients call the model: general.name, or the name of the file or folder. Valid UTF-8
/// without control characters.
std::string display_name(const weights::Checkpoint& checkpoint);

/// A file of a folder that is read under another name than its own. Empty: none.
struct LoneFile {
  std::string role = {};  // the name that it stands for: "tokenizer.model"
  std::string name = {};  // its own: "my.model"
};

/// The tokenizer's description from GGUF metadata or from the files of a folder, the first of
/// kVocabularyNames. Throws Error{invalid_data, unsupported} that begins with the path of the file
/// and names key and value, and Error{not_found} that names what was looked for.
text::TokenizerSpec read_tokenizer_spec(const weights::Checkpoint& checkpoint,
                                        const LoneFile& lone = {});

/// What makes it doubtful that a tokenizer of this size is whole and belongs to the model of this
/// config.json, or empty.
std::string doubt_of_size(int64_t num_tokens, const json::Object& config);
/// How many tokens may be beyond a model's embeddings, as of fine-tunes that add some and of models
/// of text alone whose vocabulary has an image's token (Gemma 3 1B): they are in no prompt and no
/// answer. With more the two are of different models.
inline constexpr int64_t kMaxTokensWithoutEmbedding = 256;

/// Why an engine would refuse a tokenizer of this size with this model, as far as can be told
/// without loading it, or empty.
std::string doubt_of_model(int64_t num_tokens, const weights::Checkpoint& checkpoint);

struct ChatTemplateSource {
  std::string text;   // empty: the model has none
  std::string place;  // for people: "chat_template.jinja", "tokenizer.chat_template" of a GGUF file
  std::string fault = {};  // why the file is no text at all; empty: it is, or there is none
};

/// The template that a file holds, without the byte order mark that editors put before it: no model
/// was trained with one. Throws Error{invalid_data} for what is not UTF-8, or has NUL bytes.
std::string template_text(std::string_view file, std::string_view path);

/// Whether a file that should hold a template holds none.
bool is_blank(std::string_view source);

/// The chat template as it is written. A Hugging Face folder: chat_template.jinja,
/// chat_template.json, or the entry in tokenizer_config.json. Of several, the one of this name
/// ("tool_use"); one alone is the default. Throws Error{invalid_data} for a file that is no JSON; a
/// chat_template.jinja that is no text keeps nothing but chats from working.
ChatTemplateSource read_chat_template(const weights::Checkpoint& checkpoint,
                                      std::string_view name = "default");

}  // namespace hasten::api
