// SPDX-License-Identifier: Apache-2.0
// hasten tokenize: shows how a model cuts text into tokens.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/quantity.h"
#include "cli/command.h"
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
  const std::vector<MappedFile> files(options.files.begin(), options.files.end());
  std::vector<std::string_view> texts;
  texts.reserve(files.size());
  for (const MappedFile& file : files) {
    texts.emplace_back(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  }
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

int tokenize(const TokenizeOptions& options) {
  const std::string model = options.arguments.empty() ? "" : options.arguments[0];
  std::error_code ignored;
  if (options.arguments.size() == 1 && !model.empty() && !std::filesystem::exists(model, ignored)) {
    fail(ErrorCode::not_found,
         "there is no MODEL {0}; if that is the text, write: hasten tokenize \"\" '{0}'", model);
  }
  check_model(model, ModelUse::vocabulary);
  const Tokenizer tokenizer(model);
  if (!options.files.empty()) {
    if (options.arguments.size() > 1) {
      fail(ErrorCode::invalid_argument,
           "tokenize takes a TEXT or --file, not both; of several files, each has a --file");
    }
    return tokenize_files(tokenizer, options);
  }
  const std::string text =
      options.arguments.size() > 1
          ? options.arguments[1]
          : std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  const std::vector<int32_t> tokens = tokenizer.encode(text, !options.no_bos, options.special);
  if (options.json) {
    json::Array ids(tokens.begin(), tokens.end());
    fmt::print("{}\n", json_text(ids));
    return 0;
  }
  for (const int32_t token : tokens) {
    // As a JSON string, so that spaces, line ends and bytes of split characters can be seen.
    fmt::print("{:>7}  {}\n", token, json_text(json::Value(tokenizer.decode({token}))));
  }
  fmt::print("{}, {}\n", counted(std::ssize(tokens), "token"), counted(std::ssize(text), "byte"));
  return 0;
}

}  // namespace

void add_tokenize(Command program) {
  const Command command = program.add("tokenize", "Show the tokens of a text");
  auto options = std::make_shared<TokenizeOptions>();
  command.words(
      "arguments [MODEL] [TEXT]", options->arguments, 2,
      "MODEL (\"\" for the built-in one; a folder or a .gguf without weights will do) and "
      "TEXT; without TEXT, standard input");
  command.flag("--json", options->json, "Print a JSON list of token ids, of each file a line");
  const Option file =
      command.option("--file FILE", options->files,
                     "Count the tokens of a file, or list them with --json; may be repeated");
  command
      .option("--threads N", options->threads, whole_number(0, 256),
              "Threads for --file (default, and 0: as many as the machine has)")
      .only_with(file);
  command.flag("--special", options->special, "Special tokens written in the text count");
  command.flag("--no-bos", options->no_bos, "Leave out begin and end tokens");
  command.run([options] { return tokenize(*options); });
}

}  // namespace hasten::cli
