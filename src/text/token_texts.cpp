// SPDX-License-Identifier: Apache-2.0
// Runs the steps over the vocabulary, each token as if others stood before and behind it.
#include "text/token_texts.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/error.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

using DecoderKind = DecoderStep::Kind;

// Every `from` by `to`, in one pass.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  if (from.empty()) return std::string(text);
  for (size_t at; (at = text.find(from)) != std::string_view::npos;) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

// The rules of the tools that BERT came with.
std::string close_up(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

std::string strip(std::string_view text, const DecoderStep& step) {
  for (int32_t i = 0; i < step.start && text.starts_with(step.content); ++i) {
    text.remove_prefix(step.content.size());
  }
  for (int32_t i = 0; i < step.stop && text.ends_with(step.content); ++i) {
    text.remove_suffix(step.content.size());
  }
  return std::string(text);
}

std::string apply(const DecoderStep& step, std::string text) {
  switch (step.kind) {
    case DecoderKind::byte_level: {
      std::optional<std::string> bytes = from_gpt2_alphabet(text);
      return bytes ? *std::move(bytes) : text;
    }
    case DecoderKind::metaspace:
      return replace_all(text, step.pattern, " ");
    case DecoderKind::word_piece:
      text = text.starts_with(step.pattern) ? text.substr(step.pattern.size()) : ' ' + text;
      return step.cleanup ? close_up(std::move(text)) : text;
    case DecoderKind::bpe:
      return replace_all(text, step.pattern, " ");
    case DecoderKind::replace:
      return replace_all(text, step.pattern, step.content);
    case DecoderKind::strip:
      return strip(text, step);
    case DecoderKind::ctc:
      if (text == step.content) return {};
      if (step.cleanup) text = close_up(std::move(text));
      return replace_all(text, step.pattern, " ");
    case DecoderKind::byte_fallback:
    case DecoderKind::fuse:
      break;
  }
  return text;
}

// Each token goes through all steps, and what one makes of it is looked at behind the step.
void check_bounds(const DecoderSteps& steps) {
  constexpr size_t kMaxSteps = 64;          // published files have up to 6
  constexpr size_t kMaxContentBytes = 256;  // a character in published files
  if (steps.size() > kMaxSteps) {
    fail(ErrorCode::unsupported, "the tokenizer has {} decoders; the limit is {}", steps.size(),
         kMaxSteps);
  }
  for (const DecoderStep& step : steps) {
    if (step.kind == DecoderKind::replace && step.content.size() > kMaxContentBytes) {
      fail(ErrorCode::unsupported,
           "the tokenizer's decoder replaces by {} bytes in one place; the limit is {}",
           step.content.size(), kMaxContentBytes);
    }
  }
}

// Whether a step behind `fuse` is one that token by token is the same.
bool is_local(const DecoderStep& step) {
  const bool one_byte = step.kind == DecoderKind::replace && step.pattern.size() == 1;
  return step.kind == DecoderKind::fuse || one_byte;
}

}  // namespace

TokenTexts::TokenTexts(const DecoderSteps& steps, const TokenizerSpec& spec,
                       const Vocabulary& vocabulary) {
  check_bounds(steps);
  const auto fuse = std::find_if(steps.begin(), steps.end(), [](const DecoderStep& step) {
    return step.kind == DecoderKind::fuse;
  });
  DecoderSteps local(steps.begin(), fuse);
  for (const DecoderStep& step : std::span(fuse, steps.end())) {
    const bool strips_spaces = step.kind == DecoderKind::strip && step.content == " ";
    if (strips_spaces && step.start <= 1 && step.stop <= 1) {
      strips_first_space_ = strips_first_space_ || step.start == 1;
      strips_last_space_ = strips_last_space_ || step.stop == 1;
    } else if (is_local(step)) {
      local.push_back(step);
    } else {
      fail(ErrorCode::unsupported,
           "the tokenizer's decoder does to whole texts what this hasten does to tokens only");
    }
  }
  for (const DecoderStep& step : local) {
    if (step.kind == DecoderKind::metaspace && step.prefixed) strips_first_space_ = true;
    if (step.kind == DecoderKind::word_piece) strips_first_space_ = true;
    if (step.kind == DecoderKind::bpe) strips_last_space_ = true;
    if (step.kind == DecoderKind::ctc) drops_repeats_ = true;
  }
  offsets_.push_back(0);
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const bool by_name = type == TokenType::control || type == TokenType::unknown;
    if (by_name || type == TokenType::byte) {
      bytes_ += vocabulary.bytes(id);
    } else {
      std::string text = spec.tokens[static_cast<size_t>(id)];
      for (const DecoderStep& step : local) {
        text = apply(step, std::move(text));
        if (text.size() > 16 * Vocabulary::kMaxTokenBytes) {
          fail(ErrorCode::invalid_data, "the tokenizer's decoder makes {} bytes of token {}",
               text.size(), id);
        }
      }
      bytes_ += text;
    }
    if (bytes_.size() > std::numeric_limits<uint32_t>::max()) {
      fail(ErrorCode::invalid_data, "the texts of the tokens take more than 4 GiB");
    }
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
}

}  // namespace hasten::text
