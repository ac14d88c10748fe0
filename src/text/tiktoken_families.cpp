// SPDX-License-Identifier: Apache-2.0
// Which words and special tokens go with a published rank file, none of which says so itself.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/in_file.h"
#include "base/printable.h"
#include "text/tokenizer_side_files.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {
namespace {

struct FamilyToken {
  int32_t id;
  std::string text;
};

struct Family {
  std::string_view name;  // how the file's name begins
  std::string_view tokenizer_class;
  const char* pre;
  int32_t num_ranks = 0;  // of the whole file, with those left out; 0: not the same in all
};

// Files that many families share a name for, such as tokenizer.model, are told by the class beside
// them, or by the number of their ranks.
constexpr std::array kFamilies = {
    Family{"cl100k_base", "", "llama-bpe", 100256},
    Family{"o200k_base", "", "gpt-4o", 199998},
    Family{"p50k_base", "", "gpt-2", 50281},
    Family{"r50k_base", "", "gpt-2", 50256},
    Family{"qwen.tiktoken", "QWenTokenizer", "qwen2", 151643},
    Family{"hy.tiktoken", "HYTokenizer", "hunyuan"},
    Family{"", "ChatGLM4Tokenizer", "chatglm-bpe"},
    Family{"tiktoken.model", "TikTokenTokenizer", "kimi-k2"},
    Family{"tokenizer.model", "", "llama-bpe", 128000},  // Llama 3
};

// The tokens behind the ranks of `family`, where the files beside them do not list them.
std::vector<FamilyToken> special_tokens(const Family& family, int32_t num_ranks) {
  if (family.name == "cl100k_base") {
    return {{100257, "<|endoftext|>"},
            {100258, "<|fim_prefix|>"},
            {100259, "<|fim_middle|>"},
            {100260, "<|fim_suffix|>"},
            {100276, "<|endofprompt|>"}};
  }
  if (family.name == "o200k_base") return {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}};
  if (family.name.ends_with("50k_base")) return {{50256, "<|endoftext|>"}};
  std::vector<FamilyToken> tokens;
  const auto add = [&](std::string text) {
    tokens.push_back({num_ranks + static_cast<int32_t>(tokens.size()), std::move(text)});
  };
  if (family.name == "qwen.tiktoken") {
    for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) add(text);
    for (int i = 0; i < 205; ++i) add("<|extra_" + std::to_string(i) + "|>");
  }
  if (family.name == "hy.tiktoken") {
    for (const char* text : {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"}) {
      add(text);
    }
    for (int i = 0; i < 205; ++i) add("<|extra_" + std::to_string(i) + "|>");
  }
  if (family.name == "tokenizer.model") {  // Llama 3.1
    for (const char* text : {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
                             "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
                             "<|reserved_special_token_2|>", "<|start_header_id|>",
                             "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"}) {
      add(text);
    }
    for (int i = 3; tokens.size() < 256; ++i) {
      add("<|reserved_special_token_" + std::to_string(i) + "|>");
    }
  }
  return tokens;
}

const Family& family_of(std::string_view name, std::string_view tokenizer_class) {
  // So transformers wants Llama 3's ranks to be called.
  if (name == "tiktoken.model" && tokenizer_class == "PreTrainedTokenizerFast") {
    name = "tokenizer.model";
  }
  const auto named = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return !tokenizer_class.empty() && family.tokenizer_class == tokenizer_class;
  });
  if (named != kFamilies.end()) return *named;
  std::string known;
  for (const Family& family : kFamilies) {
    if (!family.name.empty() && name.starts_with(family.name)) return family;
    if (!family.name.empty()) known.append(known.empty() ? "" : ", ").append(family.name);
  }
  fail(ErrorCode::unsupported,
       "{} is a rank file, which does not say how it cuts words; known by their names are {}, and "
       "otherwise a tokenizer.json is needed",
       printable(name), known);
}

// Many models have a tokenizer.model of ranks, and each cuts words in its own way.
void check_is_llama3(const Family& llama3, std::string_view tokenizer_class, int32_t num_ranks) {
  if (num_ranks == llama3.num_ranks) return;
  std::string classes;
  for (const Family& family : kFamilies) {
    if (family.tokenizer_class.empty()) continue;
    classes.append(classes.empty() ? "" : ", ").append(family.tokenizer_class);
  }
  fail(ErrorCode::unsupported,
       "tokenizer.model holds {} ranks{}{}, and does not say how it cuts words: Llama 3's has {}, "
       "others are known by the tokenizer_class in their tokenizer_config.json ({}), and otherwise "
       "a tokenizer.json is needed{}",
       num_ranks, tokenizer_class.empty() ? "" : " of a ",
       tokenizer_class.empty() ? "" : printable(tokenizer_class), llama3.num_ranks, classes,
       num_ranks < llama3.num_ranks ? "; if it is Llama 3's, it was cut: fetch it again" : "");
}

// The first id behind the ranks that has a token, or the number of tokens.
int32_t first_added(const TokenizerSpec& spec, int32_t num_ranks) {
  const auto added = std::find_if(spec.tokens.begin() + num_ranks, spec.tokens.end(),
                                  [](const auto& token) { return !token.empty(); });
  return static_cast<int32_t>(added - spec.tokens.begin());
}

// A file that was cut at the end of a line parses. `added`: the first token that the files beside
// it add.
void check_is_whole(std::string_view name, const Family& family, int32_t num_ranks, int32_t added,
                    TokenizerSpec& spec) {
  const bool has_added = added < std::ssize(spec.tokens);
  if (family.num_ranks > 0) {
    if (num_ranks >= family.num_ranks) return;
    // Tokens that take the place of ranks are not the family's: this vocabulary was made smaller.
    // A file that was cut has none there, and without any its ids would be guesses.
    if (has_added && added == num_ranks) {
      spec.doubts.push_back(
          fmt::format("{} holds {} ranks, a whole {} has {}: taken for a smaller one, since the "
                      "files beside it add tokens right behind",
                      name, num_ranks, family.name, family.num_ranks));
      return;
    }
    fail(ErrorCode::invalid_data,
         "{} holds {} ranks, a whole {} has {}: it looks cut; fetch it again (one that was made "
         "smaller needs a tokenizer_config.json that lists the tokens behind its ranks)",
         name, num_ranks, family.name, family.num_ranks);
  }
  // Where the number is not known, the added tokens may not begin far behind the ranks. Of
  // published files GPT-4's and GPT-4o's leave out most, the one id behind their ranks.
  constexpr int32_t kMaxGap = 16;
  if (!has_added || added - num_ranks <= kMaxGap) return;
  fail(ErrorCode::invalid_data,
       "{} holds {} ranks, but the first token that the files beside it add, {}, has id {}: it "
       "looks cut; fetch it again",
       name, num_ranks, printable(spec.tokens[static_cast<size_t>(added)]), added);
}

int32_t find_last(const TokenizerSpec& spec, std::string_view text) {
  const auto found = std::find(spec.tokens.rbegin(), spec.tokens.rend(), text);
  return static_cast<int32_t>(spec.tokens.rend() - found) - 1;
}

// Gives the ids before `added` the tokens that the family has there: a model that was trained
// further may list only its own. False where it has none.
bool add_special_tokens(std::string_view name, const Family& family, int32_t num_ranks,
                        int32_t added, TokenizerSpec& spec) {
  const bool has_added = added < std::ssize(spec.tokens);
  bool has_any = false;
  for (FamilyToken& token : special_tokens(family, num_ranks)) {
    if (has_added && token.id >= added) continue;
    const auto i = static_cast<size_t>(token.id);
    if (i >= spec.tokens.size()) {
      spec.tokens.resize(i + 1);
      spec.types.resize(i + 1, static_cast<int32_t>(TokenType::unused));
    }
    if (spec.types[i] == static_cast<int32_t>(TokenType::normal)) {
      fail(ErrorCode::invalid_data, "{}: rank {} is taken, where {} has {}", printable(name),
           token.id, family.name, token.text);
    }
    const bool is_listed =
        !spec.tokens[i].empty() || std::find(spec.tokens.begin() + num_ranks, spec.tokens.end(),
                                             token.text) != spec.tokens.end();
    if (is_listed) continue;
    spec.tokens[i] = std::move(token.text);
    spec.types[i] = static_cast<int32_t>(TokenType::control);
    has_any = true;
  }
  return has_any;
}

// Those of the family, but where the config names others.
void set_roles(const Family& family, const SideFiles& beside, TokenizerSpec& spec) {
  const bool is_hunyuan = family.name == "hy.tiktoken";
  const auto set = [&](int32_t& role, int32_t id) {
    if (role < 0) role = id;
  };
  set(spec.bos, find_last(spec, is_hunyuan ? "<|startoftext|>" : "<|begin_of_text|>"));
  set(spec.eos, is_hunyuan
                    ? find_last(spec, "<|eos|>")
                    : std::max(find_last(spec, "<|endoftext|>"), find_last(spec, "<|eot_id|>")));
  read_tokenizer_config(beside.config(), spec);
}

}  // namespace

TokenizerSpec parse_tiktoken_file(std::string_view name, std::string_view ranks,
                                  const TokenizerSideFiles& files) {
  const SideFiles beside(files);
  const Family& family = family_of(name, beside.tokenizer_class());
  TokenizerSpec spec = in_file(name, [&] { return parse_tiktoken_ranks(ranks, family.pre); });
  const auto num_ranks = static_cast<int32_t>(spec.tokens.size());
  if (family.name == "tokenizer.model") {
    check_is_llama3(family, beside.tokenizer_class(), num_ranks);
  }
  beside.apply(spec);
  const int32_t added = first_added(spec, num_ranks);
  check_is_whole(name, family, num_ranks, added, spec);
  if (add_special_tokens(name, family, num_ranks, added, spec)) set_roles(family, beside, spec);
  doubt_roles(beside.config(), spec);
  return spec;
}

}  // namespace hasten::text
