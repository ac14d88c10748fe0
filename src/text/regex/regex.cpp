// SPDX-License-Identifier: Apache-2.0
// Compiles expressions, and searches with the deterministic automaton while that stays linear.
#include "text/regex/regex.h"

#include <array>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "text/regex/dfa.h"
#include "text/regex/linear_search.h"

namespace hasten::text::regex {
namespace {

// A match is known only when what could be preferred to it has failed, perhaps much later. While
// the bytes so read in vain stay below this many times the text, plus a constant, searching goes on
// so; beyond, the general search takes over.
constexpr size_t kMaxRereads = 2;
constexpr size_t kFreeRereads = size_t{1} << 12;

}  // namespace

struct Regex::Compiled {
  Compiled(const Syntax& syntax)
      : alphabet(syntax.sets),
        program(compile(syntax, alphabet)),
        dfa(Dfa::build(program, alphabet)),
        general(program, alphabet) {
    if (!dfa) return;
    for (size_t byte = 0; byte < skips.size(); ++byte) {
      skips[byte] = dfa->step(dfa->start(), alphabet.ascii_symbol(static_cast<uint8_t>(byte))) == 0;
    }
    matches_nothing = Dfa::matches(dfa->step(dfa->start(), alphabet.edge()));
  }

  // From `at` past the characters at which no match begins.
  size_t skip(std::string_view text, size_t at) const {
    while (at < text.size()) {
      const auto byte = static_cast<uint8_t>(text[at]);
      if (byte < skips.size()) {
        if (!skips[byte]) return at;
        ++at;
        continue;
      }
      const Alphabet::Step step = alphabet.step(text, at);
      if (dfa->step(dfa->start(), step.symbol) != 0) return at;
      at += step.length;
    }
    return at;
  }

  // An attempt to match at one position.
  struct Attempt {
    const char* end = nullptr;   // of the match; nullptr: none
    const char* stop = nullptr;  // how far it read
  };

  Attempt attempt(std::string_view text, size_t at) const {
    Attempt result;
    const char* position = text.data() + at;
    const char* const end = text.data() + text.size();
    uint32_t row = dfa->start();
    for (;;) {
      // Most characters leave a match as it is, one longer. Where none of them waits for the
      // look-up of the one before, they pass several times as fast.
      const char* const begin = position;
      while (position < end && static_cast<uint8_t>(*position) < 0x80 &&
             dfa->step(row, alphabet.ascii_symbol(static_cast<uint8_t>(*position))) ==
                 Dfa::longer_match(row)) {
        ++position;
      }
      if (position > begin) result.end = position - 1;
      if (position == end) break;

      const Alphabet::Step step = alphabet.step(text, static_cast<size_t>(position - text.data()));
      const uint32_t entry = dfa->step(row, step.symbol);
      if (Dfa::matches(entry)) result.end = position;
      row = Dfa::row(entry);
      if (row == 0) {
        result.stop = position;
        return result;
      }
      position += step.length;
    }
    if (Dfa::matches(dfa->step(row, alphabet.edge()))) result.end = end;
    result.stop = end;
    return result;
  }

  Alphabet alphabet;
  Program program;
  std::optional<Dfa> dfa;
  LinearSearch general;
  std::array<bool, 128> skips{};
  bool matches_nothing = false;  // an empty text, or the end of one
};

Regex::Regex(std::string_view pattern, Dialect dialect) {
  const Syntax syntax = parse(pattern, dialect);
  try {
    compiled_ = std::make_unique<const Compiled>(syntax);
  } catch (const Error& error) {  // which knows no pattern
    if (error.code() == ErrorCode::internal) throw;
    fail(error.code(), "regular expression: {}: {}", error.what(), printable(pattern, kMaxQuoted));
  }
}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

void Regex::find_all(std::string_view text, std::vector<Match>& matches) const {
  Scratch scratch;
  find_all(text, scratch, matches);
}

void Regex::find_all(std::string_view text, Scratch& scratch, std::vector<Match>& matches) const {
  Progress progress;
  find_more(text, SIZE_MAX, scratch, progress, matches);
}

void Regex::find_more(std::string_view text, size_t max_matches, Scratch& scratch,
                      Progress& progress, std::vector<Match>& matches) const {
  size_t at = progress.at;
  std::optional<size_t> last_end = progress.last_end;
  size_t rereads = progress.rereads;
  progress.done = true;
  if (compiled_->dfa) {
    const size_t max_rereads = kFreeRereads + kMaxRereads * text.size();
    while (at <= text.size() && rereads <= max_rereads) {
      at = compiled_->skip(text, at);
      if (at == text.size() && !compiled_->matches_nothing) return;
      const Compiled::Attempt attempt = compiled_->attempt(text, at);
      const size_t stop = static_cast<size_t>(attempt.stop - text.data());
      const size_t end =
          attempt.end == nullptr ? at : static_cast<size_t>(attempt.end - text.data());
      rereads += stop - end;
      const bool matched = attempt.end != nullptr && (end > at || last_end != end);
      if (matched) matches.push_back({at, end});
      if (attempt.end != nullptr) last_end = end;
      if (end > at) {
        at = end;
      } else {
        at += at < text.size() ? compiled_->alphabet.step(text, at).length : 1;
      }
      if (matched && --max_matches == 0) {
        progress = {.at = at, .last_end = last_end, .rereads = rereads, .done = false};
        return;
      }
    }
    if (at > text.size()) return;
  }
  compiled_->general.find_all(text, at, last_end, scratch, matches);
}

size_t Regex::next_candidate(std::string_view text, size_t at) const {
  if (!compiled_->dfa) return compiled_->general.next_candidate(text, at);
  return compiled_->matches_nothing ? at : compiled_->skip(text, at);
}

Regex::Size Regex::size() const {
  return {.num_states = compiled_->dfa ? compiled_->dfa->num_states() : 0,
          .num_symbols = compiled_->alphabet.num_symbols(),
          .num_instructions = compiled_->program.instructions.size()};
}

}  // namespace hasten::text::regex
