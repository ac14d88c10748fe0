// SPDX-License-Identifier: Apache-2.0
// gpt-oss's answers: messages with a head that names their channel, and a recipient if they call.
//   <|channel|>analysis<|message|>…<|end|>
//   <|start|>assistant<|channel|>commentary to=functions.name
//   <|constrain|>json<|message|>{…}<|call|>
//   <|start|>assistant<|channel|>final<|message|>…<|return|>
#include <algorithm>
#include <array>
#include <utility>

#include "text/blanks.h"
#include "text/tool_call_syntax.h"

namespace hasten::text {
namespace {

constexpr std::string_view kMessage = "<|message|>";
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                                   "<|channel|>"};
constexpr std::array<std::string_view, 7> kMarks = {"<|message|>",  "<|end|>",   "<|call|>",
                                                    "<|return|>",   "<|start|>", "<|channel|>",
                                                    "<|constrain|>"};
// What a message begins with; other text is content as it stands. Without a mark, only the first
// can: its <|start|> stands in the prompt.
constexpr std::array<std::string_view, 4> kBegins = {"<|channel|>", "<|start|>", "<|message|>",
                                                     " to="};
constexpr std::string_view kWordEnd = " \t\r\n<";
// Longer than any head: what goes on without a message is content.
constexpr size_t kMaxHead = 1024;

class HarmonyParser final : public ChatParser {
 public:
  HarmonyParser(const AnswerFormat& format, uint64_t id_seed)
      : reads_calls_(format.reads_calls), finder_(format.control_tokens), id_seed_(id_seed) {}

  std::vector<ChatEvent> push(std::string_view text,
                              const std::vector<SpecialToken>& special) override {
    append_answer(text, special, kMarks, pending_);
    while (step()) {
    }
    return std::exchange(events_, {});
  }

  std::vector<ChatEvent> finish() override {
    ended_ = true;
    while (step()) {
    }
    if (mode_ == Mode::body) close();
    if (mode_ == Mode::head) say_text_of(pending_);
    if (mode_ == Mode::start) {
      kind_ = ChatEvent::Kind::content;
      emit(pending_.visible());
    }
    pending_.clear();
    return std::exchange(events_, {});
  }

 private:
  enum class Mode {
    start,  // of a message: a head, or plain text
    head,   // before <|message|>
    body,
  };

  bool step() {
    switch (mode_) {
      case Mode::start:
        return start();
      case Mode::head:
        return head();
      case Mode::body:
        return body();
    }
    return false;
  }

  bool start() {
    // Blanks between messages are no text.
    const size_t blanks = is_first_ ? 0 : num_blanks(pending().substr(0, kMaxHead));
    if (blanks == pending_.size()) return false;
    bool begins = false, may = false;
    for (const std::string_view begin : kBegins) {
      if (begin[0] != '<' && !is_first_) continue;
      begins = begins || finder_.is_at(pending_, blanks, begin);
      may = may || (!ended_ && finder_.may_become(pending_, blanks, begin));
    }
    if (!begins && may) return false;
    is_first_ = false;
    if (begins) {
      pending_.take_front(blanks);
      mode_ = Mode::head;
    } else {
      kind_ = ChatEvent::Kind::content;
      mode_ = Mode::body;
    }
    return true;
  }

  bool head() {
    constexpr size_t kLongest = kMaxHead + kMessage.size();
    const size_t end = finder_.find(pending_, kMessage, 0, kLongest);
    if (end == std::string_view::npos) {
      if (pending_.size() < kLongest) return false;
      kind_ = ChatEvent::Kind::content;
      mode_ = Mode::body;
      for (const std::string_view mark : {kEnds[3], kEnds[4]}) {  // it opens nothing after all
        if (finder_.is_at(pending_, 0, mark)) emit_front(mark.size());
      }
      return true;
    }
    MarkedText head = pending_.take_front(end);
    pending_.take_front(kMessage.size());
    // What stands before a later start was another head, which was cut off.
    const size_t start = last_of(head, "<|start|>");
    if (start != std::string_view::npos) say_text_of(head.take_front(start));
    constexpr std::string_view kPrefix = "functions.";
    std::string_view recipient = word_after(head, " to=");
    if (recipient.starts_with(kPrefix)) recipient.remove_prefix(kPrefix.size());
    if (reads_calls_ && is_function_name(recipient) && recipient != "assistant" &&
        recipient != "user") {
      begin_call(recipient);
    } else {
      kind_ = word_after(head, "<|channel|>") == "analysis" ? ChatEvent::Kind::reasoning
                                                            : ChatEvent::Kind::content;
    }
    mode_ = Mode::body;
    return true;
  }

  /// Of a head that was cut off, its own words go; what else the model has said there is content.
  void say_text_of(MarkedText head) {
    bool behind_mark = false;
    while (!head.empty()) {
      head.take_front(num_blanks(head.text()));
      const auto is_here = [&](std::string_view mark) { return finder_.is_at(head, 0, mark); };
      const auto mark = std::find_if(kMarks.begin(), kMarks.end(), is_here);
      if (mark != kMarks.end()) {
        head.take_front(mark->size());
        behind_mark = true;
        continue;
      }
      if (!behind_mark && !head.text().starts_with("to=")) break;
      head.take_front(std::min(head.text().find_first_of(kWordEnd), head.size()));
      behind_mark = false;
    }
    const auto may_begin = [&](std::string_view mark) { return finder_.may_become(head, 0, mark); };
    if (head.empty() || std::any_of(kMarks.begin(), kMarks.end(), may_begin)) return;
    kind_ = ChatEvent::Kind::content;
    emit(head.visible());
  }

  /// The last place of `mark`, or npos.
  size_t last_of(const MarkedText& head, std::string_view mark) const {
    size_t last = std::string_view::npos;
    for (size_t at = finder_.find(head, mark); at != std::string_view::npos;
         at = finder_.find(head, mark, at + 1))
      last = at;
    return last;
  }

  /// The word behind the last `mark`.
  std::string_view word_after(const MarkedText& head, std::string_view mark) const {
    const size_t last = last_of(head, mark);
    if (last == std::string_view::npos) return {};
    const std::string_view text = std::string_view(head.text()).substr(last + mark.size());
    return text.substr(0, text.find_first_of(kWordEnd));
  }

  void begin_call(std::string_view recipient) {
    kind_ = ChatEvent::Kind::tool_arguments;
    has_arguments_ = false;
    ChatEvent& event = events_.emplace_back();
    event.kind = ChatEvent::Kind::tool_call;
    event.index = num_calls_;
    event.id = make_call_id(id_seed_, num_calls_);
    event.name = recipient;
    ++num_calls_;
  }

  bool body() {
    std::string_view mark;
    size_t end = pending().find('<');
    for (; end != std::string_view::npos; end = pending().find('<', end + 1)) {
      mark = end_at(end);
      if (!mark.empty()) break;
    }
    if (end == std::string_view::npos) {
      size_t held = 0;
      for (const std::string_view candidate : kEnds)
        held = std::max(held, ended_ ? 0 : finder_.partial_suffix(pending_, candidate));
      emit_front(pending_.size() - held);
      return false;
    }
    emit_front(end);
    close();
    const bool begins_head = mark == "<|start|>" || mark == "<|channel|>";
    if (!begins_head) pending_.take_front(mark.size());
    mode_ = Mode::start;
    return true;
  }

  /// The mark at a place that ends a body, or nothing.
  std::string_view end_at(size_t place) const {
    for (const std::string_view mark : kEnds)
      if (finder_.is_at(pending_, place, mark)) return mark;
    return {};
  }

  /// A message has ended.
  void close() {
    if (kind_ == ChatEvent::Kind::tool_arguments && !has_arguments_) emit("{}");
  }

  std::string_view pending() const { return pending_.text(); }
  void emit_front(size_t bytes) { emit(pending_.take_front(bytes).visible()); }

  void emit(std::string_view text) {
    if (kind_ == ChatEvent::Kind::tool_arguments && !has_arguments_) {
      text.remove_prefix(num_blanks(text));
      has_arguments_ = !text.empty();
    }
    if (text.empty()) return;
    ChatEvent& event = events_.emplace_back();
    event.kind = kind_;
    event.index = kind_ == ChatEvent::Kind::tool_arguments ? num_calls_ - 1 : 0;
    event.text = text;
  }

  const bool reads_calls_;
  const MarkFinder finder_;
  const uint64_t id_seed_;
  Mode mode_ = Mode::start;
  ChatEvent::Kind kind_ = ChatEvent::Kind::content;  // of the message's body
  MarkedText pending_;                               // not yet decided upon
  std::vector<ChatEvent> events_;
  int32_t num_calls_ = 0;
  bool has_arguments_ = false;  // of the call being read
  bool is_first_ = true;        // of the messages: no byte of it is decided upon
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ChatParser> make_harmony_parser(const AnswerFormat& format, uint64_t id_seed) {
  return std::make_unique<HarmonyParser>(format, id_seed);
}

std::span<const std::string_view> harmony_marks() { return kMarks; }

}  // namespace hasten::text
