// SPDX-License-Identifier: Apache-2.0
// Leftmost-longest matching of added tokens, with the rules of tokenizer.json.
#include "text/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "text/text_normalizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

using Names = std::vector<PrefixMatcher::Name>;

// The user-defined tokens that are matched in normalized text. Control tokens never are: where they
// count is told in bytes of the text as it is written.
std::unordered_set<int32_t> normalized_ids(const TokenizerSpec& spec,
                                           const Vocabulary& vocabulary) {
  std::unordered_set<int32_t> ids;
  for (const AddedTokenRule& rule : spec.added_token_rules) {
    const bool is_token = rule.id >= 0 && rule.id < vocabulary.size();
    if (rule.normalized && is_token && vocabulary.type(rule.id) == TokenType::user_defined) {
      ids.insert(rule.id);
    }
  }
  return ids;
}

// `spellings` keeps the names that are not the vocabulary's.
Names matched_as_written(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                         std::deque<std::string>& spellings) {
  // SentencePiece matches its user-defined pieces after it has normalised the text; a
  // tokenizer.json, which lists merges or steps, before, and so what a model does not know.
  const bool sentencepiece = spec.kind == TokenizerKind::spm || spec.kind == TokenizerKind::unigram;
  const bool all = !sentencepiece || !spec.merges.empty() || spec.pre_steps.has_value();
  const std::unordered_set<int32_t> normalized = normalized_ids(spec, vocabulary);
  const std::unordered_set<int32_t> never(spec.never_found.begin(), spec.never_found.end());
  Names names;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    if (type == TokenType::user_defined && never.contains(id)) continue;
    const bool is_piece = type == TokenType::unknown && spec.lists_added_tokens;
    if (type == TokenType::control || (type == TokenType::unknown && !is_piece) ||
        (type == TokenType::user_defined && !normalized.contains(id) &&
         (all || !vocabulary.is_ordinary(id)))) {
      names.push_back({vocabulary.bytes(id), id});
      // The vocabulary has spaces for U+2581, which before normalization is no space yet.
      const std::string& written = spec.tokens[static_cast<size_t>(id)];
      if (sentencepiece && all && written != names.back().text) {
        names.back().text = spellings.emplace_back(written);
      }
    }
  }
  return names;
}

Names matched_normalized(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  const std::unordered_set<int32_t> normalized = normalized_ids(spec, vocabulary);
  Names names;
  for (int32_t id = 0; !normalized.empty() && id < vocabulary.size(); ++id) {
    if (normalized.contains(id)) names.push_back({vocabulary.bytes(id), id});
  }
  return names;
}

Names normalize(const Names& names, const TextNormalizer* normalizer,
                std::deque<std::string>& spellings) {
  if (normalizer == nullptr) return names;
  size_t num_bytes = 0;
  for (const auto& name : names) num_bytes += name.text.size();
  TextNormalizer::Growth growth(num_bytes);
  Names patterns;
  for (const auto& [text, id] : names) {
    patterns.push_back({spellings.emplace_back(normalizer->apply(text, growth)), id});
  }
  return patterns;
}

// \w of Unicode Technical Standard 18: what is alphabetic, marks, digits, connectors, joiners.
bool is_word_char(const Utf8Char& c) {
  const Category category = char_properties(c.code_point).category;
  const bool circled_letter = (c.code_point >= 0x24B6 && c.code_point <= 0x24E9) ||
                              (c.code_point >= 0x1F130 && c.code_point <= 0x1F149) ||
                              (c.code_point >= 0x1F150 && c.code_point <= 0x1F169) ||
                              (c.code_point >= 0x1F170 && c.code_point <= 0x1F189);
  const bool joiner = c.code_point == 0x200C || c.code_point == 0x200D;
  return c.valid &&
         (is_letter(category) || is_mark(category) || category == Category::nd ||
          category == Category::nl || category == Category::pc || circled_letter || joiner);
}

// The character that ends at `end`, which is not 0.
Utf8Char decode_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  const Utf8Char c = decode_utf8(text.substr(begin, end - begin));
  return c.length == end - begin ? c : Utf8Char{.length = 1};
}

bool is_white(const Utf8Char& c) { return c.valid && char_properties(c.code_point).white_space; }

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word_char(decode_before(text, begin))) &&
         (end == text.size() || !is_word_char(decode_utf8(text.substr(end))));
}

}  // namespace

ControlFilter::ControlFilter(bool parse_special, std::span<const TextRange> literal,
                             size_t text_bytes)
    : parse_special_(parse_special), literal_(literal.begin(), literal.end()) {
  for (const TextRange& range : literal_) {
    if (range.begin < 0 || range.begin > range.end || static_cast<size_t>(range.end) > text_bytes) {
      fail(ErrorCode::invalid_argument, "literal range [{}, {}) is outside a text of {} bytes",
           range.begin, range.end, text_bytes);
    }
  }
  std::erase_if(literal_, [](const TextRange& range) { return range.begin == range.end; });
  std::sort(literal_.begin(), literal_.end(),
            [](const TextRange& a, const TextRange& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const TextRange& range : literal_) {
    if (kept > 0 && range.begin <= literal_[kept - 1].end) {
      literal_[kept - 1].end = std::max(literal_[kept - 1].end, range.end);
    } else {
      literal_[kept++] = range;
    }
  }
  literal_.resize(kept);
}

bool ControlFilter::allows(size_t begin, size_t end) const {
  if (!parse_special_) return false;
  const auto after = std::partition_point(
      literal_.begin(), literal_.end(),
      [&](const TextRange& range) { return range.end <= static_cast<int64_t>(begin); });
  return after == literal_.end() || after->begin >= static_cast<int64_t>(end);
}

AddedTokens::AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      names_(matched_as_written(spec, vocabulary, spellings_)),
      patterns_(names_) {
  take_rules(spec);
}

AddedTokens::AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                         const TextNormalizer* normalizer)
    : AddedTokens(spec, vocabulary, matched_normalized(spec, vocabulary), normalizer) {}

AddedTokens::AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                         const std::vector<PrefixMatcher::Name>& names,
                         const TextNormalizer* normalizer)
    : vocabulary_(vocabulary), names_(names), patterns_(normalize(names, normalizer, spellings_)) {
  take_rules(spec);
}

void AddedTokens::take_rules(const TokenizerSpec& spec) {
  for (const AddedTokenRule& rule : spec.added_token_rules) {
    if (rule.id < 0 || rule.id >= vocabulary_.size()) {
      fail(ErrorCode::invalid_data, "added token {} is outside the vocabulary of {} tokens",
           rule.id, vocabulary_.size());
    }
    if (rule.lstrip || rule.rstrip || rule.single_word) rules_[rule.id] = rule;
  }
}

std::optional<AddedTokens::Match> AddedTokens::Search::next(size_t from) {
  for (size_t at = names_.find_beginning(from); at < text_.size();
       at = names_.find_beginning(at + 1)) {
    const auto accept = [&](const PrefixMatcher::Match& match) {
      return tokens_.vocabulary_.type(match.id) == TokenType::user_defined ||
             filter_.allows(at, at + match.length);
    };
    const PrefixMatcher::Match found = names_.longest(at, accept);
    if (found.length == 0) continue;

    Match match{.begin = at, .end = at + found.length, .id = found.id};
    const auto rule = tokens_.rules_.find(found.id);
    if (rule == tokens_.rules_.end()) return match;
    if (rule->second.single_word && !stands_alone(text_, match.begin, match.end)) {
      at = match.end - 1;  // neither is anything that begins inside it
      continue;
    }
    if (rule->second.lstrip) {
      while (match.begin > from) {
        const Utf8Char before = decode_before(text_, match.begin);
        if (!is_white(before)) break;
        match.begin -= before.length;
      }
    }
    if (rule->second.rstrip) {
      while (match.end < text_.size()) {
        const Utf8Char after = decode_utf8(text_.substr(match.end));
        if (!is_white(after)) break;
        match.end += after.length;
      }
    }
    return match;
  }
  return std::nullopt;
}

std::optional<int32_t> AddedTokens::find(std::string_view name) const {
  const int32_t id = names_.find(name);
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace hasten::text
