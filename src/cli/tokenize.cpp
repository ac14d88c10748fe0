// SPDX-License-Identifier: Apache-2.0
// hasten tokenize: shows how a model cuts text into tokens.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/words.h"
#include "hasten/tokenizer.h"

namespace hasten::cli {
namespace {

struct TokenizeOptions {
  std::vector<std::string> arguments;  // [MODEL] [TEXT]
  bool json = false;
  bool special = false;
  bool no_bos = false;
  std::vector<std::string> files;
  int threads = 0;  // 0: as many as the machine has
};

// A line for each file: its ids, or how many they are.
int tokenize_files(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::vector<Input> files(options.files.begin(), options.files.end());
  std::vector<std::string_view> texts;
  texts.reserve(files.size());
  for (const Input& file : files) texts.push_back(file.text());
  const auto tokens =
      tokenizer.encode_all(texts, !options.no_bos, options.special, options.threads);
  for (size_t i = 0; i < files.size(); ++i) {
    if (options.json) {
      fmt::print("{}\n", json_text(json::Array(tokens[i].begin(), tokens[i].end())));
    } else {
      fmt::print("{}: {}, {}\n", safe_text(options.files[i]),
                 counted(std::ssize(tokens[i]), "token"), counted(std::ssize(texts[i]), "byte"));
    }
  }
  return 0;
}

/// A token as /tokenize of the server shows it: special tokens by their names, text in quotes,
/// where spaces can be seen, and bytes that are no whole character in hexadecimal. A byte token
/// that is one, such as <0x0A>, looks like that character; its id tells the two apart.
std::string shown(const Tokenizer& tokenizer, int32_t token) {
  std::string text = escaped_text(tokenizer.token_bytes(token));
  return tokenizer.is_special(token) ? text : '"' + text + '"';
}

int tokenize(const TokenizeOptions& options) {
  const std::string model = options.arguments.empty() ? "" : options.arguments[0];
  std::error_code ignored;
  if (options.arguments.size() == 1 && !model.empty() && !std::filesystem::exists(model, ignored)) {
    fail(ErrorCode::not_found,
         "there is no MODEL {0}; if that is the text, write: hasten tokenize \"\" '{0}'", model);
  }
  const Tokenizer tokenizer = open_tokenizer(model);
  if (!options.files.empty()) {
    if (options.arguments.size() > 1) {
      fail_param("file",
                 "tokenize takes a TEXT or --file, not both; of several files, each has a --file");
    }
    return tokenize_files(tokenizer, options);
  }
  std::optional<Input> input;
  if (options.arguments.size() < 2) input.emplace("-");
  const std::string_view text = input ? input->text() : options.arguments[1];
  const std::vector<int32_t> tokens = tokenizer.encode(text, !options.no_bos, options.special);
  if (options.json) {
    json::Array ids(tokens.begin(), tokens.end());
    fmt::print("{}\n", json_text(ids));
    return 0;
  }
  for (const int32_t token : tokens) fmt::print("{:>7}  {}\n", token, shown(tokenizer, token));
  fmt::print("{}, {}\n", counted(std::ssize(tokens), "token"), counted(std::ssize(text), "byte"));
  return 0;
}

}  // namespace

void add_tokenize(Command program) {
  const Command command = program.add("tokenize", "Show the tokens of a text");
  auto options = std::make_shared<TokenizeOptions>();
  command.words(
      "arguments [MODEL] [TEXT]", options->arguments, 2,
      "MODEL (\"\" for the built-in one; a folder or a .gguf without weights will do, or one file: "
      "tokenizer.json, tokenizer.model, x.tiktoken) and TEXT; without TEXT, standard input; behind "
      "--, words that begin with - are no flags");
  command.flag("--json", options->json, "Print a JSON list of token ids, of each file a line");
  const Option file =
      command.option("--file FILE", options->files,
                     "Count the tokens of a file or a pipe (-: standard input), or list them with "
                     "--json; may be repeated");
  command
      .option("--threads N", options->threads, whole_number(0, 256),
              "Threads for --file (default, and 0: as many as the machine has)")
      .only_with(file);
  command.flag("--special", options->special, "Special tokens written in the text count");
  command.flag("--no-bos", options->no_bos, "Leave out begin and end tokens");
  command.footer(
      "Each line is an id and its token: text in quotes, with \\n, \\t, \\u200b for what does not\n"
      "show and \\xe4 for a byte that is no whole character; special tokens by their names.\n"
      "Ids to text: hasten detokenize");
  command.run([options] { return tokenize(*options); });
}

}  // namespace hasten::cli
