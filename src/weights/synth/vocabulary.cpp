// SPDX-License-Identifier: Apache-2.0
// Lays out token lists: special tokens, bytes, then all words of one, two and three letters.
#include "weights/synth/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hasten::weights::synthetic {
namespace {

// llama.cpp's token types.
constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUnused = 5;
constexpr int32_t kByte = 6;

// What a family adds to its words.
struct Family {
  std::string_view pre;
  std::vector<std::string_view> leading;   // special tokens before the bytes
  std::vector<std::string_view> trailing;  // and after the words
  int64_t trailing_room;                   // ids kept for the latter; unnamed ones are unused
  std::string_view bos;                    // the names of those with a role
  std::string_view eos;
  std::string_view padding;
  bool add_bos;
  std::string_view chat_template;
};

constexpr std::string_view kLlama3Template =
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}"
    "<|end_header_id|>\n\n{{ message['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}";
constexpr std::string_view kChatMlTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr std::string_view kInstTemplate =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ message['content'] }}{{ eos_token }}{% else %}[INST] {{ message['content'] }} [/INST]"
    "{% endif %}{% endfor %}";
constexpr std::string_view kGemmaTemplate =
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else 'user' }}\n{{ message['content'] }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";
constexpr std::string_view kPhi3Template =
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

Family family_of(VocabularyKind kind) {
  switch (kind) {
    case VocabularyKind::llama3:
      return {.pre = "llama-bpe",
              .leading = {},
              .trailing = {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                           "<|end_header_id|>", "<|eot_id|>"},
              .trailing_room = 256,
              .bos = "<|begin_of_text|>",
              .eos = "<|eot_id|>",
              .padding = "<|end_of_text|>",
              .add_bos = true,
              .chat_template = kLlama3Template};
    case VocabularyKind::qwen2:
      return {.pre = "qwen2",
              .leading = {},
              .trailing = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
              .trailing_room = 293,
              .bos = "<|endoftext|>",
              .eos = "<|im_end|>",
              .padding = "<|endoftext|>",
              .add_bos = false,
              .chat_template = kChatMlTemplate};
    case VocabularyKind::llama_spm:
      return {.pre = "default",
              .leading = {"<unk>", "<s>", "</s>", "[INST]", "[/INST]"},
              .trailing = {},
              .trailing_room = 0,
              .bos = "<s>",
              .eos = "</s>",
              .padding = "</s>",
              .add_bos = true,
              .chat_template = kInstTemplate};
    case VocabularyKind::gemma:
      return {.pre = "default",
              .leading = {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>",
                          "<end_of_turn>"},
              .trailing = {},
              .trailing_room = 0,
              .bos = "<bos>",
              .eos = "<eos>",
              .padding = "<pad>",
              .add_bos = true,
              .chat_template = kGemmaTemplate};
    case VocabularyKind::phi3:
      break;
  }
  return {.pre = "default",
          .leading = {"<unk>", "<s>", "</s>"},
          .trailing = {"<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"},
          .trailing_room = 64,
          .bos = "<s>",
          .eos = "<|end|>",
          .padding = "<|endoftext|>",
          .add_bos = false,
          .chat_template = kPhi3Template};
}

// Letters from the commonest; a space is written as the tokenizer writes it. 65^3 words are more
// than the largest vocabulary needs.
std::vector<std::string> letters(std::string_view space) {
  std::vector<std::string> result = {std::string(space)};
  for (const char c :
       std::string_view("etaoinshrdlucmfwygpbvkxqjzETAOINSHRDLUCMFWYGPBVKXQJZ0123456789.,"))
    result.emplace_back(1, c);
  return result;
}

// GPT-2's letter for a byte: printable ones stand for themselves, the rest follow from U+0100.
std::string byte_letter(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

class Builder {
 public:
  Builder(const Family& family, int64_t size) : family_(family), size_(size) {
    // Small vocabularies keep fewer ids than the real ones.
    const int64_t room = std::min<int64_t>(
        family.trailing_room, static_cast<int64_t>(family.trailing.size()) + size / 64);
    words_end_ = static_cast<size_t>(size - (family.trailing.empty() ? 0 : room));
  }

  void add(std::string token, int32_t type) {
    types_.push_back(type);
    tokens_.push_back(std::move(token));
  }

  void add_leading() {
    for (const std::string_view name : family_.leading)
      add(std::string(name), name == "<unk>" ? kUnknown : kControl);
  }

  // All words of two letters, then of three, until there is room for the trailing tokens only. Each
  // is one merge of two earlier tokens.
  void add_words(const std::vector<std::string>& alphabet) {
    for (const std::string& a : alphabet) {
      for (const std::string& b : alphabet) add_word(a, b);
    }
    for (const std::string& a : alphabet) {
      for (const std::string& b : alphabet) {
        for (const std::string& c : alphabet) add_word(a + b, c);
      }
    }
  }

  void add_trailing() {
    for (const std::string_view name : family_.trailing) add(std::string(name), kControl);
    while (static_cast<int64_t>(tokens_.size()) < size_)
      add(fmt::format("[PAD{}]", tokens_.size()), kUnused);
    HASTEN_CHECK(static_cast<int64_t>(tokens_.size()) == size_);
  }

  void write_common(GgufWriter& writer, std::string_view model) const {
    writer.set_string("tokenizer.ggml.model", model);
    writer.set_string("tokenizer.ggml.pre", family_.pre);
    writer.set_strings("tokenizer.ggml.tokens", tokens_);
    writer.set_i32s("tokenizer.ggml.token_type", types_);
  }

  void write_roles(GgufWriter& writer) const {
    writer.set_u32("tokenizer.ggml.bos_token_id", id_of(family_.bos));
    writer.set_u32("tokenizer.ggml.eos_token_id", id_of(family_.eos));
    writer.set_u32("tokenizer.ggml.padding_token_id", id_of(family_.padding));
    writer.set_bool("tokenizer.ggml.add_bos_token", family_.add_bos);
    writer.set_string("tokenizer.chat_template", family_.chat_template);
  }

  [[nodiscard]] uint32_t id_of(std::string_view token) const {
    const auto found = std::find(tokens_.begin(), tokens_.end(), token);
    HASTEN_CHECK(found != tokens_.end());
    return static_cast<uint32_t>(found - tokens_.begin());
  }

  [[nodiscard]] const std::vector<std::string>& merges() const { return merges_; }

  // Bytes and specials have score 0; among words an earlier one is the better merge.
  [[nodiscard]] std::vector<float> scores() const {
    std::vector<float> scores;
    float next = 0;
    for (const int32_t type : types_) scores.push_back(type == kNormal ? next-- : 0.0F);
    return scores;
  }

 private:
  void add_word(const std::string& left, const std::string& right) {
    if (tokens_.size() >= words_end_) return;
    add(left + right, kNormal);
    merges_.push_back(left + " " + right);
  }

  const Family& family_;
  int64_t size_;
  size_t words_end_;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
  std::vector<std::string> merges_;
};

void write_byte_level_bpe(GgufWriter& writer, const Family& family, int64_t size) {
  Builder builder(family, size);
  for (int byte = 0; byte < 256; ++byte) builder.add(byte_letter(byte), kNormal);
  builder.add_words(letters(byte_letter(' ')));
  builder.add_trailing();
  builder.write_common(writer, "gpt2");
  writer.set_strings("tokenizer.ggml.merges", builder.merges());
  builder.write_roles(writer);
}

void write_sentencepiece(GgufWriter& writer, const Family& family, int64_t size) {
  const std::vector<std::string> alphabet = letters("\u2581");
  Builder builder(family, size);
  builder.add_leading();
  for (int byte = 0; byte < 256; ++byte) builder.add(fmt::format("<0x{:02X}>", byte), kByte);
  for (const std::string& letter : alphabet) builder.add(letter, kNormal);
  builder.add_words(alphabet);
  builder.add_trailing();
  builder.write_common(writer, "llama");
  writer.set_f32s("tokenizer.ggml.scores", builder.scores());
  builder.write_roles(writer);
  writer.set_u32("tokenizer.ggml.unknown_token_id", builder.id_of("<unk>"));
  writer.set_bool("tokenizer.ggml.add_eos_token", false);
  writer.set_bool("tokenizer.ggml.add_space_prefix", family.leading.front() == "<unk>");
}

}  // namespace

void write_vocabulary(GgufWriter& writer, VocabularyKind kind, int64_t size) {
  HASTEN_CHECK(size >= 400);
  const Family family = family_of(kind);
  if (kind == VocabularyKind::llama3 || kind == VocabularyKind::qwen2) {
    write_byte_level_bpe(writer, family, size);
  } else {
    write_sentencepiece(writer, family, size);
  }
}

}  // namespace hasten::weights::synthetic
