// SPDX-License-Identifier: Apache-2.0
// Applies one step after the other to the pieces that the one before left.
#include "text/pre_tokenizer_chain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "text/pre_tokenizer_expressions.h"
#include "text/regex/regex.h"
#include "text/vocabulary.h"

namespace hasten::text {
namespace {

using regex::Match;

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";

PreTokenizerStep split(std::string_view pattern, SplitBehavior behavior, bool invert = false) {
  return {.pattern = std::string(pattern), .behavior = behavior, .invert = invert};
}

struct KnownExpression {
  std::string_view expression;
  WordScanner scanner;
};

// Spellings under which models publish what the scanners do. Where only [\r\n] ends an alternative
// instead of [\r\n]+, \s* has taken the newlines before.
constexpr KnownExpression kKnownExpressions[] = {
    {expressions::kGpt2, WordScanner::gpt2},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     WordScanner::gpt2},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
     WordScanner::gpt2},
    {expressions::kLlama3, WordScanner::llama3},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
     R"(\s*[\r\n]|\s+(?!\S)|\s+)",
     WordScanner::llama3},
    {expressions::kQwen2, WordScanner::qwen2},
    {expressions::kBailing, WordScanner::qwen2},
    {expressions::kO200k, WordScanner::o200k},
    {expressions::kTekken, WordScanner::tekken},
};

std::optional<WordScanner> find_scanner(const PreTokenizerSteps& steps) {
  const auto isolated = [](const PreTokenizerStep& step) {
    return step.kind == PreTokenizerStep::Kind::split && !step.literal &&
           step.dialect == regex::Dialect::ruby &&
           step.behavior == (step.invert ? SplitBehavior::removed : SplitBehavior::isolated);
  };
  if (steps.empty() || steps.size() > 2) return std::nullopt;
  if (!std::all_of(steps.begin(), steps.end(), isolated)) return std::nullopt;
  for (const KnownExpression& known : kKnownExpressions) {
    if (steps.back().pattern != known.expression) continue;
    if (steps.size() == 1) return known.scanner;
    const bool digits_first = steps.front().pattern == kDigit && !steps.front().invert;
    if (digits_first && known.scanner == WordScanner::gpt2) return WordScanner::gpt2_digits;
  }
  return std::nullopt;
}

// Published chains have up to 6 steps of which one writes. Each takes time to compile, and each
// that writes can make the text longer.
constexpr size_t kMaxSteps = 32;
constexpr int64_t kMaxRewrites = 4;
constexpr size_t kMaxReplacementBytes = 4;

void check_bounds(const PreTokenizerSteps& steps) {
  const auto rewrites = std::count_if(steps.begin(), steps.end(), [](const auto& step) {
    return step.kind != PreTokenizerStep::Kind::split;
  });
  if (steps.size() > kMaxSteps || rewrites > kMaxRewrites) {
    fail(ErrorCode::unsupported,
         "a pre-tokenizer of {} steps of which {} change the text; the limits are {} and {}",
         steps.size(), rewrites, kMaxSteps, kMaxRewrites);
  }
  for (const PreTokenizerStep& step : steps) {
    if (step.kind == PreTokenizerStep::Kind::metaspace &&
        step.pattern.size() > kMaxReplacementBytes) {
      fail(ErrorCode::unsupported, "a space symbol of more than one character: {}",
           printable(step.pattern));
    }
  }
}

// All occurrences of `wanted`, as an expression would find them.
void find_literal(std::string_view text, std::string_view wanted, std::vector<Match>& matches) {
  if (wanted.empty()) return;
  for (size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos;) {
    matches.push_back({at, at + wanted.size()});
    at += wanted.size();
  }
}

// Appends the pieces that `behavior` makes of the text [begin, end), cut at `matches`, which are
// relative to `begin`.
class PieceAppender {
 public:
  PieceAppender(const PreTokenizerStep& step, std::vector<Match>& pieces)
      : step_(step), pieces_(pieces) {}

  void append(size_t begin, size_t end, const std::vector<Match>& matches) {
    first_ = pieces_.size();
    previous_matched_ = false;
    size_t at = begin;
    for (const Match& match : matches) {
      if (at != begin + match.begin) add({at, begin + match.begin}, false);
      add({begin + match.begin, begin + match.end}, true);
      at = begin + match.end;
    }
    if (at != end) add({at, end}, false);
    if (step_.behavior == SplitBehavior::merged_with_next) merge_with_next();
    const auto is_empty = [](const Match& piece) { return piece.begin == piece.end; };
    pieces_.erase(std::remove_if(pieces_.begin() + static_cast<std::ptrdiff_t>(first_),
                                 pieces_.end(), is_empty),
                  pieces_.end());
  }

 private:
  void add(Match piece, bool is_match) {
    const bool matched = is_match != step_.invert;
    const bool any = pieces_.size() > first_;
    switch (step_.behavior) {
      case SplitBehavior::removed:
        if (!matched) pieces_.push_back(piece);
        return;
      case SplitBehavior::isolated:
        pieces_.push_back(piece);
        return;
      case SplitBehavior::merged_with_previous:
        if (any && matched && !previous_matched_) {
          pieces_.back().end = piece.end;
        } else {
          pieces_.push_back(piece);
        }
        break;
      case SplitBehavior::contiguous:
        if (any && matched == previous_matched_) {
          pieces_.back().end = piece.end;
        } else {
          pieces_.push_back(piece);
        }
        break;
      case SplitBehavior::merged_with_next:
        pieces_.push_back(piece);
        matched_.push_back(matched ? 1 : 0);
        break;
    }
    previous_matched_ = matched;
  }

  // Backwards: a match joins the piece behind it unless that is a match too.
  void merge_with_next() {
    size_t kept = pieces_.size();
    bool previous = false;
    for (size_t i = pieces_.size(); i-- > first_;) {
      const bool matched = matched_[i - first_] != 0;
      if (matched && !previous && kept < pieces_.size()) {
        pieces_[kept].begin = pieces_[i].begin;
      } else {
        pieces_[--kept] = pieces_[i];
      }
      previous = matched;
    }
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(first_),
                  pieces_.begin() + static_cast<std::ptrdiff_t>(kept));
    matched_.clear();
  }

  const PreTokenizerStep& step_;
  std::vector<Match>& pieces_;
  size_t first_ = 0;  // of the pieces of this text
  bool previous_matched_ = false;
  std::vector<uint8_t> matched_;  // merged_with_next: by piece
};

// Short pieces that a step leaves whole: texts repeat them, and a step asks nothing of what stands
// around a piece.
class WholePieces {
 public:
  static constexpr size_t kMaxBytes = 7;

  /// Of a piece of 1 to kMaxBytes bytes, the front of `text`, which may be read beyond it.
  static uint64_t key_of(size_t length, std::string_view text) {
    uint64_t key = 0;
    std::memcpy(&key, text.data(), text.size() < sizeof key ? length : sizeof key);
    const size_t bits = 8 * length;
    return (key & ((uint64_t{1} << bits) - 1)) | uint64_t{length} << 56;
  }
  bool has(uint64_t key) const { return keys_[slot_of(key)] == key; }
  void add(uint64_t key) { keys_[slot_of(key)] = key; }

 private:
  static constexpr size_t kSlots = 1024;  // 8 KiB
  static size_t slot_of(uint64_t key) { return mix64(key) % kSlots; }

  std::array<uint64_t, kSlots> keys_{};  // 0: none
};
static_assert(std::endian::native == std::endian::little);

}  // namespace

struct PreTokenizerChain::Step {
  using Kind = PreTokenizerStep::Kind;

  PreTokenizerStep spec;
  std::optional<regex::Regex> expression;  // of a split that is not literal

  void split(Words& words, regex::Scratch& scratch) const {
    const bool isolates = spec.behavior == SplitBehavior::isolated;
    size_t candidate = 0;  // before it, no match begins
    if (isolates && expression) {
      candidate = expression->next_candidate(words.text, 0);
      if (candidate == words.text.size()) return;
    }
    words.pieces.clear();
    words.pieces.reserve(words.words.size());
    PieceAppender appender(spec, words.pieces);
    WholePieces whole;
    for (const Match& piece : words.words) {
      if (isolates && expression && candidate <= piece.begin) {
        candidate = expression->next_candidate(words.text, piece.begin);
      }
      if (candidate >= piece.end) {
        words.pieces.push_back(piece);
        continue;
      }
      const std::string_view text = words.text.substr(piece.begin, piece.end - piece.begin);
      const bool is_short = isolates && text.size() <= WholePieces::kMaxBytes;
      const uint64_t key =
          is_short ? WholePieces::key_of(text.size(), words.text.substr(piece.begin)) : 0;
      if (is_short && whole.has(key)) {
        words.pieces.push_back(piece);
        continue;
      }
      words.matches.clear();
      if (expression) {
        expression->find_all(text, scratch, words.matches);
      } else {
        find_literal(text, spec.pattern, words.matches);
      }
      const size_t before = words.pieces.size();
      appender.append(piece.begin, piece.end, words.matches);
      if (is_short && words.pieces.size() == before + 1) whole.add(key);
    }
    words.words.swap(words.pieces);
  }

  // Writes all pieces anew, one after the other.
  void rewrite(bool starts_text, Words& words) const {
    std::string out;
    out.reserve(words.text.size() + words.words.size());
    for (Match& piece : words.words) {
      const std::string_view text = words.text.substr(piece.begin, piece.end - piece.begin);
      const size_t begin = out.size();
      const bool first = starts_text && &piece == words.words.data() && piece.begin == 0;
      switch (spec.kind) {
        case Kind::split:
          HASTEN_CHECK(false);
        case Kind::add_prefix_space:
          if (!text.starts_with(' ')) out.push_back(' ');
          out += text;
          break;
        case Kind::metaspace:
          append_metaspace(text, first, out);
          break;
        case Kind::byte_alphabet:
          out += to_gpt2_alphabet(text);
          break;
      }
      piece = {begin, out.size()};
    }
    words.rewritten = std::move(out);
    words.text = words.rewritten;
  }

  // The bytes of pieces that are written in GPT-2's alphabet.
  static void write_bytes(Words& words) {
    std::string out;
    for (Match& piece : words.words) {
      const std::string_view text = words.text.substr(piece.begin, piece.end - piece.begin);
      const size_t begin = out.size();
      const std::optional<std::string> bytes = from_gpt2_alphabet(text);
      out += bytes ? std::string_view(*bytes) : text;  // a step may have put other characters there
      piece = {begin, out.size()};
    }
    words.rewritten = std::move(out);
    words.text = words.rewritten;
  }

  void append_metaspace(std::string_view text, bool first, std::string& out) const {
    const bool wanted =
        spec.prepend == PrependScheme::always || (spec.prepend == PrependScheme::first && first);
    if (wanted && !text.starts_with(' ') && !text.starts_with(spec.pattern)) out += spec.pattern;
    for (const char c : text) {
      if (c == ' ') {
        out += spec.pattern;
      } else {
        out.push_back(c);
      }
    }
  }
};

PreTokenizerChain::PreTokenizerChain(const PreTokenizerSteps& steps) {
  // The alphabet is written only where a step sees it.
  PreTokenizerSteps needed = steps;
  while (!needed.empty() && needed.back().kind == PreTokenizerStep::Kind::byte_alphabet) {
    needed.pop_back();
  }
  check_bounds(needed);
  scanner_ = find_scanner(needed);
  for (const PreTokenizerStep& step : needed) {
    const bool alphabet = step.kind == PreTokenizerStep::Kind::byte_alphabet;
    if (alphabet && in_alphabet_) continue;
    in_alphabet_ = in_alphabet_ || alphabet;
    steps_.push_back({.spec = step, .expression = std::nullopt});
    if (step.kind == PreTokenizerStep::Kind::split && !step.literal) {
      steps_.back().expression.emplace(step.pattern, step.dialect);
    }
  }
}
PreTokenizerChain::PreTokenizerChain(PreTokenizerChain&&) noexcept = default;
PreTokenizerChain& PreTokenizerChain::operator=(PreTokenizerChain&&) noexcept = default;
PreTokenizerChain::~PreTokenizerChain() = default;

void PreTokenizerChain::cut(std::string_view text, bool starts_text, Words& words) const {
  words.text = text;
  words.words.clear();
  if (text.empty()) return;
  words.words.push_back({0, text.size()});
  words.scratches.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].spec.kind == PreTokenizerStep::Kind::split) {
      steps_[i].split(words, words.scratches[i]);
    } else {
      steps_[i].rewrite(starts_text, words);
    }
  }
  if (in_alphabet_) Step::write_bytes(words);
}

PreTokenizerSteps byte_level_steps(bool add_prefix_space, bool use_regex) {
  PreTokenizerSteps steps;
  if (add_prefix_space) steps.push_back({.kind = PreTokenizerStep::Kind::add_prefix_space});
  if (use_regex) steps.push_back(split(expressions::kGpt2, SplitBehavior::isolated));
  steps.push_back({.kind = PreTokenizerStep::Kind::byte_alphabet});
  return steps;
}

PreTokenizerSteps digits_steps(bool individual_digits) {
  return {split(kDigit, individual_digits ? SplitBehavior::isolated : SplitBehavior::contiguous)};
}

PreTokenizerSteps punctuation_steps(SplitBehavior behavior) {
  return {split(kPunctuation, behavior)};
}

// Here \w is as in Unicode Technical Standard 18: the joiners are part of words.
PreTokenizerSteps whitespace_steps() {
  return {split(R"([\w\u200c\u200d]+|[^\w\s\u200c\u200d]+)", SplitBehavior::removed, true)};
}

PreTokenizerSteps whitespace_split_steps() { return {split(R"(\s)", SplitBehavior::removed)}; }

PreTokenizerSteps bert_steps() {
  return {split(R"(\s)", SplitBehavior::removed), split(kPunctuation, SplitBehavior::isolated)};
}

PreTokenizerSteps fixed_length_steps(int32_t num_characters) {
  // None at all cuts nothing.
  if (num_characters < 1) return {};
  return {split("[\\s\\S]{1," + std::to_string(num_characters) + "}", SplitBehavior::isolated)};
}

PreTokenizerSteps char_delimiter_steps(std::string_view delimiter) {
  PreTokenizerStep step = split(delimiter, SplitBehavior::removed);
  step.literal = true;
  return {step};
}

PreTokenizerSteps metaspace_steps(std::string_view replacement, PrependScheme prepend, bool split) {
  PreTokenizerSteps steps{{.kind = PreTokenizerStep::Kind::metaspace,
                           .pattern = std::string(replacement),
                           .prepend = prepend}};
  if (split) {
    steps.push_back({.pattern = std::string(replacement),
                     .literal = true,
                     .behavior = SplitBehavior::merged_with_next});
  }
  return steps;
}

}  // namespace hasten::text
