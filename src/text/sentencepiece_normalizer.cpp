// SPDX-License-Identifier: Apache-2.0
// One character, or one mapped sequence, after the other.
#include "text/sentencepiece_normalizer.h"

#include "text/utf8.h"

namespace hasten::text {
namespace {

std::vector<std::string> user_defined_names(const TokenizerSpec& spec) {
  std::vector<std::string> names;
  for (size_t i = 0; i < spec.types.size() && i < spec.tokens.size(); ++i) {
    if (spec.types[i] == static_cast<int32_t>(TokenType::user_defined)) {
      names.push_back(spec.tokens[i]);
    }
  }
  return names;
}

PrefixMatcher matcher_of(const std::vector<std::string>& names) {
  std::vector<PrefixMatcher::Name> list;
  list.reserve(names.size());
  for (const std::string& name : names) list.push_back({.text = name, .id = 0});
  return PrefixMatcher(std::move(list));
}

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const TokenizerSpec& spec)
    : space_prefix_(spec.space_prefix.value_or(SpacePrefix::every)),
      single_space_prefix_(spec.single_space_prefix),
      remove_extra_whitespaces_(spec.remove_extra_whitespaces),
      user_defined_names_(user_defined_names(spec)),
      user_defined_(matcher_of(user_defined_names_)) {
  if (!spec.precompiled_charsmap.empty()) chars_map_.emplace(spec.precompiled_charsmap);
}

SentencePieceNormalizer::Step SentencePieceNormalizer::next(std::string_view text, size_t at,
                                                            PrefixMatcher::Search& names) const {
  const size_t named = names.longest(at).length;
  if (named > 0) return {named, text.substr(at, named)};
  const std::string_view rest = text.substr(at);
  if (chars_map_) {
    const PrecompiledCharsMap::Mapping mapping = chars_map_->find(rest);
    if (mapping.length > 0) return {mapping.length, mapping.to};
  }
  const size_t length = decode_utf8(rest).length;
  return {length, rest.substr(0, length)};
}

std::string SentencePieceNormalizer::apply(const Segment& segment) const {
  const std::string_view text = segment.text;
  PrefixMatcher::Search names(user_defined_, text);
  size_t at = 0;
  while (remove_extra_whitespaces_ && at < text.size()) {
    const Step step = next(text, at, names);
    if (step.to != " ") break;
    at += step.length;
  }
  std::string out;
  if (at == text.size()) return out;

  const bool is_mapped = remove_extra_whitespaces_ || chars_map_;
  bool prefix = space_prefix_ == SpacePrefix::every ||
                (space_prefix_ == SpacePrefix::first && segment.starts_text);
  if (prefix && single_space_prefix_) {
    prefix = !replace_space_symbol(next(text, at, names).to).starts_with(' ');
  }
  if (!is_mapped) return (prefix ? " " : "") + replace_space_symbol(text);

  out.reserve(text.size() - at + 1);
  if (prefix) out.push_back(' ');
  bool after_space = remove_extra_whitespaces_;
  while (at < text.size()) {
    const Step step = next(text, at, names);
    std::string_view to = step.to;
    while (after_space && to.starts_with(' ')) to.remove_prefix(1);
    if (!to.empty()) {
      out.append(to);
      after_space = remove_extra_whitespaces_ && to.ends_with(' ');
    }
    at += step.length;
  }
  out = replace_space_symbol(out);
  while (remove_extra_whitespaces_ && out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace hasten::text
