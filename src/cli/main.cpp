// SPDX-License-Identifier: Apache-2.0
// The hasten program: parses the command line and runs one subcommand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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
    if (option->get_required() && !option->get_positional()) text += " (required)";
    if (std::string value = option->get_default_str(); !value.empty()) {
      if (value.front() == '[') value = value.substr(1, value.size() - 2);  // of a list
      text += " (default: " + value + ")";
    }
    if (!option->get_envname().empty()) text += "; or in the variable " + option->get_envname();
    return text;
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();  // of several words: with their own brackets
    return option->get_required() || type.front() == '[' ? type : "[" + type + "]";
  }
};

/// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
size_t num_edits(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] =
          std::min({last[j] + 1, next[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = std::exchange(last, next);
  }
  return last[b.size()];
}

/// The first flag among `arguments`, without its value; empty if none is one.
std::string first_flag(const std::vector<std::string>& arguments) {
  const auto is_flag = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto found = std::find_if(arguments.begin(), arguments.end(), is_flag);
  return found == arguments.end() ? std::string() : found->substr(0, found->find('='));
}

/// What to say of `flag`, which none of `apps` has.
std::string no_flag(const std::vector<const CLI::App*>& apps, std::string flag) {
  // A longer one is none that somebody mistyped, and comparing takes time.
  flag.resize(std::min<size_t>(flag.size(), 64));
  std::string nearest;
  size_t least = 2 + flag.size() / 4;  // more edits make another word of it
  for (const CLI::App* app : apps) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const size_t edits = num_edits(flag, "--" + name);
        if (edits >= least) continue;
        least = edits;
        nearest = "; the nearest is --" + name;
      }
    }
  }
  return fmt::format("there is no flag {}{}", flag, nearest);
}

/// "bench replay": a command with those above it.
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  const bool is_top = parent == nullptr || parent->get_parent() == nullptr;
  return (is_top ? "" : full_name(*parent) + " ") + command.get_name();
}

/// The commands of `app` and those below them.
std::vector<const CLI::App*> all_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (size_t i = 0; i < commands.size(); ++i) {
    const auto inner = commands[i]->get_subcommands([](const CLI::App*) { return true; });
    commands.insert(commands.end(), inner.begin(), inner.end());
  }
  return commands;
}

/// What is wrong with a command line whose command was found.
std::string command_error(const CLI::App& app, const CLI::App& command,
                          const CLI::ParseError& error) {
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const std::string flag = is_extra ? first_flag(app.remaining(/*recurse=*/true)) : std::string();
  if (flag.empty()) return error.what();
  const std::string name = full_name(command);
  if (command.get_option_no_throw(flag) != nullptr)
    return fmt::format("{} stands before its command: write hasten {} {}", flag, name, flag);
  for (const CLI::App* other : all_commands(app)) {
    if (other->get_option_no_throw(flag) != nullptr)
      return fmt::format("{} is a flag of {}, not of {}", flag, full_name(*other), name);
  }
  return no_flag({&command, &app}, flag);
}

/// What is wrong with a command line, and where to read more.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) {
    const CLI::App* command = chosen.front();
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    return fmt::format("{}; see 'hasten {} --help'", command_error(app, *command, error),
                       full_name(*command));
  }
  const std::vector<std::string> rest = app.remaining();
  // Of words behind a flag nobody knows which are its values.
  const bool is_word = !rest.empty() && !rest[0].starts_with('-');
  std::string wrong = is_word ? "there is no command " + rest[0] : "a command is missing";
  if (const std::string flag = first_flag(rest); !is_word && !flag.empty()) {
    const auto owner = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return command->get_option_no_throw(flag) != nullptr;
    });
    if (owner == commands.end()) return no_flag({&app}, flag) + "; see 'hasten --help'";
    wrong += fmt::format(" before {}, such as {}", flag, (*owner)->get_name());
  }
  if (is_word) {
    const std::string word = rest[0].substr(0, 64);  // comparing takes time
    std::string nearest;
    size_t least = 2 + word.size() / 4;  // more edits make another word of it
    for (const CLI::App* command : commands) {
      const size_t edits = num_edits(word, command->get_name());
      if (edits >= least) continue;
      least = edits;
      nearest = command->get_name();
    }
    if (!nearest.empty())
      return fmt::format("{}; the nearest is {}; see 'hasten --help'", wrong, nearest);
  }
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return fmt::format("{}; the commands are {}; see 'hasten --help'", wrong, fmt::join(names, " "));
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
  add_simulate(app, action);
  add_doctor(app, action);
  app.add_subcommand("version", "Print the version, as --version does")->callback([&action] {
    action = [] {
      fmt::print("hasten {}\n", hasten::kVersion);
      return 0;
    };
  });
  // Last, or else every command would repeat it.
  app.footer(
      "A command that takes a MODEL uses the small demonstration model inside this program\n"
      "where none is given.\n"
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
