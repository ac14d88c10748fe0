// SPDX-License-Identifier: Apache-2.0
// The table of formats, and how a template's source gives its own away. The forms are those that
// published templates print for earlier turns; those of MiniMax, Granite, Nemotron Nano 2, Command
// R and Seed were not compared with one, and those of LFM2 show none: its documentation does.
#include "text/tool_call_syntax.h"

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "text/blanks.h"

namespace hasten::text {
namespace {

using Words = std::span<const std::string_view>;

template <size_t N>
using List = std::array<std::string_view, N>;

constexpr List<1> kHermesOpen = {"<tool_call>"}, kHermesEnd = {"</tool_call>"};
constexpr List<1> kComma = {","};
constexpr List<2> kMistralOpen = {"[TOOL_CALLS]", ","};
constexpr List<2> kMistralNoise = {"[CALL_ID]", "[ARGS]"};
constexpr List<2> kLlamaOpen = {";", ","};
constexpr List<2> kFunctionNoise = {">", "<function="};
constexpr List<1> kFunctionOpen = {"<function="}, kFunctionEnd = {"</function>"};
constexpr List<1> kDeepseekOpen = {"<｜tool▁call▁begin｜>"};
constexpr List<3> kDeepseekEnd = {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
constexpr List<3> kDeepseekNoise = {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "```json"};
constexpr List<1> kKimiOpen = {"<|tool_call_begin|>"};
constexpr List<2> kKimiEnd = {"<|tool_call_end|>", "<|tool_calls_section_end|>"};
constexpr List<2> kKimiNoise = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"};
constexpr List<1> kGraniteEnd = {"<|/tool_call|>"};
constexpr List<1> kNemotronEnd = {"</TOOLCALL>"};
constexpr List<1> kCohereEnd = {"<|END_ACTION|>"};
constexpr List<1> kCommandREnd = {"```"};
constexpr List<2> kDsmlOpen = {"<｜DSML｜invoke", "<｜DSML｜tool_calls>"};
constexpr List<2> kDsmlEnd = {"</｜DSML｜tool_calls>", "</｜DSML｜function_calls>"};
constexpr List<2> kMinimaxOpen = {"<minimax:tool_call>", "<invoke"};
constexpr List<1> kMinimaxEnd = {"</minimax:tool_call>"};
constexpr List<1> kPythonicEnd = {"<|python_end|>"};
constexpr List<2> kLfm2Open = {"<|tool_call_start|>", ","};
constexpr List<1> kLfm2End = {"<|tool_call_end|>"};
constexpr List<1> kApertusEnd = {"<|tools_suffix|>"};
constexpr List<1> kGigachatOpen = {"<|message_sep|>\n\nfunction call<|role_sep|>"};
constexpr List<1> kGigachatEnd = {"<|message_sep|>"};
constexpr List<1> kGemmaOpen = {"<|tool_call>"}, kGemmaEnd = {"<tool_call|>"};

constexpr TagSyntax kFunctionTags = {"<function=",   ">",          "<parameter=", ">", "",
                                     "</parameter>", "</function>"};
constexpr TagSyntax kGlmTags = {
    "", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"};
constexpr List<3> kDsmlBegins = {"tool_calls>", "function_calls>", "invoke"};
constexpr TagSyntax kDsmlTags = {.name_open = "name=\"",
                                 .name_close = "\">",
                                 .key_open = "<｜DSML｜parameter name=\"",
                                 .key_close = "\">",
                                 .value_open = "",
                                 .value_close = "</｜DSML｜parameter>",
                                 .call_end = "</｜DSML｜invoke>",
                                 .begins = kDsmlBegins,
                                 .call_open = "<｜DSML｜invoke"};
constexpr TagSyntax kMinimaxTags = {.name_open = "name=\"",
                                    .name_close = "\">",
                                    .key_open = "<parameter name=\"",
                                    .key_close = "\">",
                                    .value_open = "",
                                    .value_close = "</parameter>",
                                    .call_end = "</invoke>",
                                    .call_open = "<invoke"};

constexpr CallSyntax kNoCalls = {};
constexpr CallSyntax kHermes = {
    .marker = "<tool_call>", .reopens = kHermesOpen, .fillers = kHermesEnd};
constexpr CallSyntax kLlama3 = {.marker = "<|python_tag|>",
                                .reopens = kLlamaOpen,
                                .fillers = {},
                                .is_bare_list = true,
                                .opens_with = "{"};
constexpr CallSyntax kPythonic = {.marker = "<|python_start|>",
                                  .reopens = kComma,
                                  .fillers = kPythonicEnd,
                                  .allows_array = true,
                                  .is_bare_list = true,
                                  .opens_with = "[{",
                                  .is_pythonic = true};
constexpr CallSyntax kLfm2 = {.marker = "<|tool_call_start|>",
                              .reopens = kLfm2Open,
                              .fillers = kLfm2End,
                              .allows_array = true,
                              .is_bare_list = true,
                              .is_pythonic = true};
constexpr CallSyntax kMistral = {.marker = "[TOOL_CALLS]",
                                 .reopens = kMistralOpen,
                                 .fillers = {},
                                 .allows_array = true,
                                 .head = {.noise = kMistralNoise}};
constexpr CallSyntax kFunction = {.marker = "<function=",
                                  .reopens = kFunctionOpen,
                                  .fillers = kFunctionEnd,
                                  .is_json = false,
                                  .head = {.noise = kFunctionNoise}};
constexpr CallSyntax kDeepseek = {.marker = "<｜tool▁calls▁begin｜>",
                                  .reopens = kDeepseekOpen,
                                  .fillers = kDeepseekEnd,
                                  .num_call_ends = 2,
                                  .is_json = false,
                                  .head = {.noise = kDeepseekNoise, .name_is_last = true}};
constexpr CallSyntax kKimi = {.marker = "<|tool_calls_section_begin|>",
                              .reopens = kKimiOpen,
                              .fillers = kKimiEnd,
                              .num_call_ends = 1,
                              .is_json = false,
                              .head = {.noise = kKimiNoise, .id_holds_name = true}};
constexpr CallSyntax kGranite = {
    .marker = "<|tool_call|>", .reopens = kComma, .fillers = kGraniteEnd, .allows_array = true};
constexpr CallSyntax kNemotron = {
    .marker = "<TOOLCALL>", .reopens = kComma, .fillers = kNemotronEnd, .allows_array = true};
constexpr CallSyntax kCohere = {
    .marker = "<|START_ACTION|>", .reopens = kComma, .fillers = kCohereEnd, .allows_array = true};
constexpr CallSyntax kCommandR = {
    .marker = "Action: ```json", .reopens = kComma, .fillers = kCommandREnd, .allows_array = true};
constexpr CallSyntax kQwenTags = {.marker = "<tool_call>",
                                  .reopens = kHermesOpen,
                                  .fillers = kHermesEnd,
                                  .is_json = false,
                                  .tags = &kFunctionTags};
constexpr CallSyntax kGlm = {.marker = "<tool_call>",
                             .reopens = kHermesOpen,
                             .fillers = {},
                             .is_json = false,
                             .tags = &kGlmTags};
constexpr CallSyntax kDsml = {.marker = "<｜DSML｜",
                              .reopens = kDsmlOpen,
                              .fillers = kDsmlEnd,
                              .is_json = false,
                              .tags = &kDsmlTags};
constexpr CallSyntax kMinimax = {.marker = "<minimax:tool_call>",
                                 .reopens = kMinimaxOpen,
                                 .fillers = kMinimaxEnd,
                                 .is_json = false,
                                 .tags = &kMinimaxTags};
constexpr CallSyntax kGemma = {.marker = "<|tool_call>",
                               .reopens = kGemmaOpen,
                               .fillers = kGemmaEnd,
                               .is_json = false,
                               .is_gemma = true};

constexpr CallSyntax kApertus = {.marker = "<|tools_prefix|>",
                                 .reopens = kComma,
                                 .fillers = kApertusEnd,
                                 .allows_array = true,
                                 .name_is_key = true};
constexpr CallSyntax kGigachat = {
    .marker = kGigachatOpen[0], .reopens = kGigachatOpen, .fillers = kGigachatEnd};

constexpr ReasoningMarks kThink = {"<think>", "</think>"};
constexpr ReasoningMarks kMistralThink = {"[THINK]", "[/THINK]"};
constexpr ReasoningMarks kCohereThink = {"<|START_THINKING|>", "<|END_THINKING|>"};
constexpr ReasoningMarks kGemmaThink = {"<|channel>thought", "<channel|>"};
constexpr ReasoningMarks kSeedThink = {"<seed:think>", "</seed:think>"};
constexpr ReasoningMarks kApertusThink = {"<|inner_prefix|>", "<|inner_suffix|>"};

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// The first row whose word the source contains says the format.
struct Sign {
  std::string_view word;
  ToolCallFormat format;
};
constexpr Sign kSigns[] = {
    {"｜DSML｜", ToolCallFormat::dsml},
    {"<｜tool▁calls▁begin｜>", ToolCallFormat::deepseek},
    {"<|tool_calls_section_begin|>", ToolCallFormat::kimi},
    {"<|tool_call>call:", ToolCallFormat::gemma},
    {"<minimax:tool_call>", ToolCallFormat::minimax},
    {"[TOOL_CALLS]", ToolCallFormat::mistral},
    {"<|START_ACTION|>", ToolCallFormat::cohere},
    {"<TOOLCALL>", ToolCallFormat::nemotron},
    {"<arg_key>", ToolCallFormat::glm},
    {"<|tool_call|>", ToolCallFormat::granite},
    {"Action: ```json", ToolCallFormat::command_r},
    {"Action:```json", ToolCallFormat::command_r},
    {"<|tool_call_start|>", ToolCallFormat::lfm2},
    {"<|tool_list_start|>", ToolCallFormat::lfm2},
    {"List of tools: [", ToolCallFormat::lfm2},  // LFM2.5's template shows no mark
    {"<|tools_prefix|>", ToolCallFormat::apertus},
    {"<|role_sep|>", ToolCallFormat::gigachat},
    {"<|python_start|>", ToolCallFormat::pythonic},
    {"[func_name1(", ToolCallFormat::pythonic},  // how Llama's instructions describe the form
};

}  // namespace

const CallSyntax& call_syntax(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::none:
    case ToolCallFormat::harmony:  // has a parser of its own
      return kNoCalls;
    case ToolCallFormat::hermes:
      return kHermes;
    case ToolCallFormat::llama3:
      return kLlama3;
    case ToolCallFormat::pythonic:
      return kPythonic;
    case ToolCallFormat::lfm2:
      return kLfm2;
    case ToolCallFormat::mistral:
      return kMistral;
    case ToolCallFormat::function:
      return kFunction;
    case ToolCallFormat::deepseek:
      return kDeepseek;
    case ToolCallFormat::kimi:
      return kKimi;
    case ToolCallFormat::granite:
      return kGranite;
    case ToolCallFormat::nemotron:
      return kNemotron;
    case ToolCallFormat::cohere:
      return kCohere;
    case ToolCallFormat::command_r:
      return kCommandR;
    case ToolCallFormat::qwen_tags:
      return kQwenTags;
    case ToolCallFormat::glm:
      return kGlm;
    case ToolCallFormat::dsml:
      return kDsml;
    case ToolCallFormat::minimax:
      return kMinimax;
    case ToolCallFormat::gemma:
      return kGemma;
    case ToolCallFormat::apertus:
      return kApertus;
    case ToolCallFormat::gigachat:
      return kGigachat;
  }
  return kNoCalls;
}

std::unique_ptr<CallReader> make_call_reader(const CallSyntax& syntax, const ToolSchemas& tools,
                                             const MarkFinder& finder, char first) {
  if (syntax.tags != nullptr)
    return make_tagged_call_reader(finder, syntax.reopens, *syntax.tags, tools);
  if (syntax.is_gemma) return make_gemma_call_reader(finder, syntax.reopens);
  if (syntax.is_pythonic && first != '{') return make_pythonic_call_reader(tools);
  // Newer Mistral models write name[ARGS]{…} where older ones write a list of JSON.
  const bool named = !syntax.is_json || (!syntax.head.noise.empty() && first != '{');
  if (named) return make_named_call_reader(finder, syntax.reopens, syntax.head);
  return syntax.name_is_key ? make_keyed_call_reader() : make_json_call_reader();
}

std::vector<std::string_view> format_marks(const AnswerFormat& format) {
  if (format.tool_calls == ToolCallFormat::harmony)
    return {harmony_marks().begin(), harmony_marks().end()};
  std::vector<std::string_view> marks;
  if (format.reasoning) {
    const ReasoningMarks& around = reasoning_marks(format.reasoning_format);
    marks = {around.open, around.close};
  }
  if (!format.reads_calls) return marks;
  const CallSyntax& syntax = call_syntax(format.tool_calls);
  marks.push_back(syntax.marker);
  for (const Words& words : {syntax.reopens, syntax.fillers, syntax.head.noise})
    marks.insert(marks.end(), words.begin(), words.end());
  if (const TagSyntax* tags = syntax.tags) {
    marks.insert(marks.end(), {tags->name_open, tags->name_close, tags->key_open, tags->key_close,
                               tags->value_open, tags->value_close, tags->call_end});
  }
  if (syntax.is_gemma) marks.push_back(kGemmaQuote);
  return marks;
}

void append_answer(std::string_view text, std::span<const SpecialToken> special,
                   std::span<const std::string_view> marks, MarkedText& out) {
  size_t done = 0;
  for (const SpecialToken& token : special) {
    const auto is_part = [&](std::string_view mark) { return has(mark, token.name); };
    if (token.name.empty()) continue;
    if (!token.shown && std::none_of(marks.begin(), marks.end(), is_part)) continue;
    const size_t place =
        std::clamp(static_cast<size_t>(std::max<int64_t>(token.offset, 0)), done, text.size());
    out.append(text.substr(done, place - done), MarkedText::Source::text);
    done = place;
    if (!token.shown) {
      out.append(token.name, MarkedText::Source::hidden_token);
    } else if (text.substr(place).starts_with(token.name)) {
      out.append(token.name, MarkedText::Source::shown_token);
      done += token.name.size();
    }
  }
  out.append(text.substr(done), MarkedText::Source::text);
}

std::vector<std::string> mark_tokens(const AnswerFormat& format, const Tokenizer& tokenizer) {
  const std::vector<std::string_view> marks = format_marks(format);
  std::vector<std::string> names;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!tokenizer.is_special(token)) continue;
    const std::string_view name = tokenizer.token_bytes(token);
    const auto is_part = [&](std::string_view mark) { return has(mark, name); };
    if (!name.empty() && std::any_of(marks.begin(), marks.end(), is_part)) names.emplace_back(name);
  }
  return names;
}

std::string make_call_id(uint64_t seed, int32_t index) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t bits = mix64(seed + static_cast<uint64_t>(index));
  std::string id;
  for (int i = 0; i < 9; ++i, bits /= kAlphabet.size()) id += kAlphabet[bits % kAlphabet.size()];
  return id;
}

const ReasoningMarks& reasoning_marks(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::think:
      return kThink;
    case ReasoningFormat::mistral:
      return kMistralThink;
    case ReasoningFormat::cohere:
      return kCohereThink;
    case ReasoningFormat::gemma:
      return kGemmaThink;
    case ReasoningFormat::seed:
      return kSeedThink;
    case ReasoningFormat::apertus:
      return kApertusThink;
  }
  return kThink;
}

std::string_view tool_call_format_name(ToolCallFormat format) {
  constexpr std::string_view kNames[] = {
      "answers not read", "hermes",   "llama3",   "pythonic",  "lfm2",    "mistral",  "function",
      "qwen_tags",        "glm",      "deepseek", "dsml",      "kimi",    "minimax",  "gemma",
      "granite",          "nemotron", "cohere",   "command_r", "apertus", "gigachat", "harmony"};
  static_assert(std::size(kNames) == static_cast<size_t>(ToolCallFormat::harmony) + 1);
  return kNames[static_cast<size_t>(format)];
}

AnswerFormat detect_answer_format(std::string_view source) {
  AnswerFormat format;
  for (const auto marks :
       {ReasoningFormat::seed, ReasoningFormat::think, ReasoningFormat::mistral,
        ReasoningFormat::cohere, ReasoningFormat::gemma, ReasoningFormat::apertus}) {
    if (!has(source, reasoning_marks(marks).open)) continue;
    format.reasoning = true;
    format.reasoning_format = marks;
    break;
  }
  if (has(source, "<|channel|>") && has(source, "<|message|>") && has(source, "<|start|>")) {
    format.tool_calls = ToolCallFormat::harmony;
    format.reasoning = true;
    return format;
  }
  for (const Sign& sign : kSigns) {
    if (!has(source, sign.word)) continue;
    format.tool_calls = sign.format;
    return format;
  }
  const bool functions = has(source, "<function=");
  if (has(source, "<tool_call>")) {
    format.tool_calls = functions ? ToolCallFormat::qwen_tags : ToolCallFormat::hermes;
  } else if (functions) {
    format.tool_calls = ToolCallFormat::function;
  } else if (has(source, "<|python_tag|>") ||
             (has(source, "<|start_header_id|>") && has(source, "\"parameters\""))) {
    format.tool_calls = ToolCallFormat::llama3;
  }
  return format;
}

bool ends_in_reasoning(std::string_view prompt) {
  prompt = trimmed(prompt);
  for (const auto marks :
       {ReasoningFormat::think, ReasoningFormat::mistral, ReasoningFormat::cohere,
        ReasoningFormat::gemma, ReasoningFormat::seed, ReasoningFormat::apertus}) {
    if (prompt.ends_with(reasoning_marks(marks).open)) return true;
  }
  return false;
}

}  // namespace hasten::text
