// SPDX-License-Identifier: Apache-2.0
// Each normaliser of a tokenizer.json as a function from text to text.
#include "text/text_normalizer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/jinja/case.h"
#include "text/literal_matches.h"
#include "text/nfc.h"
#include "text/precompiled_charsmap.h"
#include "text/regex/linear_search.h"
#include "text/regex/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace hasten::text {
namespace {

using NormalizerKind = NormalizerStep::Kind;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// `text` with each character as change(code_point, out) appends it; malformed bytes stay.
template <class Change>
std::string map_characters(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) {
      change(byte, out);
      ++at;
      continue;
    }
    const Utf8Char next = decode_utf8(text.substr(at));
    if (next.valid) {
      change(next.code_point, out);
    } else {
      out.append(text.substr(at, next.length));
    }
    at += next.length;
  }
  return out;
}

template <class Keep>
std::string filter(std::string_view text, const Keep& keep) {
  return map_characters(text, [&](uint32_t c, std::string& out) {
    if (keep(c)) append_utf8(out, c);
  });
}

std::string normalize_form(std::string_view text, NormalizationForm form, size_t max_bytes) {
  if (is_ascii(text)) return std::string(text);
  if (form == NormalizationForm::nfc && is_nfc_stable(text)) return std::string(text);
  if (form == NormalizationForm::nfkc && is_nfkc_stable(text)) return std::string(text);
  return to_normalization_form(text, form, max_bytes);
}

std::string lowercase(std::string_view text) {
  return map_characters(text, [](uint32_t c, std::string& out) {
    jinja::append_case(out, c, jinja::CaseMapping::lower);
  });
}

std::string strip(std::string_view text, const NormalizerStep& step) {
  const auto is_white = [](const Utf8Char& c) {
    return c.valid && char_properties(c.code_point).white_space;
  };
  size_t begin = 0;
  size_t end = 0;  // of the last character to keep
  bool at_start = step.left;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = decode_utf8(text.substr(at));
    at += next.length;
    if (!is_white(next)) {
      at_start = false;
      end = at;
    }
    if (at_start) begin = at;
  }
  if (!step.right) end = text.size();
  return std::string(text.substr(begin, std::max(begin, end) - begin));
}

// The characters of SentencePiece's nmt rules.
std::string nmt(std::string_view text) {
  const auto is_dropped = [](uint32_t c) {
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
           c == 0x8F || c == 0x9F;
  };
  const auto is_space = [](uint32_t c) {
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
  };
  return map_characters(text, [&](uint32_t c, std::string& out) {
    if (!is_dropped(c)) append_utf8(out, is_space(c) ? ' ' : c);
  });
}

bool is_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// What BERT's cleaning makes of a character; nothing of one that goes.
std::optional<uint32_t> cleaned(uint32_t c) {
  if (c > ' ' && c < 0x7F) return c;
  if (c == '\t' || c == '\n' || c == '\r') return ' ';
  const CharProperties properties = char_properties(c);
  // Not what is unassigned: tomorrow it may be a letter.
  if (c == 0 || c == kReplacementChar || properties.category >= Category::cc) return std::nullopt;
  return properties.white_space ? ' ' : c;
}

std::string bert(std::string_view text, const NormalizerStep& step, size_t max_bytes) {
  std::string out = map_characters(text, [&](uint32_t c, std::string& to) {
    const std::optional<uint32_t> kept = step.clean_text ? cleaned(c) : c;
    if (!kept) return;
    const bool parted = step.handle_chinese_chars && is_ideograph(*kept);
    if (parted) to.push_back(' ');
    append_utf8(to, *kept);
    if (parted) to.push_back(' ');
  });
  if (step.strip_accents) out = normalize_form(out, NormalizationForm::nfd, max_bytes);
  if (!step.strip_accents && !step.lowercase) return out;
  return map_characters(out, [&](uint32_t c, std::string& to) {
    if (step.strip_accents && c >= 0x80 && char_properties(c).category == Category::mn) return;
    if (step.lowercase) {
      jinja::append_case(to, c, jinja::CaseMapping::lower);
    } else {
      append_utf8(to, c);
    }
  });
}

// Whether a character is one with that before it, to a reader (Grapheme_Cluster_Break Extend, ZWJ
// and SpacingMark; the letters and joiners named here are no marks).
bool extends_grapheme(uint32_t c) {
  return is_mark(char_properties(c).category) || c == 0x200C || c == 0x200D || c == 0x0E33 ||
         c == 0x0EB3 || c == 0xFF9E || c == 0xFF9F;
}

// Bytes of the character at the front of `text` as a reader sees it, marks included. Where none can
// be mapped, as between conjoining jamos and in emoji, the rules of UAX 29 are left out.
size_t grapheme_bytes(std::string_view text) {
  const Utf8Char first = decode_utf8(text);
  if (text.starts_with("\r\n")) return 2;
  const Category category = char_properties(first.code_point).category;
  const bool alone = category == Category::cc || category == Category::zl ||
                     category == Category::zp ||
                     (category == Category::cf && !extends_grapheme(first.code_point));
  if (!first.valid || alone) return first.length;
  size_t length = first.length;
  while (length < text.size()) {
    const Utf8Char next = decode_utf8(text.substr(length));
    if (!next.valid || !extends_grapheme(next.code_point)) break;
    length += next.length;
  }
  return length;
}

// As the reader of tokenizer.json that models are used with does it, not as SentencePiece: what a
// reader sees as one character, if it is short, becomes what its shortest beginning is mapped to,
// marks or not; in a longer one each character is on its own.
std::string map_precompiled(std::string_view text, const PrecompiledCharsMap& map,
                            size_t max_bytes) {
  constexpr size_t kLongestMappedWhole = 5;
  std::string out;
  out.reserve(text.size());
  while (!text.empty() && out.size() <= max_bytes) {
    std::string_view grapheme = text.substr(0, grapheme_bytes(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() <= kLongestMappedWhole) {
      const PrecompiledCharsMap::Mapping whole = map.find_shortest(grapheme);
      if (whole.length > 0) {
        out.append(whole.to);
        continue;
      }
    }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, decode_utf8(grapheme).length);
      const PrecompiledCharsMap::Mapping mapping = map.find_shortest(character);
      out.append(mapping.length > 0 ? mapping.to : character);
      grapheme.remove_prefix(character.size());
    }
  }
  return out;
}

}  // namespace

struct TextNormalizer::Step {
  NormalizerStep rule;
  std::optional<regex::Regex> expression = {};
  std::optional<PrecompiledCharsMap> map = {};

  std::string replace(std::string_view text, size_t max_bytes) const {
    constexpr size_t kMatchesAtATime = 512;
    std::string out;
    size_t at = 0;
    const auto take = [&](const regex::Match& match) {
      out.append(text.substr(at, match.begin - at)).append(rule.content);
      at = match.end;
      return out.size() <= max_bytes;
    };
    if (!expression) {
      find_literal(text, rule.pattern, take);
      return out.append(text.substr(at));
    }
    std::vector<regex::Match> matches;
    regex::Scratch scratch;
    bool goes_on = true;
    for (regex::Progress progress; goes_on && !progress.done;) {
      matches.clear();
      expression->find_more(text, kMatchesAtATime, scratch, progress, matches);
      goes_on = std::all_of(matches.begin(), matches.end(), take);
    }
    return out.append(text.substr(at));
  }

  // Where that is more than `max_bytes`, it may lack its end. Steps that do not ask for those make
  // no more than three bytes of one, and a prefix.
  std::string apply(std::string_view text, size_t max_bytes) const {
    switch (rule.kind) {
      case NormalizerKind::nfc:
        return normalize_form(text, NormalizationForm::nfc, max_bytes);
      case NormalizerKind::nfd:
        return normalize_form(text, NormalizationForm::nfd, max_bytes);
      case NormalizerKind::nfkc:
        return normalize_form(text, NormalizationForm::nfkc, max_bytes);
      case NormalizerKind::nfkd:
        return normalize_form(text, NormalizationForm::nfkd, max_bytes);
      case NormalizerKind::lowercase:
        return lowercase(text);
      case NormalizerKind::strip_accents:
        return filter(text, [](uint32_t c) { return !is_mark(char_properties(c).category); });
      case NormalizerKind::strip:
        return strip(text, rule);
      case NormalizerKind::replace:
        return replace(text, max_bytes);
      case NormalizerKind::prepend:
        return text.empty() ? std::string() : rule.content + std::string(text);
      case NormalizerKind::nmt:
        return nmt(text);
      case NormalizerKind::bert:
        return bert(text, rule, max_bytes);
      case NormalizerKind::precompiled:
        return map_precompiled(text, *map, max_bytes);
      case NormalizerKind::byte_level:
        return to_gpt2_alphabet(text);
    }
    return std::string(text);
  }
};

TextNormalizer::TextNormalizer(const NormalizerSteps& steps) {
  constexpr size_t kMaxSteps = 64;  // published files have up to 10
  if (steps.size() > kMaxSteps) {
    fail(ErrorCode::unsupported, "the tokenizer has {} normalizers; the limit is {}", steps.size(),
         kMaxSteps);
  }
  for (const NormalizerStep& rule : steps) {
    Step step{.rule = rule};
    if (rule.kind == NormalizerKind::replace && rule.literal) check_literal(rule.pattern);
    if (rule.kind == NormalizerKind::replace && !rule.literal)
      step.expression.emplace(rule.pattern);
    if (rule.kind == NormalizerKind::precompiled) step.map.emplace(rule.content);
    steps_.push_back(std::move(step));
  }
}

TextNormalizer::TextNormalizer(TextNormalizer&&) noexcept = default;
TextNormalizer& TextNormalizer::operator=(TextNormalizer&&) noexcept = default;
TextNormalizer::~TextNormalizer() = default;

bool TextNormalizer::leaves_alone(std::string_view text) const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.rule.kind == NormalizerKind::nfc; }) &&
         (steps_.empty() || is_nfc_stable(text));
}

TextNormalizer::Growth::Growth(size_t text_bytes) {
  // Short texts may grow by whole prefixes; the number of a byte has 31 bits.
  constexpr size_t kPrefixes = 65536;
  constexpr size_t kMaxLimit = INT32_MAX;
  limit_ = text_bytes > (kMaxLimit - kPrefixes) / kMaxGrowth ? kMaxLimit
                                                             : text_bytes * kMaxGrowth + kPrefixes;
  left_ = limit_;
}

std::string TextNormalizer::apply(std::string_view text, Growth& growth) const {
  std::string out(text);
  size_t longest = 0;
  for (const Step& step : steps_) {
    out = step.apply(out, growth.left_);
    longest = std::max(longest, out.size());
    if (longest > growth.left_) {
      fail(ErrorCode::invalid_argument,
           "the tokenizer's normalizer makes more than {} bytes of a text: at least {} of the {} "
           "bytes of a stretch, with {} left for it",
           growth.limit_, longest, text.size(), growth.left_);
    }
  }
  growth.left_ -= longest;
  return out;
}

}  // namespace hasten::text
