// SPDX-License-Identifier: Apache-2.0
// The state machine that takes answers apart.
#include "text/tool_calls.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "text/json_scanner.h"

namespace hasten::text {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kBlanks = " \t\r\n";

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// How many bytes at the end of `text` may be the start of `marker`.
size_t partial_suffix(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return size;
  }
  return 0;
}

/// What opens a call in the middle of an answer; empty when nothing does.
std::string_view marker_of(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::hermes:
      return "<tool_call>";
    case ToolCallFormat::mistral:
      return "[TOOL_CALLS]";
    case ToolCallFormat::llama3:
      return "<|python_tag|>";
    case ToolCallFormat::none:
      break;
  }
  return {};
}

/// The string that a JSON string literal stands for; empty if it is none.
std::string unquoted(const std::string& literal) {
  try {
    const json::Value value = json::parse(literal, "name");
    return value.is_string() ? std::string(value.get_string()) : std::string();
  } catch (const Error&) {
    return {};
  }
}

/// Reads {"name": …, "arguments": …} character by character. Other members are skipped.
class CallReader {
 public:
  JsonScanner::Status feed(char c) {
    const bool in_string = scanner_.in_string();
    const size_t depth = scanner_.depth();
    if (depth == 0 && c != '{') return JsonScanner::Status::broken;
    const auto status = scanner_.feed(c);
    if (status == JsonScanner::Status::broken) return status;
    if (depth != 1 || in_string) {
      if (depth > 0) take(c);
    } else if (c == ':') {
      in_value_ = true;
      value_.clear();
    } else if (c == ',' || c == '}') {
      end_value();
    } else {
      take(c);
    }
    return status;
  }

  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }
  bool has_arguments() const { return has_arguments_; }
  /// Text of the arguments that has come since the last call of this.
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 private:
  bool is_arguments() const { return key_ == "\"arguments\"" || key_ == "\"parameters\""; }

  void take(char c) {
    if (!in_value_) {
      if (!is_blank(c) || scanner_.in_string()) key_ += c;
      return;
    }
    if (value_.empty() && is_blank(c)) return;
    // Arguments stream; arguments that are a string of JSON wait until they can be unquoted.
    const bool streams = is_arguments() && (value_.empty() ? c != '"' : value_[0] != '"');
    value_ += c;
    if (!streams) return;
    has_arguments_ = true;
    if (is_blank(c) && !scanner_.in_string()) {
      blanks_ += c;
    } else {
      arguments_ += std::exchange(blanks_, {}) + c;
    }
  }

  void end_value() {
    if (key_ == "\"name\"") name_ = unquoted(trimmed_value());
    if (key_ == "\"id\"") id_ = unquoted(trimmed_value());
    if (is_arguments() && value_.starts_with('"')) {
      arguments_ += unquoted(trimmed_value());
      has_arguments_ = true;
    }
    key_.clear();
    value_.clear();
    blanks_.clear();
    in_value_ = false;
  }

  std::string trimmed_value() const {
    return value_.substr(0, value_.find_last_not_of(kBlanks) + 1);
  }

  JsonScanner scanner_;
  std::string key_;    // with its quotes
  std::string value_;  // of the member being read
  std::string name_;
  std::string id_;
  std::string arguments_;
  std::string blanks_;  // after the last character of the arguments, which may have ended
  bool in_value_ = false;
  bool has_arguments_ = false;
};

class AnswerParser final : public ChatParser {
 public:
  AnswerParser(const AnswerFormat& format, uint64_t id_seed)
      : format_(format),
        marker_(marker_of(format.tool_calls)),
        id_seed_(id_seed),
        mode_(format.starts_in_reasoning ? Mode::reasoning : Mode::start) {}

  std::vector<ChatEvent> push(std::string_view text) override {
    pending_ += text;
    while (step()) {
    }
    flush_arguments();
    return std::exchange(events_, {});
  }

  std::vector<ChatEvent> finish() override {
    ended_ = true;
    while (step()) {
    }
    if (mode_ == Mode::call) {  // cut off
      if (called_) raw_.clear();
      give_up();
    }
    if (mode_ == Mode::reasoning) {
      emit(ChatEvent::Kind::reasoning, pending_);
    } else if (mode_ != Mode::between) {
      emit(ChatEvent::Kind::content, pending_);
    }
    pending_.clear();
    return std::exchange(events_, {});
  }

 private:
  enum class Mode {
    start,      // nothing but blanks so far: reasoning or a call may open the answer
    reasoning,  // inside <think>
    content,
    call,     // inside a call's JSON, or before its brace
    between,  // after a call: another, or its closing marker, may follow
  };

  /// Advances by one decision; false when more text is needed.
  bool step() {
    switch (mode_) {
      case Mode::start:
        return start();
      case Mode::reasoning:
        return reasoning();
      case Mode::content:
        return content();
      case Mode::call:
        return call();
      case Mode::between:
        return between();
    }
    return false;
  }

  void consume(size_t bytes) { pending_.erase(0, bytes); }

  void emit(ChatEvent::Kind kind, std::string_view text) {
    if (text.empty()) return;
    const bool extends =
        !events_.empty() && events_.back().kind == kind && events_.back().index == index_of(kind);
    if (!extends) {
      ChatEvent& event = events_.emplace_back();
      event.kind = kind;
      event.index = index_of(kind);
    }
    events_.back().text += text;
  }
  int32_t index_of(ChatEvent::Kind kind) const {
    return kind == ChatEvent::Kind::tool_arguments ? num_calls_ - 1 : 0;
  }

  /// Whether the text after `skip` bytes could still become `word`.
  bool may_become(size_t skip, std::string_view word) const {
    const std::string_view rest = std::string_view(pending_).substr(skip);
    return !ended_ && rest.size() < word.size() && word.starts_with(rest);
  }

  bool start() {
    const size_t blanks = std::min(pending_.find_first_not_of(kBlanks), pending_.size());
    if (blanks == pending_.size()) return false;
    const std::string_view rest = std::string_view(pending_).substr(blanks);
    if (format_.reasoning && !reasoned_) {
      if (rest.starts_with(kThink)) {
        consume(blanks + kThink.size());
        mode_ = Mode::reasoning;
        return true;
      }
      if (may_become(blanks, kThink)) return false;
    }
    if (format_.tool_calls == ToolCallFormat::llama3 && rest[0] == '{') {
      raw_ = pending_.substr(0, blanks);
      consume(blanks);
      open_call();
      return true;
    }
    if (reasoned_) consume(blanks);  // the blank lines after </think>
    mode_ = Mode::content;
    return true;
  }

  bool reasoning() {
    if (!reasoned_) {
      const size_t blanks = std::min(pending_.find_first_not_of(kBlanks), pending_.size());
      consume(blanks);
      if (pending_.empty()) return false;
      reasoned_ = true;
    }
    const size_t end = pending_.find(kThinkEnd);
    if (end == std::string::npos) {
      const size_t held = ended_ ? 0 : partial_suffix(pending_, kThinkEnd);
      const std::string_view ready(pending_.data(), pending_.size() - held);
      const size_t said = ready.find_last_not_of(kBlanks) + 1;  // blanks may precede </think>
      emit(ChatEvent::Kind::reasoning, ready.substr(0, said));
      consume(said);
      return false;
    }
    const size_t said = std::string_view(pending_).substr(0, end).find_last_not_of(kBlanks) + 1;
    emit(ChatEvent::Kind::reasoning, std::string_view(pending_).substr(0, said));
    consume(end + kThinkEnd.size());
    mode_ = Mode::start;
    return true;
  }

  bool content() {
    if (marker_.empty()) {
      emit(ChatEvent::Kind::content, pending_);
      pending_.clear();
      return false;
    }
    const size_t at = pending_.find(marker_);
    if (at == std::string::npos) {
      const size_t held = ended_ ? 0 : partial_suffix(pending_, marker_);
      const size_t ready = pending_.size() - held;
      emit(ChatEvent::Kind::content, std::string_view(pending_).substr(0, ready));
      consume(ready);
      return false;
    }
    emit(ChatEvent::Kind::content, std::string_view(pending_).substr(0, at));
    consume(at + marker_.size());
    raw_ = marker_;
    in_array_ = false;
    open_call();
    return true;
  }

  void open_call() {
    reader_ = CallReader();
    called_ = false;
    reading_ = false;
    mode_ = Mode::call;
  }

  bool call() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      const char c = pending_[i];
      if (called_) raw_.clear();  // what came before is out already
      raw_ += c;
      if (!reading_) {
        const bool opens_array =
            c == '[' && !in_array_ && format_.tool_calls == ToolCallFormat::mistral;
        in_array_ = in_array_ || opens_array;
        if (opens_array || is_blank(c)) continue;
        reading_ = true;
      }
      const auto status = reader_.feed(c);
      if (status == JsonScanner::Status::more) {
        begin_call_when_known();
        continue;
      }
      consume(i + 1);
      if (status == JsonScanner::Status::done && finish_call()) {
        mode_ = Mode::between;
      } else {
        give_up();
      }
      return true;
    }
    pending_.clear();
    return false;
  }

  void begin_call_when_known() {
    if (!called_ && !reader_.name().empty() && reader_.has_arguments()) begin_call();
  }

  void begin_call() {
    called_ = true;
    ChatEvent& event = events_.emplace_back();
    event.kind = ChatEvent::Kind::tool_call;
    event.index = num_calls_;
    event.id = reader_.id().empty() ? make_id() : reader_.id();
    event.name = reader_.name();
    ++num_calls_;
  }

  /// Nine letters and digits, as the strictest templates want them.
  std::string make_id() const {
    constexpr std::string_view kAlphabet =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t bits = mix64(id_seed_ + static_cast<uint64_t>(num_calls_));
    std::string id;
    for (int i = 0; i < 9; ++i, bits /= kAlphabet.size()) id += kAlphabet[bits % kAlphabet.size()];
    return id;
  }

  void flush_arguments() {
    if (called_) emit(ChatEvent::Kind::tool_arguments, reader_.take_arguments());
  }

  /// The object is complete; false if it is no call.
  bool finish_call() {
    if (reader_.name().empty()) return false;
    const bool needs_arguments = format_.tool_calls == ToolCallFormat::llama3;
    if (!reader_.has_arguments() && needs_arguments) return false;
    if (!called_) begin_call();
    if (!reader_.has_arguments()) emit(ChatEvent::Kind::tool_arguments, "{}");
    flush_arguments();
    called_ = false;
    return true;
  }

  /// What was taken for a call is content: all of it, or from where it broke.
  void give_up() {
    flush_arguments();
    emit(ChatEvent::Kind::content, raw_);
    called_ = false;
    raw_.clear();
    mode_ = Mode::content;
  }

  /// After a call: blanks, separators and closing markers go; a brace opens the next one.
  bool between() {
    raw_.clear();
    const size_t blanks = std::min(pending_.find_first_not_of(kBlanks), pending_.size());
    consume(blanks);
    if (pending_.empty()) return false;
    const char c = pending_[0];
    switch (format_.tool_calls) {
      case ToolCallFormat::hermes: {
        constexpr std::string_view kEnd = "</tool_call>";
        if (may_become(0, kEnd) || may_become(0, marker_)) return false;
        if (pending_.starts_with(kEnd)) {
          consume(kEnd.size());
          return true;
        }
        break;
      }
      case ToolCallFormat::mistral:
        if (c == ',' || c == ']') {
          consume(1);
          if (c == ',') open_call();
          return true;
        }
        break;
      case ToolCallFormat::llama3:
        if (c == ';' || c == ',' || c == '{') {
          if (c == '{') {
            open_call();
          } else {
            consume(1);
          }
          return true;
        }
        break;
      case ToolCallFormat::none:
        break;
    }
    mode_ = Mode::content;
    return true;
  }

  const AnswerFormat format_;
  const std::string_view marker_;
  const uint64_t id_seed_;
  Mode mode_;
  std::string pending_;  // text not yet decided upon
  std::string raw_;      // text of the call so far, in case that it is none
  CallReader reader_;
  std::vector<ChatEvent> events_;
  int32_t num_calls_ = 0;
  bool called_ = false;    // the call being read has been announced
  bool reading_ = false;   // inside its braces
  bool in_array_ = false;  // of mistral's calls
  bool reasoned_ = false;
  bool ended_ = false;
};

}  // namespace

AnswerFormat detect_answer_format(std::string_view source) {
  AnswerFormat format{.tool_calls = ToolCallFormat::none, .reasoning = has(source, kThink)};
  // Templates that teach <function=name> inside <tool_call> use another language there.
  if (has(source, "<tool_call>") && !has(source, "<function=") && !has(source, "<arg_key>")) {
    format.tool_calls = ToolCallFormat::hermes;
  } else if (has(source, "[TOOL_CALLS]")) {
    format.tool_calls = ToolCallFormat::mistral;
  } else if (has(source, "<|python_tag|>") ||
             (has(source, "<|start_header_id|>") && has(source, "\"parameters\""))) {
    format.tool_calls = ToolCallFormat::llama3;
  }
  return format;
}

bool ends_in_reasoning(std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kBlanks);
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(kThink);
}

std::unique_ptr<ChatParser> make_answer_parser(const AnswerFormat& format, uint64_t id_seed) {
  return std::make_unique<AnswerParser>(format, id_seed);
}

}  // namespace hasten::text
