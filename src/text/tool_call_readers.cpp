// SPDX-License-Identifier: Apache-2.0
// The forms of calls: JSON, a name as its key or before it, tags, Gemma's.
#include "text/tool_call_readers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/blanks.h"
#include "text/tool_values.h"

namespace hasten::text {

bool is_function_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/' || c == ':' || c == '$';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed);
}

namespace {

using Status = JsonScanner::Status;

/// The object that arguments stand for which are a string of JSON; none for null and a string of
/// blanks. Nothing where they are something else.
std::optional<std::string> object_of(const std::string& value) {
  if (value == "null") return "{}";
  const std::string text = unquoted(value);
  const std::string_view said = trimmed(text);
  if (value[0] == '"' && said.empty()) return "{}";
  if (!said.starts_with('{') || !is_other_json(said)) return std::nullopt;
  return std::string(said);
}

class JsonCallReader final : public CallReader {
 public:
  bool in_arguments() const override { return in_value_ && streams(); }

  Status feed(char c, MarkedText::Source /*source*/) override {
    const bool in_string = scanner_.in_string();
    const size_t depth = scanner_.depth();
    if (depth == 0 && c != '{') return Status::broken;
    const auto status = scanner_.feed(c);
    if (status == Status::broken) return status;
    if (depth != 1 || in_string) {
      if (depth > 0) take(c);
    } else if (c == ':') {
      if (is_arguments() && has_arguments_) return Status::broken;  // a second time
      in_value_ = true;
      value_.clear();
    } else if (c == ',' || c == '}') {
      if (!end_value()) return Status::broken;
    } else {
      take(c);
    }
    return status;
  }

 private:
  /// Whether the value being read, if it has begun, is handed out as it comes: arguments that are a
  /// string of JSON wait until they can be unquoted.
  bool streams() const { return is_arguments() && value_.starts_with('{'); }
  bool is_arguments() const { return key_ == "\"arguments\"" || key_ == "\"parameters\""; }

  void take(char c) {
    if (!in_value_) {
      if (!is_blank(c) || scanner_.in_string()) key_ += c;
      return;
    }
    if (value_.empty() && is_blank(c)) return;
    value_ += c;
    if (!streams()) return;
    has_arguments_ = true;
    if (is_blank(c) && !scanner_.in_string()) {
      blanks_ += c;
    } else {
      arguments_ += std::exchange(blanks_, {}) + c;
    }
  }

  /// False for arguments that are no object.
  bool end_value() {
    const std::string value(trimmed(value_));
    if (key_ == "\"name\"" || key_ == "\"tool_name\"") {
      name_ = unquoted(value);
      if (!is_function_name(name_)) name_.clear();
    }
    if (key_ == "\"id\"" || key_ == "\"tool_call_id\"") id_ = unquoted(value);
    if (is_arguments() && !streams()) {
      const std::optional<std::string> object = object_of(value);
      if (!object) return false;
      arguments_ += *object;
      has_arguments_ = true;
    }
    key_.clear();
    value_.clear();
    blanks_.clear();
    in_value_ = false;
    return true;
  }

  JsonScanner scanner_;
  std::string key_;     // with its quotes
  std::string value_;   // of the member being read
  std::string blanks_;  // after the last character of the arguments, which may have ended
  bool in_value_ = false;
};

class KeyedCallReader final : public CallReader {
 public:
  bool in_arguments() const override { return has_arguments_ && !is_behind_; }

  Status feed(char c, MarkedText::Source /*source*/) override {
    const size_t depth = scanner_.depth();
    const bool in_string = scanner_.in_string();
    if (depth == 0 && c != '{') return Status::broken;
    const auto status = scanner_.feed(c);
    if (status == Status::broken || depth == 0) return status;
    if (name_.empty()) return head(c, in_string);
    if (status == Status::done) return has_arguments_ ? status : Status::broken;
    if (is_blank(c) && !has_arguments_) return status;
    is_behind_ = ended_;
    if (depth == 1 && (ended_ || c != '{')) return is_blank(c) ? status : Status::broken;
    has_arguments_ = true;
    arguments_ += c;
    ended_ = scanner_.depth() == 1;
    return status;
  }

 private:
  /// The key, its quotes and its colon.
  Status head(char c, bool in_string) {
    if (c == ':' && !in_string) {
      name_ = unquoted(trimmed(head_));
      return is_function_name(name_) ? Status::more : Status::broken;
    }
    head_ += c;
    return head_.size() > kMaxCallHead ? Status::broken : Status::more;
  }

  JsonScanner scanner_;
  std::string head_;
  bool ended_ = false;      // the arguments
  bool is_behind_ = false;  // them, by a character
};

class NamedCallReader final : public CallReader {
 public:
  NamedCallReader(const MarkFinder& finder, std::span<const std::string_view> openers,
                  const HeadSyntax& syntax)
      : finder_(finder), openers_(openers), syntax_(syntax) {}

  size_t num_unused() const override { return num_unused_; }

  Status feed(char c, MarkedText::Source source) override {
    if (!has_arguments_) {
      if (c != '{') {
        head_.append({&c, 1}, source);
        // The call's own mark may have another behind it.
        const size_t opener = finder_.ends_with_one_of(head_, openers_);
        if (opener > 0 && num_blanks(head_.text()) + opener < head_.size()) {
          num_unused_ = opener;
          return Status::broken;
        }
        return head_.size() > kMaxCallHead ? Status::broken : Status::more;
      }
      if (!read_head()) return Status::broken;
      has_arguments_ = true;
    }
    const auto status = scanner_.feed(c);
    if (status != Status::broken) arguments_ += c;
    return status;
  }

 private:
  bool read_head() {
    std::string head;
    while (!head_.empty()) {
      const auto found =
          std::find_if(syntax_.noise.begin(), syntax_.noise.end(),
                       [&](std::string_view noise) { return finder_.is_at(head_, 0, noise); });
      if (found == syntax_.noise.end()) {
        head += head_.take_front(1).text();
      } else {
        head_.take_front(found->size());
        head += ' ';
      }
    }
    std::vector<std::string> words;
    for (std::string_view rest = trimmed(head); !rest.empty(); rest = trimmed(rest)) {
      const size_t end = std::min(rest.find_first_of(kBlanks), rest.size());
      words.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (words.empty() || words.size() > 2) return false;
    name_ = syntax_.name_is_last ? words.back() : words.front();
    if (words.size() == 2 && !syntax_.name_is_last) id_ = words.back();
    if (syntax_.id_holds_name) take_name_of_id();
    return is_function_name(name_);
  }

  void take_name_of_id() {
    constexpr std::string_view kPrefix = "functions.";
    const size_t colon = name_.rfind(':');
    const bool numbered = colon != std::string::npos && colon + 1 < name_.size() &&
                          name_.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    if (numbered) id_ = std::exchange(name_, name_.substr(0, colon));
    if (name_.starts_with(kPrefix)) name_.erase(0, kPrefix.size());
  }

  const MarkFinder& finder_;
  const std::span<const std::string_view> openers_;
  const HeadSyntax& syntax_;
  JsonScanner scanner_;
  MarkedText head_;
  size_t num_unused_ = 1;
};

class TaggedCallReader final : public CallReader {
 public:
  TaggedCallReader(const MarkFinder& finder, std::span<const std::string_view> openers,
                   const TagSyntax& syntax, const ToolSchemas& tools)
      : finder_(finder), openers_(openers), syntax_(syntax), tools_(tools) {}

  size_t num_unused() const override { return num_unused_; }

  Status feed(char c, MarkedText::Source source) override {
    text_.append({&c, 1}, source);
    switch (part_) {
      case Part::name_open:
        if (!ends(syntax_.name_open)) return bounded();
        part_ = Part::name;
        if (syntax_.name_open.empty()) return name();
        take_words();
        text_.clear();
        return Status::more;
      case Part::name:
        return name();
      case Part::between:
        return between();
      case Part::key:
        if (!ends(syntax_.key_close)) return unless_opened();
        key_ = trimmed(without_end(syntax_.key_close));
        begin(syntax_.value_open.empty() ? Part::value : Part::value_open);
        return Status::more;
      case Part::value_open:
        if (!ends(syntax_.value_open)) return unless_opened();
        begin(Part::value);
        return Status::more;
      case Part::value:
        if (ends(syntax_.value_close)) {
          add_argument(without_end(syntax_.value_close));
          begin(Part::between);
        }
        return Status::more;
    }
    return Status::broken;
  }

 private:
  enum class Part { name_open, name, between, key, value_open, value };

  void begin(Part part) {
    part_ = part;
    text_.clear();
  }
  bool ends(std::string_view mark) const { return finder_.ends(text_, mark); }
  Status bounded() const { return text_.size() > kMaxCallHead ? Status::broken : Status::more; }
  /// Bounded, and no place for the mark of another call.
  Status unless_opened() {
    const size_t opener = finder_.ends_with_one_of(text_, openers_);
    if (opener == 0) return bounded();
    num_unused_ = opener;
    return Status::broken;
  }
  std::string_view without_end(std::string_view end) const {
    return text_.text().substr(0, text_.size() - end.size());
  }

  /// The text before the name without the marks that belong there.
  void take_words() {
    MarkedText words = text_.take_front(text_.size() - syntax_.name_open.size());
    const auto begin =
        std::find_if(syntax_.begins.begin(), syntax_.begins.end(),
                     [&](std::string_view mark) { return finder_.is_at(words, 0, mark); });
    if (begin != syntax_.begins.end()) words.take_front(begin->size());
    words.take_front(num_blanks(words.text()));
    MarkedText said = words.take_front(trimmed(words.text()).size());
    if (!syntax_.call_open.empty() && finder_.ends(said, syntax_.call_open)) {
      said = said.take_front(said.size() - syntax_.call_open.size());
    } else {
      said.append(words);  // the blanks behind them
    }
    words_before_ = said.visible();
  }

  Status name() {
    if (!syntax_.name_close.empty()) {
      if (!ends(syntax_.name_close)) return unless_opened();
      return take_name(without_end(syntax_.name_close)) ? Status::more : Status::broken;
    }
    if (ends(syntax_.key_open)) {
      if (!take_name(without_end(syntax_.key_open))) return Status::broken;
      begin(Part::key);
      return Status::more;
    }
    if (!ends(syntax_.call_end)) return unless_opened();
    return take_name(without_end(syntax_.call_end)) ? finish() : Status::broken;
  }

  bool take_name(std::string_view text) {
    name_ = trimmed(text);
    begin(Part::between);
    return is_function_name(name_);
  }

  /// Another key or the end, behind blanks. Anything else may be the next call.
  Status between() {
    if (ends(syntax_.key_open)) {
      begin(Part::key);
      return Status::more;
    }
    if (ends(syntax_.call_end)) return finish();
    const size_t blanks = num_blanks(text_.text());
    const auto may_become = [&](std::string_view mark) {
      return blanks == text_.size() || finder_.may_become(text_, blanks, mark);
    };
    if (may_become(syntax_.key_open) || may_become(syntax_.call_end)) return bounded();
    num_unused_ = text_.size() - blanks;
    return Status::broken;
  }

  Status finish() {
    arguments_ = "{";
    for (const auto& [key, value] : values_) {
      if (arguments_.size() > 1) arguments_ += ", ";
      arguments_ += json::serialize(json::Value(key)) + ": " + value;
    }
    arguments_ += "}";
    has_arguments_ = true;
    return Status::done;
  }

  void add_argument(std::string_view value) {
    constexpr std::string_view kString = "\" string=\"true", kOther = "\" string=\"false";
    const bool is_string = key_.ends_with(kString), is_other = key_.ends_with(kOther);
    if (is_string) key_.resize(key_.size() - kString.size());
    if (is_other) key_.resize(key_.size() - kOther.size());
    if (!is_string) {  // one line break around a value belongs to the tags
      if (value.starts_with('\n')) value.remove_prefix(1);
      if (value.ends_with('\n')) value.remove_suffix(1);
    }
    const auto [place, is_new] = places_.try_emplace(key_, values_.size());
    if (is_new) values_.emplace_back(key_, "");
    std::string& json = values_[place->second].second;
    if (is_string) {
      json = json::serialize(json::Value(value));
    } else if (is_other && is_json_string(trimmed(value))) {
      json = trimmed(value);
    } else {
      json = json_of_text(value, tools_.types_of(name_, key_));
    }
  }

  static bool is_json_string(std::string_view text) {
    try {
      return json::parse(text, "value").is_string();
    } catch (const Error&) {
      return false;
    }
  }

  const MarkFinder& finder_;
  const std::span<const std::string_view> openers_;
  const TagSyntax& syntax_;
  const ToolSchemas& tools_;
  Part part_ = Part::name_open;
  MarkedText text_;  // of the part being read
  std::string key_;
  std::vector<std::pair<std::string, std::string>> values_;  // keys with their JSON
  std::map<std::string, size_t> places_;                     // of keys in values_
  size_t num_unused_ = 1;
};

class GemmaCallReader final : public CallReader {
 public:
  GemmaCallReader(const MarkFinder& finder, std::span<const std::string_view> openers)
      : finder_(finder), openers_(openers) {}

  size_t num_unused() const override { return num_unused_; }

  Status feed(char c, MarkedText::Source source) override {
    text_.append({&c, 1}, source);
    const size_t opener = in_string_ ? 0 : finder_.ends_with_one_of(text_, openers_);
    if (opener > 0) {
      num_unused_ = opener;
      return Status::broken;
    }
    if (depth_ == 0) {
      if (c != '{') return text_.size() > kMaxCallHead ? Status::broken : Status::more;
      constexpr std::string_view kCall = "call:";
      const std::string_view head = trimmed(text_.text().substr(0, text_.size() - 1));
      if (!head.starts_with(kCall)) return Status::broken;
      name_ = trimmed(head.substr(kCall.size()));
      if (!is_function_name(name_)) return Status::broken;
      text_.take_front(text_.size() - 1);
      depth_ = 1;
      return Status::more;
    }
    if (finder_.ends(text_, kGemmaQuote)) {
      in_string_ = !in_string_;
    } else if (!in_string_ && (c == '{' || c == '[')) {
      if (++depth_ > static_cast<int>(JsonScanner::kMaxDepth)) return Status::broken;
    } else if (!in_string_ && (c == '}' || c == ']') && --depth_ == 0) {
      return finish();
    }
    return Status::more;
  }

 private:
  /// Turns the whole into JSON: strings get quotes, and so do bare words that are no literals.
  Status finish() {
    std::string out;
    const std::string_view text = text_.text();
    for (size_t at = 0; at < text.size();) {
      if (finder_.is_at(text_, at, kGemmaQuote)) {
        at += kGemmaQuote.size();
        const size_t end = std::min(finder_.find(text_, kGemmaQuote, at), text.size());
        out += json::serialize(json::Value(text.substr(at, end - at)));
        at = std::min(end + kGemmaQuote.size(), text.size());
        continue;
      }
      const size_t word_end = std::min(text.find_first_of("{}[]:,<", at), text.size());
      if (word_end == at) {
        out += text[at++];
        continue;
      }
      const std::string_view word = trimmed(text.substr(at, word_end - at));
      const bool is_key = word_end < text.size() && text[word_end] == ':';
      if (!word.empty()) {
        out +=
            !is_key && is_other_json(word) ? std::string(word) : json::serialize(json::Value(word));
      }
      at = word_end;
    }
    JsonScanner scanner;
    Status status = Status::more;
    for (const char c : out) status = scanner.feed(c);
    if (status != Status::done) return Status::broken;
    arguments_ = out;
    has_arguments_ = true;
    return Status::done;
  }

  const MarkFinder& finder_;
  const std::span<const std::string_view> openers_;
  MarkedText text_;
  int depth_ = 0;
  bool in_string_ = false;
  size_t num_unused_ = 1;
};

}  // namespace

std::unique_ptr<CallReader> make_json_call_reader() { return std::make_unique<JsonCallReader>(); }

std::unique_ptr<CallReader> make_keyed_call_reader() { return std::make_unique<KeyedCallReader>(); }

std::unique_ptr<CallReader> make_named_call_reader(const MarkFinder& finder,
                                                   std::span<const std::string_view> openers,
                                                   const HeadSyntax& syntax) {
  return std::make_unique<NamedCallReader>(finder, openers, syntax);
}

std::unique_ptr<CallReader> make_tagged_call_reader(const MarkFinder& finder,
                                                    std::span<const std::string_view> openers,
                                                    const TagSyntax& syntax,
                                                    const ToolSchemas& tools) {
  return std::make_unique<TaggedCallReader>(finder, openers, syntax, tools);
}

std::unique_ptr<CallReader> make_gemma_call_reader(const MarkFinder& finder,
                                                   std::span<const std::string_view> openers) {
  return std::make_unique<GemmaCallReader>(finder, openers);
}

}  // namespace hasten::text
