// SPDX-License-Identifier: Apache-2.0
// Set algebra over ranges, and the properties that \p knows.
#include "text/regex/code_point_set.h"

#include <algorithm>
#include <string>

#include "text/regex/script_tables.h"
#include "text/unicode.h"

namespace hasten::text::regex {
namespace {

// The code points from `first` up to the next run have these properties.
struct PropertyRun {
  uint32_t first;
  Category category;
  bool white_space;
};

const std::vector<PropertyRun>& property_runs() {
  static const std::vector<PropertyRun> made = [] {
    std::vector<PropertyRun> runs;
    for (uint32_t c = 0; c <= kMaxCodePoint; ++c) {
      const CharProperties properties = char_properties(c);
      if (runs.empty() || runs.back().category != properties.category ||
          runs.back().white_space != properties.white_space) {
        runs.push_back({c, properties.category, properties.white_space});
      }
    }
    return runs;
  }();
  return made;
}

template <class Predicate>
CodePointSet runs_where(Predicate matches) {
  const std::vector<PropertyRun>& runs = property_runs();
  std::vector<CodePointRange> ranges;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!matches(runs[i])) continue;
    const uint32_t last = i + 1 < runs.size() ? runs[i + 1].first - 1 : kMaxCodePoint;
    ranges.push_back({runs[i].first, last});
  }
  return CodePointSet(std::move(ranges));
}

// Without what loose matching ignores (Unicode Standard Annex #44, 5.9.3).
std::string loose(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

struct CategoryName {
  std::string_view short_name;  // as the names in Category, in their order
  std::string_view long_name;
};

// clang-format off
constexpr CategoryName kCategories[] = {
    {"cn", "unassigned"}, {"lu", "uppercaseletter"}, {"ll", "lowercaseletter"},
    {"lt", "titlecaseletter"}, {"lm", "modifierletter"}, {"lo", "otherletter"},
    {"mn", "nonspacingmark"}, {"mc", "spacingmark"}, {"me", "enclosingmark"},
    {"nd", "decimalnumber"}, {"nl", "letternumber"}, {"no", "othernumber"},
    {"pc", "connectorpunctuation"}, {"pd", "dashpunctuation"}, {"ps", "openpunctuation"},
    {"pe", "closepunctuation"}, {"pi", "initialpunctuation"}, {"pf", "finalpunctuation"},
    {"po", "otherpunctuation"}, {"sm", "mathsymbol"}, {"sc", "currencysymbol"},
    {"sk", "modifiersymbol"}, {"so", "othersymbol"}, {"zs", "spaceseparator"},
    {"zl", "lineseparator"}, {"zp", "paragraphseparator"}, {"cc", "control"},
    {"cf", "format"}, {"cs", "surrogate"}, {"co", "privateuse"}};

constexpr CategoryName kGroups[] = {
    {"l", "letter"}, {"m", "mark"}, {"n", "number"}, {"p", "punctuation"},
    {"s", "symbol"}, {"z", "separator"}, {"c", "other"}};
// clang-format on

std::optional<CodePointSet> find_category(std::string_view name) {
  for (size_t i = 0; i < std::size(kCategories); ++i) {
    if (name == kCategories[i].short_name || name == kCategories[i].long_name) {
      return runs_where(
          [&](const PropertyRun& run) { return static_cast<size_t>(run.category) == i; });
    }
  }
  for (const CategoryName& group : kGroups) {
    if (name == group.short_name || name == group.long_name) {
      return runs_where([&](const PropertyRun& run) {
        return kCategories[static_cast<size_t>(run.category)].short_name[0] == group.short_name[0];
      });
    }
  }
  return std::nullopt;
}

std::optional<CodePointSet> find_script(std::string_view name) {
  for (size_t i = 0; i < tables::kNumScripts; ++i) {
    const tables::Script& script = tables::kScripts[i];
    if (loose(script.name) != name) continue;
    return CodePointSet(std::vector<CodePointRange>(tables::kScriptRanges + script.first,
                                                    tables::kScriptRanges + script.last));
  }
  return std::nullopt;
}

}  // namespace

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) : ranges_(std::move(ranges)) {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const CodePointRange& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

bool CodePointSet::contains(uint32_t code_point) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), code_point,
      [](uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges_.begin() && code_point <= std::prev(after)->last;
}

void CodePointSet::add(const CodePointSet& other) {
  std::vector<CodePointRange> all = std::move(ranges_);
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  *this = CodePointSet(std::move(all));
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) out.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) out.ranges_.push_back({next, kMaxCodePoint});
  return out;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet out;
  size_t i = 0;
  size_t j = 0;
  while (i < ranges_.size() && j < other.ranges_.size()) {
    const uint32_t first = std::max(ranges_[i].first, other.ranges_[j].first);
    const uint32_t last = std::min(ranges_[i].last, other.ranges_[j].last);
    if (first <= last) out.ranges_.push_back({first, last});
    (ranges_[i].last < other.ranges_[j].last ? i : j) += 1;
  }
  return out;
}

const CodePointSet& white_space() {
  static const CodePointSet made =
      runs_where([](const PropertyRun& run) { return run.white_space; });
  return made;
}

const CodePointSet& decimal_digits() {
  static const CodePointSet made =
      runs_where([](const PropertyRun& run) { return run.category == Category::nd; });
  return made;
}

const CodePointSet& word_characters() {
  static const CodePointSet made = [] {
    CodePointSet set = runs_where([](const PropertyRun& run) {
      return is_letter(run.category) || is_mark(run.category) || run.category == Category::nd ||
             run.category == Category::nl || run.category == Category::pc;
    });
    // The symbols that are Alphabetic: letters in circles and squares.
    set.add(CodePointSet(
        {{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}}));
    return set;
  }();
  return made;
}

std::optional<CodePointSet> find_property(std::string_view name) {
  std::string wanted = loose(name);
  const size_t equals = wanted.find('=');
  if (equals != std::string::npos) {
    const std::string property = wanted.substr(0, equals);
    wanted.erase(0, equals + 1);
    if (property == "script" || property == "sc") return find_script(wanted);
    if (property == "generalcategory" || property == "gc") return find_category(wanted);
    return std::nullopt;
  }
  if (wanted == "any") return CodePointSet({{0, kMaxCodePoint}});
  if (std::optional<CodePointSet> category = find_category(wanted)) return category;
  return find_script(wanted);
}

}  // namespace hasten::text::regex
