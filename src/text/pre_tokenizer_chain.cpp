// SPDX-License-Identifier: Apache-2.0
// Applies one step after the other to what the one before left.
#include "text/pre_tokenizer_chain.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/printable.h"
#include "text/literal_matches.h"
#include "text/piece_appender.h"
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

// Words at a time: 128 KiB, which the caches hold.
constexpr size_t kMaxBatch = 8192;

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

}  // namespace

struct PreTokenizerChain::Step {
  using Kind = PreTokenizerStep::Kind;

  PreTokenizerStep spec;
  std::optional<regex::Regex> expression;  // of a split that is not literal

  bool is_split() const { return spec.kind == Kind::split; }

  // Whether `piece` may be cut, or taken away. `candidate`: before it no match begins.
  bool may_split(std::string_view text, const Match& piece, size_t& candidate) const {
    const bool leaves_whole = spec.behavior == SplitBehavior::isolated ||
                              (spec.behavior == SplitBehavior::removed && !spec.invert);
    if (!leaves_whole || !expression) return true;
    if (candidate <= piece.begin) candidate = expression->next_candidate(text, piece.begin);
    return candidate < piece.end;
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

// Cuts pieces by steps that split, each piece by all of them before the next: what it becomes is
// still in the caches. As deep as the steps are many.
class PreTokenizerChain::Descent {
 public:
  // Appends to `words.words`, which goes to `take` whenever it has `max_words`.
  Descent(std::span<const Step> steps, std::span<Work> works, Words& words, size_t max_words,
          const TakeWords& take)
      : steps_(steps), works_(works), words_(words), max_words_(max_words), take_(take) {
    for (Work& work : works_) work.candidate = 0;
  }

  void cut(const Match& piece) { cut(0, piece); }

 private:
  // By the steps from `level` on. The piece is not empty.
  void cut(size_t level, const Match& piece) {
    if (level == steps_.size()) return append(piece);
    const size_t length = piece.end - piece.begin;
    if (length > WholePieces::kMaxBytes) return cut_by_steps(level, piece);
    // A step asks nothing of what stands around a piece.
    WholePieces& whole = works_[level].whole;
    const uint64_t key = WholePieces::key_of(length, words_.text.substr(piece.begin));
    if (whole.has(key)) return append(piece);
    const size_t before = num_words_;
    cut_by_steps(level, piece);
    if (num_words_ == before + 1 && words_.words.back() == piece) whole.add(key);
  }

  void cut_by_steps(size_t level, const Match& piece) {
    while (level < steps_.size() &&
           !steps_[level].may_split(words_.text, piece, works_[level].candidate)) {
      ++level;
    }
    if (level == steps_.size()) return append(piece);
    const PreTokenizerStep& spec = steps_[level].spec;
    const bool isolated = spec.behavior == SplitBehavior::isolated;
    if (steps_[level].expression && (isolated || spec.behavior == SplitBehavior::removed)) {
      return cut_at_matches(level, piece, isolated || spec.invert, isolated || !spec.invert);
    }
    Work& work = works_[level];
    work.matches.clear();
    work.pieces.clear();
    const std::string_view text = text_of(piece);
    if (steps_[level].expression) {
      steps_[level].expression->find_all(text, work.scratch, work.matches);
    } else {
      find_literal(text, spec.pattern, [&](const Match& match) {
        work.matches.push_back(match);
        return true;
      });
    }
    PieceAppender(spec, work.pieces).append(piece.begin, piece.end, work.matches);
    for (const Match& part : work.pieces) cut(level + 1, part);
  }

  // The matches and what lies between them, some at a time: a long text never has all of them.
  void cut_at_matches(size_t level, const Match& piece, bool keeps_matches, bool keeps_others) {
    constexpr size_t kMatchesAtATime = 512;
    Work& work = works_[level];
    const std::string_view text = text_of(piece);
    const auto keep = [&](size_t begin, size_t end) {
      if (begin < end) cut(level + 1, {piece.begin + begin, piece.begin + end});
    };
    size_t at = 0;
    for (regex::Progress progress; !progress.done;) {
      work.matches.clear();
      steps_[level].expression->find_more(text, kMatchesAtATime, work.scratch, progress,
                                          work.matches);
      for (const Match& match : work.matches) {
        if (keeps_others) keep(at, match.begin);
        if (keeps_matches) keep(match.begin, match.end);
        at = match.end;
      }
    }
    if (keeps_others) keep(at, text.size());
  }

  std::string_view text_of(const Match& piece) const {
    return words_.text.substr(piece.begin, piece.end - piece.begin);
  }

  void append(const Match& piece) {
    if (words_.words.size() == max_words_) {
      take_(words_);
      words_.words.clear();
    }
    words_.words.push_back(piece);
    ++num_words_;
  }

  std::span<const Step> steps_;
  std::span<Work> works_;  // by step
  Words& words_;
  size_t max_words_;
  const TakeWords& take_;
  size_t num_words_ = 0;  // that were appended
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
    if (step.kind != PreTokenizerStep::Kind::split) continue;
    if (step.literal) {
      check_literal(step.pattern);
    } else {
      steps_.back().expression.emplace(step.pattern, step.dialect);
    }
  }
}
PreTokenizerChain::PreTokenizerChain(PreTokenizerChain&&) noexcept = default;
PreTokenizerChain& PreTokenizerChain::operator=(PreTokenizerChain&&) noexcept = default;
PreTokenizerChain::~PreTokenizerChain() = default;

void PreTokenizerChain::cut(std::string_view text, bool starts_text, Words& words) const {
  cut(text, starts_text, SIZE_MAX, words, {});
}

void PreTokenizerChain::cut_in_batches(std::string_view text, bool starts_text,
                                       const TakeWords& take) const {
  Words words;
  cut(text, starts_text, kMaxBatch, words, take);
  if (!words.words.empty()) take(words);
}

void PreTokenizerChain::cut(std::string_view text, bool starts_text, size_t max_words, Words& words,
                            const TakeWords& take) const {
  words.text = text;
  words.words.clear();
  if (text.empty()) return;
  words.words.push_back({0, text.size()});
  words.works.resize(steps_.size());
  for (size_t begin = 0; begin <= steps_.size();) {
    size_t end = begin;
    while (end < steps_.size() && steps_[end].is_split()) ++end;
    if (begin < end) {
      words.whole.swap(words.words);
      words.words.clear();
      const bool last = end == steps_.size() && !in_alphabet_;
      const std::span<const Step> steps(steps_);
      const std::span<Work> works(words.works);
      Descent descent(steps.subspan(begin, end - begin), works.subspan(begin, end - begin), words,
                      last ? max_words : SIZE_MAX, take);
      for (const Match& piece : words.whole) descent.cut(piece);
    }
    if (end < steps_.size()) steps_[end].rewrite(starts_text, words);
    begin = end + 1;
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
