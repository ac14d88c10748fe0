// SPDX-License-Identifier: Apache-2.0
// Shows tokenizers and chat templates.
#include "cli/inspect_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
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
  try {
    tokenizer_.emplace(model);
  } catch (const Error& error) {
    error_ = error.what();
  }
}

std::string InspectedText::file() const {
  return std::filesystem::path(tokenizer_->info().file).filename().string();
}

std::string InspectedText::fault() const {
  if (!tokenizer_) return is_there_ ? error_ : "";
  return tokenizer_->template_error();
}

void InspectedText::add_to(json::Object& summary) const {
  if (!tokenizer_) {
    summary["tokenizer_error"] = server::to_utf8(error_);
    return;
  }
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
  summary["vocabulary"] = tokenizer_->vocab_size();
  summary["tokenizer"] = std::move(described);
  summary["chat_template"] = !tokenizer_->chat_template().empty();
  summary["template_capabilities"] = tokenizer_->template_capabilities();
  if (!tokenizer_->template_error().empty())
    summary["template_error"] = server::to_utf8(tokenizer_->template_error());
  if (!tokenizer_->template_refusal().empty())
    summary["template_refusal"] = server::to_utf8(tokenizer_->template_refusal());
  if (!tokenizer_->template_doubt().empty())
    summary["template_doubt"] = server::to_utf8(tokenizer_->template_doubt());
}

void InspectedText::print() const {
  if (!tokenizer_) {
    fmt::print("tokenizer      {}{}\n",
               is_there_ ? "does not work: " : "none: ", safe_text(error_));
    return;
  }
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
  fmt::print("chat template  {}\n", template_line());
}

std::string InspectedText::template_line() const {
  if (tokenizer_->chat_template().empty()) return "none (ChatML stands in)";
  // The line has its subject.
  const auto reason = [&](std::string_view sentence) {
    const std::string& subject = tokenizer_->template_name();
    return sentence.substr(sentence.starts_with(subject) ? subject.size() + 1 : 0);
  };
  const std::string& error = tokenizer_->template_error();
  if (!error.empty()) return fmt::format("does not work: it {}", safe_text(reason(error)));
  std::string line = tokenizer_->template_capabilities();
  for (const std::string& flaw : {tokenizer_->template_refusal(), tokenizer_->template_doubt()}) {
    if (flaw.empty()) continue;
    if (!line.empty()) line += "; ";
    line += safe_text(reason(flaw));
  }
  return line.empty() ? "users' words only" : line;
}

void InspectedText::print_template() const {
  if (!tokenizer_) throw Error(ErrorCode::invalid_data, error_);
  const std::string& source = tokenizer_->chat_template();
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
