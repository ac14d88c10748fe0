// SPDX-License-Identifier: Apache-2.0
// hasten detokenize: the text of token ids.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/words.h"
#include "hasten/tokenizer.h"
#include "server/openai_json.h"

namespace hasten::cli {
namespace {

struct DetokenizeOptions {
  std::vector<std::string> arguments;  // [MODEL] [ID]…
  std::string file;                    // empty: none
  bool json = false;
  bool skip_special = false;
};

constexpr std::string_view kSpaces = " \t\r\n";

int32_t read_id(std::string_view word, int64_t vocab_size) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  const bool is_number = end == word.data() + word.size() && error != std::errc::invalid_argument;
  if (!is_number) fail(ErrorCode::invalid_argument, "{} is no token id", printable(word));
  if (error != std::errc() || id < 0 || id >= vocab_size) {
    fail(ErrorCode::invalid_argument, "there is no token {}: the vocabulary has {}, from 0 to {}",
         printable(word), vocab_size, vocab_size - 1);
  }
  return static_cast<int32_t>(id);
}

/// Throws Error unless the brackets of `text` are none, or those around all of it.
void check_brackets(std::string_view text) {
  const auto count = [&](char bracket) { return std::count(text.begin(), text.end(), bracket); };
  if (count('[') == 0 && count(']') == 0) return;
  if (count('[') > 1 || count(']') > 1)
    fail(ErrorCode::invalid_argument, "there are several lists of ids; give one at a time");
  if (text[text.find_first_not_of(kSpaces)] != '[' || text[text.find_last_not_of(kSpaces)] != ']') {
    fail(ErrorCode::invalid_argument,
         "a list of ids begins with [ and ends with ]: give it whole, or ids without brackets");
  }
}

/// Throws Error where an id is missing before or behind a comma: ids stand before `begin` and from
/// `end` on, or the text ends there.
void check_commas(std::string_view text, size_t begin, size_t end) {
  const std::string_view between = text.substr(0, end);
  const size_t first = between.find(',', begin);
  if (first == std::string_view::npos) return;
  const bool is_after_id = begin > 0;
  const size_t next = is_after_id ? between.find(',', first + 1) : first;
  if (next != std::string_view::npos) {
    fail(ErrorCode::invalid_argument, "no id stands before the comma at byte {} of the ids", next);
  }
  if (end == text.size()) {
    fail(ErrorCode::invalid_argument, "no id stands behind the comma at byte {} of the ids", first);
  }
}

/// Ids between spaces, line ends and commas, in brackets or not: also what tokenize --json prints.
std::vector<int32_t> read_ids(std::string_view text, int64_t vocab_size) {
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  std::vector<int32_t> ids;
  for (size_t at = 0;;) {
    const size_t begin = std::min(text.find_first_not_of(kSeparators, at), text.size());
    check_commas(text, at, begin);
    if (begin == text.size()) break;
    at = std::min(text.find_first_of(kSeparators, begin), text.size());
    ids.push_back(read_id(text.substr(begin, at - begin), vocab_size));
  }
  check_brackets(text);  // after the words: what is no list of ids at all may hold any
  return ids;
}

/// The ids of the command line, where wrong ones are wrong usage.
std::vector<int32_t> read_words(std::string_view words, int64_t vocab_size) {
  try {
    return read_ids(words, vocab_size);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), "IDS");
  }
}

int detokenize(const DetokenizeOptions& options) {
  const std::string model = options.arguments.empty() ? "" : options.arguments[0];
  std::string words;
  for (size_t i = 1; i < options.arguments.size(); ++i)
    words.append(i > 1 ? " " : "").append(options.arguments[i]);
  std::error_code ignored;
  const bool begins_with_id = model.find_first_not_of("0123456789,[] ") == std::string::npos;
  if (!model.empty() && begins_with_id && !std::filesystem::exists(model, ignored)) {
    fail(ErrorCode::not_found,
         "there is no MODEL {0}; if that is an id, write: hasten detokenize \"\" {0}{1}{2}", model,
         words.empty() ? "" : " ", words);
  }
  const bool has_words = options.arguments.size() > 1;
  if (!options.file.empty() && has_words) {
    fail_param("file", "detokenize takes IDS or --file, not both");
  }
  const Tokenizer tokenizer = open_tokenizer(model);
  std::optional<Input> input;
  if (!has_words) input.emplace(options.file.empty() ? "-" : options.file);
  const std::vector<int32_t> ids = input ? read_ids(input->text(), tokenizer.vocab_size())
                                         : read_words(words, tokenizer.vocab_size());
  const std::string text = tokenizer.decode(ids, /*show_special=*/!options.skip_special);
  if (options.json) {
    fmt::print("{}\n", json_text(json::Value(server::to_utf8(text))));
  } else {
    fmt::print("{}\n", text);
  }
  return 0;
}

}  // namespace

void add_detokenize(Command program) {
  const Command command = program.add("detokenize", "Show the text of token ids");
  auto options = std::make_shared<DetokenizeOptions>();
  constexpr int kMostWords = 1 << 20;  // more than a system passes to a program
  command.words("arguments [MODEL] [IDS]...", options->arguments, kMostWords,
                "MODEL (\"\" for the built-in one; as for tokenize) and IDS with spaces or commas "
                "between them, also as tokenize --json prints them; without IDS, standard input");
  command.option("--file FILE", options->file,
                 "Read the ids from a file or a pipe (-: standard "
                 "input)");
  command.flag("--skip-special", options->skip_special, "Leave special tokens out of the text");
  command.flag("--json", options->json,
               "Print the text as a JSON string, without the line end that is put behind it else");
  command.footer(
      "  hasten tokenize \"\" \"Once upon a time\" --json | hasten detokenize\n"
      "Bytes that are no whole characters become U+FFFD; hasten tokenize shows them.");
  command.run([options] { return detokenize(*options); });
}

}  // namespace hasten::cli
