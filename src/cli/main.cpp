// SPDX-License-Identifier: Apache-2.0
// The hasten program: parses the command line and runs one subcommand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/command.h"
#include "cli/words.h"
#include "hasten/error.h"
#include "hasten/version.h"

namespace {

/// Whether an option has a value that nothing takes: such an error names its field. A prompt that
/// the model cannot take is no wrong usage.
bool is_wrong_usage(const hasten::Error& error) {
  const std::string& field = error.param();
  return error.code() == hasten::ErrorCode::invalid_argument && !field.empty() &&
         field != "prompt" && !field.starts_with("messages");
}

/// CLI11's, but for the default value, which stands behind the description.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_size() == 0 ? "" : option->get_type_name();
    return type.empty() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " (default: " + option->get_default_str() + ")";
    if (!option->get_envname().empty()) text += "; or in the variable " + option->get_envname();
    return text;
  }
};

/// What is wrong with a command line, and where to read more.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) {
    return fmt::format("{}; see 'hasten {} --help'", error.what(), chosen.front()->get_name());
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const std::vector<std::string> rest = app.remaining();
  const auto word =
      std::find_if(rest.begin(), rest.end(), [](const auto& each) { return each[0] != '-'; });
  return fmt::format(
      "{}; the commands are {}; see 'hasten --help'",
      word == rest.end() ? "a command is missing" : fmt::format("there is no command {}", *word),
      fmt::join(names, " "));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hasten::cli;
  CLI::App app{"hasten: load a language model and answer many people at once", "hasten"};
  app.set_version_flag("--version", std::string("hasten ") + hasten::kVersion);
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.fallthrough();
  bool quiet = false;
  app.add_flag("-q,--quiet", quiet, "Log warnings and errors only");

  Action action;
  add_serve(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_perplexity(app, action);
  add_tokenize(app, action);
  add_inspect(app, action);
  add_synth(app, action);
  add_doctor(app, action);
  // Last, or else every command would repeat it.
  app.footer(
      "Without a MODEL, every command uses the small demonstration model inside this program.\n"
      "  hasten serve                     the API and a chat page at http://127.0.0.1:8080\n"
      "  hasten run -p \"Tell me a story.\"\n"
      "  hasten COMMAND --help            more about a command");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "hasten: {}\n", safe_text(usage_error(app, error), /*keep_newlines=*/true));
    return 2;
  }
  if (quiet) hasten::log::set_level(hasten::log::Level::warn);
  try {
    const int status = action();
    // What was printed may still fail to leave: on a full disk, for example.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      fmt::print(stderr, "hasten: standard output could not be written\n");
      return 1;
    }
    return status;
  } catch (const hasten::Error& error) {
    fmt::print(stderr, "hasten: {}\n", safe_text(error.what(), /*keep_newlines=*/true));
    return is_wrong_usage(error) ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hasten: {}\n", safe_text(error.what(), /*keep_newlines=*/true));
    return 1;
  }
}
