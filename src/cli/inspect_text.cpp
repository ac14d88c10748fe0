// SPDX-License-Identifier: Apache-2.0
// Shows tokenizers and chat templates.
#include "cli/inspect_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/words.h"
#include "server/openai_json.h"

namespace hasten::cli {
namespace {

struct Role {
  const char* name;
  int32_t TokenizerInfo::*token;
};
constexpr std::array<Role, 5> kRoles{{{"bos", &TokenizerInfo::bos},
                                      {"eos", &TokenizerInfo::eos},
                                      {"eot", &TokenizerInfo::eot},
                                      {"unk", &TokenizerInfo::unk},
                                      {"pad", &TokenizerInfo::pad}}};

/// The name of a token that a file gives a role, which may lie outside its vocabulary.
std::string token_text(const Tokenizer& tokenizer, int32_t token) {
  return token < tokenizer.vocab_size() ? tokenizer.token_bytes(token) : "not in the vocabulary";
}

/// "<s> before it, </s> behind it"
std::string around(const Tokenizer& tokenizer, const TokenizerInfo& info) {
  std::string text;
  const auto add = [&](const std::vector<int32_t>& tokens, std::string_view where) {
    if (tokens.empty()) return;
    if (!text.empty()) text += ", ";
    for (const int32_t token : tokens) text += escaped_text(token_text(tokenizer, token)) + " ";
    text += where;
  };
  add(info.before, "before it");
  add(info.after, "behind it");
  return text.empty() ? "nothing" : text;
}

}  // namespace

InspectedText::InspectedText(const std::filesystem::path& model, bool is_there)
    : is_there_(is_there) {
  if (is_template_file(model)) {
    template_ = read_template(model);
    is_alone_ = true;
    return;
  }
  try {
    tokenizer_.emplace(model);
    template_ = tokenizer_->chat_template();
    return;
  } catch (const Error& error) {
    error_ = error.what();
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(model, ignored)) return;
  try {
    template_ = read_template(model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) template_error_ = error.what();
  }
}

std::string InspectedText::file() const {
  return std::filesystem::path(tokenizer_->info().file).filename().string();
}

std::string InspectedText::fault() const {
  const auto broken = [](std::string_view what) {
    return fmt::format("{} does not work: the report says why", what);
  };
  if (!tokenizer_ && is_there_) return broken("the tokenizer");
  if (!(template_ ? template_->error : template_error_).empty()) return broken("the chat template");
  return template_ && !template_->tool_error.empty() ? broken("the chat template for tools") : "";
}

void InspectedText::check_is_any() const {
  if (is_there_ || template_) return;
  if (template_error_.empty())
    throw Error(ErrorCode::not_found, error_ + "; there is no chat template either");
  const bool is_same = template_error_ == error_;  // of a file that both are read from
  throw Error(ErrorCode::invalid_data, is_same ? error_ : error_ + "; " + template_error_);
}

void InspectedText::add_to(json::Object& summary) const {
  if (tokenizer_) {
    add_tokenizer(summary);
  } else if (!is_alone_) {
    summary["tokenizer_error"] = server::to_utf8(error_);
  }
  if (!template_error_.empty()) summary["template_error"] = server::to_utf8(template_error_);
  if (!template_) return;
  summary["chat_template"] = !template_->source.empty();
  summary["template_capabilities"] = template_->capabilities;
  const std::pair<const char*, const std::string&> flaws[] = {
      {"template_error", template_->error},
      {"template_refusal", template_->refusal},
      {"template_doubt", template_->doubt},
      {"template_unknown_names", template_->unknown_names},
      {"tool_template_error", template_->tool_error},
      {"tool_template_doubt", template_->tool_doubt},
      {"tool_template_unknown_names", template_->tool_unknown_names}};
  for (const auto& [name, text] : flaws)
    if (!text.empty()) summary[name] = server::to_utf8(text);
}

void InspectedText::add_tokenizer(json::Object& summary) const {
  const TokenizerInfo& info = tokenizer_->info();
  json::Object described{{"kind", info.kind},
                         {"pre_tokenizer", server::to_utf8(info.pre_tokenizer)},
                         {"file", server::to_utf8(file())}};
  for (const auto& [name, member] : kRoles) {
    const int32_t token = info.*member;
    described[name] = nullptr;
    if (token < 0) continue;
    described[name] =
        json::Object{{"id", token}, {"text", server::to_utf8(token_text(*tokenizer_, token))}};
  }
  described["before_text"] = json::Array(info.before.begin(), info.before.end());
  described["after_text"] = json::Array(info.after.begin(), info.after.end());
  json::Array doubts;
  for (const std::string& doubt : info.doubts) doubts.emplace_back(server::to_utf8(doubt));
  described["doubts"] = std::move(doubts);
  summary["vocabulary"] = tokenizer_->vocab_size();
  summary["tokenizer"] = std::move(described);
}

void InspectedText::print() const {
  if (tokenizer_) {
    print_tokenizer();
  } else if (!is_alone_) {
    fmt::print("tokenizer      {}{}\n",
               is_there_ ? "does not work: " : "none: ", safe_text(error_));
  }
  if (template_) {
    fmt::print("chat template  {}\n", template_line());
    if (!template_->tool_error.empty())
      fmt::print("tool template  does not work: {}\n", safe_text(template_->tool_error));
    for (const std::string& flaw : {template_->tool_doubt, template_->tool_unknown_names})
      if (!flaw.empty()) fmt::print("tool template  doubtful: {}\n", safe_text(flaw));
  } else if (is_there_ && !template_error_.empty() && error_.starts_with(template_error_)) {
    fmt::print("chat template  does not work, for the same reason\n");  // one file has both
  } else if (!template_error_.empty()) {
    fmt::print("chat template  does not work: {}\n", safe_text(template_error_));
  }
}

void InspectedText::print_tokenizer() const {
  const TokenizerInfo& info = tokenizer_->info();
  fmt::print("vocabulary     {} tokens\n", tokenizer_->vocab_size());
  fmt::print("tokenizer      {}, from {}\n", info.kind, safe_text(file()));
  fmt::print("pre-tokenizer  {}\n",
             info.pre_tokenizer.empty() ? "none" : safe_text(info.pre_tokenizer));
  for (const auto& [name, member] : kRoles) {
    const int32_t token = info.*member;
    if (token < 0) continue;
    fmt::print("{:<14} {} {}\n", name, token, escaped_text(token_text(*tokenizer_, token)));
  }
  fmt::print("around a text  {}\n", around(*tokenizer_, info));
  for (const std::string& doubt : info.doubts) fmt::print("doubtful       {}\n", safe_text(doubt));
}

std::string InspectedText::template_line() const {
  // The line has its subject.
  const auto reason = [&](std::string_view sentence) {
    const std::string& subject = template_->name;
    return sentence.substr(sentence.starts_with(subject) ? subject.size() + 1 : 0);
  };
  if (template_->source.empty()) {
    const std::string& doubt = template_->doubt;
    return fmt::format("none (ChatML stands in{})",
                       doubt.empty() ? "" : ", which " + safe_text(reason(doubt)));
  }
  const std::string& error = template_->error;
  if (!error.empty()) return fmt::format("does not work: it {}", safe_text(reason(error)));
  std::string line = template_->capabilities;
  for (const std::string& flaw : {template_->refusal, template_->doubt, template_->unknown_names}) {
    if (flaw.empty()) continue;
    if (!line.empty()) line += "; ";
    line += safe_text(reason(flaw));
  }
  return line.empty() ? "users' words only" : line;
}

void InspectedText::print_template() const {
  if (!template_)
    throw Error(ErrorCode::invalid_data, template_error_.empty() ? error_ : template_error_);
  const std::string& source = template_->source;
  if (source.empty()) fail(ErrorCode::not_found, "the model has no chat template");
  if (::isatty(STDOUT_FILENO) == 0) {
    std::fwrite(source.data(), 1, source.size(), stdout);
    return;
  }
  for (std::string_view rest = source; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find_first_of("\t\n"));
    fmt::print("{}", safe_text(line));
    rest.remove_prefix(line.size());
    if (rest.empty()) break;
    fmt::print("{}", rest[0]);
    rest.remove_prefix(1);
  }
  if (!source.ends_with('\n')) fmt::print("\n");
}

}  // namespace hasten::cli
