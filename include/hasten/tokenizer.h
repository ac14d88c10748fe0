// SPDX-License-Identifier: Apache-2.0
// A model's vocabulary and chat template, without its weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/chat.h"

namespace hasten {

/// What a tokenizer is, for people.
struct TokenizerInfo {
  std::string kind;           // "byte-level BPE", "SentencePiece Unigram", "WordPiece", …
  std::string pre_tokenizer;  // what cuts text into words: "llama-bpe", "split by …"; or empty
  std::string file;           // that it was read from, with its path
  int32_t bos = -1;           // ids of what the file gives these roles; -1: none
  int32_t eos = -1;
  int32_t eot = -1;
  int32_t unk = -1;
  int32_t pad = -1;             // may lie outside the vocabulary
  std::vector<int32_t> before;  // what encode puts around a text; none where no text has tokens
  std::vector<int32_t> after;
  /// What makes it doubtful that its files are whole and belong together, or that it has tokens for
  /// any text; sentences that say "it" of the tokenizer or name a file. Engines log them.
  std::vector<std::string> doubts;
};

/// What a model's chat template is, for people.
struct TemplateInfo {
  /// What messages call it: "the chat template of M (chat_template.jinja)", with the model's name
  /// and the file or key that it was read from. The sentences below begin so, and so do errors of
  /// render_chat that it is to blame for.
  std::string name;
  std::string source;        // empty: the model has none and ChatML stands in
  std::string capabilities;  // what it can express: "system role, tools, tool results, …"
  /// Why it does not parse, a sentence with the line; empty: it does. Then render_chat throws that,
  /// except for a chat with tools where the model has a template of its own for them; all else
  /// works.
  std::string error;
  /// Why, though it parses, it does not render one message of a user without tools and arguments, a
  /// sentence with its own reason or the line; empty: it does. Other chats may work (such as ones
  /// with tools, with a system message or with template_arguments), or none.
  std::string refusal;
  /// What makes it doubtful that it does what it is for, though it parses: it makes the same prompt
  /// whatever users say; a sentence. Empty: nothing.
  std::string doubt;
  /// Which filters, tests and functions it uses that there are not, where not every chat gets, and
  /// perhaps none; a sentence. Empty: none.
  std::string unknown_names;
  /// Why the model's other template, for prompts that offer tools, does not parse; a sentence.
  /// Such prompts are made by this one then. Empty: it does, or there is none.
  std::string tool_error;
  /// The same as `doubt` and `unknown_names`, of that template. Engines log the doubt.
  std::string tool_doubt;
  std::string tool_unknown_names;
};

/// The chat template that lies in a folder, or that a file is, without a tokenizer; the names of
/// its begin and end tokens are taken for empty. Throws Error{not_found} where there is none.
TemplateInfo read_template(const std::filesystem::path& path);
/// Whether `path` is named as the file of a chat template alone: x.jinja.
bool is_template_file(const std::filesystem::path& path);
/// Whether a folder has a file in which a chat template may be.
bool has_template_file(const std::filesystem::path& folder);

/// Whether `path` is a file that Tokenizer takes as a whole vocabulary: by its name one of those
/// that model folders have (tokenizer.json, tokenizer.model, x.tiktoken, …) or of their kind.
bool is_vocabulary_file(const std::filesystem::path& path);

/// Whether a folder has a file of a name by which Tokenizer finds the vocabularies of folders.
bool has_vocabulary_file(const std::filesystem::path& folder);

/// Text to tokens and back, conversations to prompts, answers to events. Const: any thread.
class Tokenizer {
 public:
  /// Reads the vocabulary and the template of a model: a .gguf file, a Hugging Face folder or one
  /// file of a vocabulary, with what lies beside it; empty: the demonstration model inside the
  /// library. Weights are not read, and need not be there. Throws Error.
  explicit Tokenizer(const std::filesystem::path& model);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  const TokenizerInfo& info() const;
  int64_t vocab_size() const;
  int32_t bos() const;  // -1: none
  int32_t eos() const;  // -1: none

  /// Token ids of `text`. `add_special`: begin and end tokens as the model wants them.
  /// `parse_special`: special tokens written in the text count as such.
  std::vector<int32_t> encode(std::string_view text, bool add_special = true,
                              bool parse_special = false) const;
  /// The ids of many texts, and of long ones, on `num_threads` threads (0: as many as the machine
  /// has); the same as those of encode. Throws Error for what encode throws, and for more than 256
  /// threads.
  std::vector<std::vector<int32_t>> encode_all(const std::vector<std::string_view>& texts,
                                               bool add_special = true, bool parse_special = false,
                                               int num_threads = 0) const;
  /// The text of ids; an id outside the vocabulary is an Error{invalid_argument}.
  std::string decode(const std::vector<int32_t>& tokens, bool show_special = true) const;
  /// The bytes of one token, which may be part of a character; of a special one its name. An id
  /// outside the vocabulary is an Error{invalid_argument}.
  std::string token_bytes(int32_t token) const;
  /// Whether a token is a control token or the unknown one, which are no text.
  bool is_special(int32_t token) const;

  const TemplateInfo& chat_template() const;
  /// The prompt of a conversation. Throws Error{unsupported} of "tools" where a chat's tools leave
  /// no trace in it, Error{invalid_argument} for what the template refuses, Error{invalid_data}
  /// where it does not parse and Error{resource_exhausted} at its limits, of the field at fault:
  /// "messages", unless it is another or a part of those.
  RenderedChat render_chat(const Chat& chat) const;
  /// A parser for one answer to a rendered prompt. Calls are told from content when it offers
  /// tools, and arguments that the model does not type are typed by the tools' schemas.
  std::unique_ptr<ChatParser> chat_parser(const RenderedChat& prompt) const;

 private:
  friend class Engine;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hasten
