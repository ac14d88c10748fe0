// SPDX-License-Identifier: Apache-2.0
// The state machine that takes answers apart.
#include "text/tool_calls.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "text/blanks.h"
#include "text/marked_text.h"
#include "text/tool_call_syntax.h"

namespace hasten::text {
namespace {

class AnswerParser final : public ChatParser {
 public:
  AnswerParser(const AnswerFormat& format, std::shared_ptr<const ToolSchemas> tools,
               uint64_t id_seed)
      : format_(format),
        tools_(tools ? std::move(tools) : std::make_shared<const ToolSchemas>()),
        syntax_(call_syntax(format.reads_calls ? format.tool_calls : ToolCallFormat::none)),
        reasoning_(reasoning_marks(format.reasoning_format)),
        marks_(format_marks(format)),
        finder_(format.control_tokens),
        id_seed_(id_seed),
        mode_(format.starts_in_reasoning ? Mode::reasoning : Mode::start) {}

  std::vector<ChatEvent> push(std::string_view text,
                              const std::vector<SpecialToken>& special) override {
    append_answer(text, special, marks_, pending_);
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
      emit(ChatEvent::Kind::reasoning, pending_.visible());
    } else if (mode_ != Mode::between) {
      emit(ChatEvent::Kind::content, pending_.visible());
    }
    pending_.clear();
    return std::exchange(events_, {});
  }

 private:
  enum class Mode {
    start,      // nothing but blanks so far: reasoning or a call may open the answer
    reasoning,  // inside its marks
    content,
    call,     // inside a call's JSON, or before its brace
    broken,   // behind what is no call after all: the mark of another may stand here
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
      case Mode::broken:
        return broken();
      case Mode::between:
        return between();
    }
    return false;
  }

  std::string_view pending() const { return pending_.text(); }
  void consume(size_t bytes) { pending_.take_front(bytes); }
  void emit_front(ChatEvent::Kind kind, size_t bytes) {
    emit(kind, pending_.take_front(bytes).visible());
  }

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

  /// Whether `mark` stands behind `skip` bytes.
  bool is_at(size_t skip, std::string_view mark) const {
    return finder_.is_at(pending_, skip, mark);
  }
  /// Whether the text behind `skip` bytes could still become `mark`.
  bool may_become(size_t skip, std::string_view mark) const {
    return !ended_ && finder_.may_become(pending_, skip, mark);
  }

  bool start() {
    const size_t known = std::exchange(num_blanks_, 0);
    const size_t blanks = known + num_blanks(pending().substr(known));
    if (blanks == pending_.size()) {
      num_blanks_ = blanks;
      return false;
    }
    if (format_.reasoning && !reasoned_) {
      if (is_at(blanks, reasoning_.open)) {
        consume(blanks + reasoning_.open.size());
        mode_ = Mode::reasoning;
        return true;
      }
      if (may_become(blanks, reasoning_.open)) return false;
    }
    if (syntax_.opens_with.find(pending()[blanks]) != std::string_view::npos) {
      raw_ = pending_.take_front(blanks);
      in_array_ = false;
      in_list_ = syntax_.is_bare_list;
      open_call();
      return true;
    }
    if (reasoned_) consume(blanks);  // the blank lines after the reasoning
    mode_ = Mode::content;
    return true;
  }

  bool reasoning() {
    if (!reasoned_) {
      consume(num_blanks(pending()));
      if (pending_.empty()) return false;
      reasoned_ = true;
    }
    const size_t known = std::exchange(num_blanks_, 0);
    const size_t end = finder_.find(pending_, reasoning_.close, known);
    const bool is_closed = end != std::string_view::npos;
    const size_t held =
        is_closed || ended_ ? 0 : finder_.partial_suffix(pending_, reasoning_.close);
    const size_t ready = is_closed ? end : pending_.size() - held;
    // Blanks may precede the closing mark.
    const size_t last = pending().substr(known, ready - known).find_last_not_of(kBlanks);
    const size_t said = last == std::string_view::npos ? 0 : known + last + 1;
    emit_front(ChatEvent::Kind::reasoning, said);
    if (!is_closed) {
      num_blanks_ = ready - said;
      return false;
    }
    consume(end - said + reasoning_.close.size());
    mode_ = Mode::start;
    return true;
  }

  bool content() {
    if (syntax_.marker.empty()) {
      emit_front(ChatEvent::Kind::content, pending_.size());
      return false;
    }
    const size_t at = finder_.find(pending_, syntax_.marker);
    if (at == std::string_view::npos) {
      const size_t held = ended_ ? 0 : finder_.partial_suffix(pending_, syntax_.marker);
      emit_front(ChatEvent::Kind::content, pending_.size() - held);
      return false;
    }
    emit_front(ChatEvent::Kind::content, at);
    open_marked_call(syntax_.marker.size());
    return true;
  }

  /// A call behind a mark of `bytes` bytes. A list may stand there without brackets.
  void open_marked_call(size_t bytes) {
    raw_ = pending_.take_front(bytes);
    in_array_ = false;
    in_list_ = syntax_.is_bare_list;
    is_closed_ = has_ended_ = false;
    open_call();
  }

  void open_call() {
    reader_.reset();
    called_ = false;
    mode_ = Mode::call;
  }

  bool call() {
    size_t raw_begin = 0;  // where what raw_ does not hold yet begins
    for (size_t i = 0; i < pending_.size(); ++i) {
      const char c = pending()[i];
      if (called_ && reader_->in_arguments()) {  // what came before is out already
        raw_.clear();
        raw_begin = i;
      }
      if (reader_ == nullptr) {
        const bool opens_array = c == '[' && !in_array_ && syntax_.allows_array;
        in_array_ = in_array_ || opens_array;
        in_list_ = in_list_ || opens_array;
        if (opens_array || is_blank(c)) continue;
        reader_ = make_call_reader(syntax_, *tools_, finder_, c);
      }
      const auto status = reader_->feed(c, pending_.source(i));
      if (status == JsonScanner::Status::more) {
        if (begin_call_when_known()) {
          raw_.clear();
          raw_begin = i + 1;
        }
        continue;
      }
      consume(raw_begin);
      raw_.append(pending_.take_front(i + 1 - raw_begin));
      if (status == JsonScanner::Status::done && finish_call()) {
        mode_ = Mode::between;
      } else {
        give_up(status == JsonScanner::Status::broken ? reader_->num_unused() : 0);
      }
      return true;
    }
    consume(raw_begin);
    raw_.append(pending_.take_front(pending_.size()));
    return false;
  }

  bool begin_call_when_known() {
    if (called_ || reader_->name().empty() || !reader_->has_arguments()) return false;
    begin_call();
    return true;
  }

  void begin_call() {
    called_ = true;
    emit(ChatEvent::Kind::content, reader_->words_before());
    ChatEvent& event = events_.emplace_back();
    event.kind = ChatEvent::Kind::tool_call;
    event.index = num_calls_;
    // Results are matched with their calls by id: one that a call has already serves no other.
    event.id = reader_->id();
    for (int32_t i = num_calls_; event.id.empty() || !ids_.insert(event.id).second; ++i)
      event.id = make_call_id(id_seed_, i);
    event.name = reader_->name();
    ++num_calls_;
  }

  void flush_arguments() {
    if (called_ && reader_ != nullptr)
      emit(ChatEvent::Kind::tool_arguments, reader_->take_arguments());
  }

  /// The object is complete; false if it is no call.
  bool finish_call() {
    if (reader_->name().empty()) return false;
    const bool needs_arguments = !syntax_.opens_with.empty();  // else any object might be one
    if (!reader_->has_arguments() && needs_arguments) return false;
    if (!called_) begin_call();
    if (!reader_->has_arguments()) emit(ChatEvent::Kind::tool_arguments, "{}");
    flush_arguments();
    called_ = false;
    seen_fillers_ = 0;
    return true;
  }

  /// What was taken for a call is content: all of it, or from where it broke, but for `unused`
  /// bytes at its end, with which another call may begin.
  void give_up(size_t unused = 0) {
    flush_arguments();
    emit(ChatEvent::Kind::content, raw_.take_front(raw_.size() - unused).visible());
    pending_.put_front(raw_);
    called_ = false;
    raw_.clear();
    mode_ = unused > 0 ? Mode::broken : Mode::content;
  }

  bool broken() {
    bool may = false;
    for (const std::string_view opener : syntax_.reopens) {
      if (opener.size() == 1 || !opens(opener)) continue;
      if (is_at(0, opener)) {
        open_marked_call(opener.size());
        return true;
      }
      may = may || may_become(0, opener);
    }
    if (!may) mode_ = Mode::content;
    return !may;
  }

  /// Behind the end of a list of calls a mark opens none but with the one that opens a list.
  bool opens(std::string_view opener) const {
    return !has_ended_ || opener.starts_with(syntax_.marker);
  }

  /// After a call: blanks, the end of its array and each closing marker once go; a brace opens the
  /// next one, and so does a comma within a list: behind its end that is text.
  bool between() {
    raw_.clear();
    consume(num_blanks(pending()));
    if (pending_.empty()) return false;
    if (in_array_ && pending()[0] == ']') {
      in_array_ = in_list_ = false;
      consume(1);
      return true;
    }
    bool may = false;
    for (const std::string_view opener : syntax_.reopens) {
      const bool separates = opener.size() == 1;
      if (separates ? !in_list_ : !opens(opener)) continue;
      if (is_at(0, opener)) {
        if (separates) {
          raw_ = pending_.take_front(opener.size());
          open_call();
        } else {
          open_marked_call(opener.size());
        }
        return true;
      }
      may = may || may_become(0, opener);
    }
    if (may) return false;  // such a mark may begin with a filler
    for (size_t i = 0; i < syntax_.fillers.size(); ++i) {
      const std::string_view filler = syntax_.fillers[i];
      if ((seen_fillers_ >> i & 1) != 0) continue;
      if (is_at(0, filler)) {
        in_array_ = in_list_ = false;
        is_closed_ = true;
        has_ended_ = has_ended_ || i >= syntax_.num_call_ends;
        seen_fillers_ |= uint32_t{1} << i;
        consume(filler.size());
        return true;
      }
      may = may || may_become(0, filler);
    }
    if (may) return false;
    if (!is_closed_ && syntax_.opens_with.find(pending()[0]) != std::string_view::npos) {
      open_call();
      return true;
    }
    mode_ = Mode::content;
    return true;
  }

  const AnswerFormat format_;
  const std::shared_ptr<const ToolSchemas> tools_;
  const CallSyntax& syntax_;
  const ReasoningMarks& reasoning_;
  const std::vector<std::string_view> marks_;  // of calls and reasoning
  const MarkFinder finder_;
  const uint64_t id_seed_;
  Mode mode_;
  MarkedText pending_;                  // not yet decided upon
  size_t num_blanks_ = 0;               // that it is known to begin with
  MarkedText raw_;                      // the call so far, in case that it is none
  std::unique_ptr<CallReader> reader_;  // null: before the call's first character
  std::vector<ChatEvent> events_;
  int32_t num_calls_ = 0;
  std::set<std::string> ids_;  // of calls
  bool called_ = false;        // the call being read has been announced
  bool in_array_ = false;      // of calls
  bool in_list_ = false;       // where a comma parts calls: an array, or a list without brackets
  bool is_closed_ = false;     // an end mark has come: what follows without a mark is no call
  bool has_ended_ = false;     // the end mark of a list of calls has come
  uint32_t seen_fillers_ = 0;  // that stood behind the last call, a bit each
  bool reasoned_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ChatParser> make_answer_parser(const AnswerFormat& format,
                                               std::shared_ptr<const ToolSchemas> tools,
                                               uint64_t id_seed) {
  if (format.tool_calls == ToolCallFormat::harmony) return make_harmony_parser(format, id_seed);
  return std::make_unique<AnswerParser>(format, std::move(tools), id_seed);
}

}  // namespace hasten::text
