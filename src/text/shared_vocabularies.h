// SPDX-License-Identifier: Apache-2.0
// For tests: the vocabularies and vectors of the shared inputs.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "hasten_test/paths.h"
#include "text/tokenizer.h"

namespace hasten::text::testing {

inline std::filesystem::path tokenizers_dir() {
  return hasten::testing::shared_dir() / "data/tokenizers";
}

inline std::string read_tokenizer_file(const std::string& name) {
  return hasten::testing::read_file(tokenizers_dir() / name);
}

/// Llama 3's ranks with its 256 special tokens.
inline TokenizerSpec llama3_spec() {
  std::vector<std::string> specials = {"<|begin_of_text|>",
                                       "<|end_of_text|>",
                                       "<|reserved_special_token_0|>",
                                       "<|reserved_special_token_1|>",
                                       "<|finetune_right_pad_id|>",
                                       "<|reserved_special_token_2|>",
                                       "<|start_header_id|>",
                                       "<|end_header_id|>",
                                       "<|eom_id|>",
                                       "<|eot_id|>",
                                       "<|python_tag|>"};
  for (int i = 3; specials.size() < 256; ++i) {
    specials.push_back("<|reserved_special_token_" + std::to_string(i) + "|>");
  }
  auto spec =
      parse_tiktoken_ranks(read_tokenizer_file("llama3/tokenizer.model"), "llama-bpe", specials);
  spec.bos = 128000;
  spec.eos = 128009;
  return spec;
}

/// Qwen2's ranks with the special tokens of its first release.
inline TokenizerSpec qwen2_spec() {
  auto spec = parse_tiktoken_ranks(read_tokenizer_file("qwen/qwen.tiktoken"), "qwen2",
                                   {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  spec.eos = 151645;
  return spec;
}

/// GPT-4's ranks, without special tokens; its expression is Llama 3's.
inline TokenizerSpec cl100k_spec() {
  return parse_tiktoken_ranks(read_tokenizer_file("tiktoken/cl100k_base.tiktoken"), "llama-bpe");
}

/// GPT-4o's ranks, without special tokens.
inline TokenizerSpec o200k_spec() {
  return parse_tiktoken_ranks(read_tokenizer_file("tiktoken/o200k_base.tiktoken"), "gpt-4o");
}

/// The tokenizer.ggml.* metadata of a trusted GGUF file; the layer that reads GGUF in earnest is
/// not one that text may include.
class GgufVocabulary {
 public:
  explicit GgufVocabulary(std::string file) : file_(std::move(file)), rest_(file_) {
    skip(4 + 4 + 8);  // magic, version, number of tensors
    const auto num_keys = take<uint64_t>();
    for (uint64_t i = 0; i < num_keys; ++i) {
      const std::string key(take_string());
      read_value(key, take<uint32_t>());
    }
  }

  TokenizerSpec spec() const {
    TokenizerSpec spec;
    const std::string prefix = "tokenizer.ggml.";
    const auto id = [&](const char* name) {
      const auto found = integers_.find(prefix + name + "_token_id");
      return found == integers_.end() ? -1 : static_cast<int32_t>(found->second);
    };
    const auto flag = [&](const char* name) {
      const auto found = integers_.find(prefix + name);
      return found == integers_.end() ? std::nullopt : std::optional(found->second != 0);
    };
    const bool spm = strings_.at(prefix + "model") == "llama";
    spec.kind = spm ? TokenizerKind::spm : TokenizerKind::bpe;
    if (!spm) spec.pre = strings_.at(prefix + "pre");
    spec.tokens = string_lists_.at(prefix + "tokens");
    if (string_lists_.contains(prefix + "merges")) {
      spec.merges = string_lists_.at(prefix + "merges");
    }
    spec.scores.assign(scores_.begin(), scores_.end());
    spec.types = types_;
    spec.bos = id("bos");
    spec.eos = id("eos");
    spec.eot = id("eot");
    spec.unk = id("unknown");
    spec.pad = id("padding");
    spec.add_bos = flag("add_bos_token");
    spec.add_eos = flag("add_eos_token");
    return spec;
  }

 private:
  enum : uint32_t { kFloat32 = 6, kString = 8, kArray = 9 };

  void skip(size_t bytes) { rest_.remove_prefix(bytes); }
  template <class T>
  T take() {
    T value;
    if (rest_.size() < sizeof(T)) throw std::runtime_error("the GGUF file is cut short");
    std::memcpy(&value, rest_.data(), sizeof(T));
    skip(sizeof(T));
    return value;
  }
  std::string_view take_string() {
    const auto length = take<uint64_t>();
    const std::string_view value = rest_.substr(0, length);
    skip(length);
    return value;
  }
  int64_t take_integer(uint32_t type) {
    static constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    int64_t value = 0;
    std::memcpy(&value, rest_.data(), kBytes[type]);
    skip(kBytes[type]);
    return value;
  }
  void read_value(const std::string& key, uint32_t type) {
    if (type == kString) {
      strings_[key] = take_string();
    } else if (type != kArray) {
      integers_[key] = take_integer(type);
    } else {
      const auto element = take<uint32_t>();
      const auto count = take<uint64_t>();
      for (uint64_t i = 0; i < count; ++i) {
        if (element == kString) {
          string_lists_[key].emplace_back(take_string());
        } else if (element == kFloat32) {
          scores_.push_back(take<float>());
        } else {
          types_.push_back(static_cast<int32_t>(take_integer(element)));
        }
      }
    }
  }

  std::string file_;
  std::string_view rest_;
  std::map<std::string, std::string> strings_;
  std::map<std::string, int64_t> integers_;
  std::map<std::string, std::vector<std::string>> string_lists_;
  std::vector<float> scores_;
  std::vector<int32_t> types_;
};

}  // namespace hasten::text::testing
