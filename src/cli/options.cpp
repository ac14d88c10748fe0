// SPDX-License-Identifier: Apache-2.0
// Commands and options on CLI11, which only this file includes; what is wrong with a command line.
#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/nearest_name.h"
#include "cli/words.h"

namespace hasten::cli {
namespace {

using Apps = std::vector<const CLI::App*>;

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

/// CLI11's, but for words that its options have here: see Command::option.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_size() == 0 ? "" : option->get_type_name();
    return type.empty() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (option->get_required() && !option->get_positional()) text += " (required)";
    if (!option->get_envname().empty()) text += "; or in the variable " + option->get_envname();
    return text;
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();  // of several words: with their own brackets
    return option->get_required() || type.front() == '[' ? type : "[" + type + "]";
  }
};

/// `help` with the value of `option` in the place of {}.
std::string with_default(CLI::Option& option, std::string help) {
  const size_t place = help.find("{}");
  if (place == std::string::npos) return help;
  std::string value = option.capture_default_str()->get_default_str();
  if (value.starts_with('[')) value = value.substr(1, value.size() - 2);  // of a list
  return help.replace(place, 2, value);
}

Apps commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The commands of `app` and those below them.
Apps all_commands(const CLI::App& app) {
  Apps commands = commands_of(app);
  for (size_t i = 0; i < commands.size(); ++i) {
    const Apps inner = commands_of(*commands[i]);
    commands.insert(commands.end(), inner.begin(), inner.end());
  }
  return commands;
}

std::vector<std::string> names_of(const Apps& apps) {
  std::vector<std::string> names;
  names.reserve(apps.size());
  for (const CLI::App* app : apps) names.push_back(app->get_name());
  return names;
}

/// "bench replay": a command with those above it.
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  const bool is_top = parent == nullptr || parent->get_parent() == nullptr;
  return (is_top ? "" : full_name(*parent) + " ") + command.get_name();
}

bool has_flag(const CLI::App& app, const std::string& flag) {
  return app.get_option_no_throw(flag) != nullptr;
}

/// The first flag among `arguments`, without its value; empty if none is one.
std::string first_flag(const std::vector<std::string>& arguments) {
  const auto is_flag = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto found = std::find_if(arguments.begin(), arguments.end(), is_flag);
  return found == arguments.end() ? std::string() : found->substr(0, found->find('='));
}

/// What to say of `flag`, which none of `apps` has.
std::string no_flag(const Apps& apps, const std::string& flag) {
  std::vector<std::string> names;
  for (const CLI::App* app : apps) {
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string nearest = nearest_name(flag, names);
  return fmt::format("there is no flag {}{}", flag.substr(0, 64),
                     nearest.empty() ? "" : "; the nearest is " + nearest);
}

// Stands before each word behind "--", and others that CLI11 would not leave whole: no argument of
// a process can have this byte.
constexpr char kWordMark = '\0';

/// Whether `word` is a flag, or several short ones (-qp), that takes the next word, whatever that
/// is, for its value.
bool takes_next(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  Apps apps = all_commands(app);
  apps.push_back(&app);
  const auto takes_value = [&](const std::string& flag) {
    return std::any_of(apps.begin(), apps.end(), [&](const CLI::App* command) {
      const CLI::Option* option = command->get_option_no_throw(flag);
      return option != nullptr && option->get_items_expected_min() > 0;
    });
  };
  if (word[1] == '-') return takes_value(word);
  // What stands behind a letter that takes a value is its value.
  const auto first = std::find_if(word.begin() + 1, word.end(), [&](char letter) {
    return takes_value({'-', letter});
  });
  return first != word.end() && std::next(first) == word.end();
}

/// The arguments, from the last to the first as CLI11 takes them. Of words behind "--" it would
/// hand those that a command takes but does not need to the program as a whole, and take them for
/// flags and commands there; so they are marked, and "--" is left out. Words in brackets are
/// marked, too: it would take "[a,b]" for the two words a and b.
std::vector<std::string> arguments_of(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  auto at = std::find(words.begin(), words.end(), "--");
  while (at != words.end() && at != words.begin() && takes_next(app, *std::prev(at)))
    at = std::find(std::next(at), words.end(), "--");
  for (auto word = words.begin(); word != at; ++word) {
    const bool is_value = word != words.begin() && takes_next(app, *std::prev(word));
    if (!is_value && word->starts_with('[') && word->ends_with(']')) word->insert(0, 1, kWordMark);
  }
  if (at != words.end()) {
    for (at = words.erase(at); at != words.end(); ++at) at->insert(0, 1, kWordMark);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::string without_marks(std::string text) {
  std::erase(text, kWordMark);
  return text;
}

/// Takes the mark off the words of an option that stands by its place.
void take_marked(CLI::Option& option) {
  option.transform(CLI::Validator(
      [](std::string& word) {
        word = without_marks(std::move(word));
        return std::string();
      },
      ""));
}

/// What to say where `command` got more words than it takes; empty: it did not.
std::string too_many_words(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const auto most = static_cast<size_t>(option->get_items_expected_max());
    if (!option->get_positional() || option->count() <= most) continue;
    return fmt::format("{} takes {} and got {} words; a TEXT of several words stands in quotes",
                       full_name(command), option->get_type_name(), option->count());
  }
  return {};
}

/// What is wrong with a command line whose command was found.
std::string command_error(const CLI::App& app, const CLI::App& command,
                          const CLI::ParseError& error) {
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool has_flag_too = !first_flag(app.remaining(/*recurse=*/true)).empty();
  if (!has_flag_too && dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (std::string words = too_many_words(command); !words.empty()) return words;
  }
  if (!is_extra && !has_flag_too) return error.what();
  const std::vector<std::string> extra = app.remaining(/*recurse=*/true);
  const std::string flag = first_flag(extra);
  if (flag.empty()) return fmt::format("not expected: {}", fmt::join(extra, " "));
  const std::string name = full_name(command);
  if (has_flag(command, flag))
    return fmt::format("{} stands before its command: write hasten {} {}", flag, name, flag);
  for (const CLI::App* other : all_commands(app)) {
    if (has_flag(*other, flag))
      return fmt::format("{} is a flag of {}, not of {}", flag, full_name(*other), name);
  }
  const bool is_long = flag.starts_with("--");  // those are hardly ever meant as words
  return no_flag({&command, &app}, flag) +
         (is_long ? ""
                  : fmt::format("; what is no flag stands behind --, as in '{} -- {}'", name,
                                flag.substr(0, 64)));
}

/// What is wrong with a command line without a command.
std::string no_command_error(const CLI::App& app) {
  const Apps commands = commands_of(app);
  const std::vector<std::string> names = names_of(commands);
  const std::vector<std::string> rest = app.remaining();
  const std::string all = fmt::format("the commands are {}", fmt::join(names, " "));
  if (!rest.empty() && rest[0].starts_with(kWordMark))
    return "a command stands before --, and its words behind; " + all;
  // Of words behind a flag nobody knows which are its values.
  const bool is_word = !rest.empty() && !rest[0].starts_with('-');
  std::string wrong = is_word ? "there is no command " + rest[0] : "a command is missing";
  if (const std::string flag = first_flag(rest); !is_word && !flag.empty()) {
    const auto owner = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return has_flag(*command, flag);
    });
    if (owner == commands.end()) return no_flag({&app}, flag);
    wrong += fmt::format(" before {}, such as {}", flag, (*owner)->get_name());
  }
  const std::string nearest = is_word ? nearest_name(rest[0], names) : std::string();
  if (!nearest.empty()) return fmt::format("{}; the nearest is {}", wrong, nearest);
  return fmt::format("{}; {}", wrong, all);
}

/// Whether a command line begins with a word that is no command. Beside it --help asks for the help
/// of something that there is not.
bool names_no_command(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  return app.get_subcommands().empty() && !rest.empty() && !rest[0].starts_with('-');
}

/// What is wrong with a command line, and where to read more.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (app.get_subcommands().empty()) return no_command_error(app) + "; see 'hasten --help'";
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return fmt::format("{}; see 'hasten {} --help'", command_error(app, *command, error),
                     full_name(*command));
}

/// Refuses flags of `command` itself beside one of those below it, which would not see them.
void check_no_own_flags(const CLI::App& command, const CLI::App& chosen) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const bool is_value = option->get_positional();
    throw CLI::ParseError(
        fmt::format(
            "{} is taken as {} of {}, not of {}: {}",
            is_value ? option->results().front() : option->get_name(),
            is_value ? option->get_type_name() : "a flag", command.get_name(), chosen.get_name(),
            is_value ? fmt::format("{} stands behind {}, and there is one at most",
                                   option->get_type_name(), chosen.get_name())
                     : fmt::format("write it behind {}, if it is for that", chosen.get_name())),
        CLI::ExitCodes::ExtrasError);
  }
}

}  // namespace

Option Option::required() const { return Option(*option_->required()); }

Option Option::or_variable(const std::string& name) const {
  return Option(*option_->envname(name));
}

Option Option::only_with(const Option& other) const {
  return Option(*option_->needs(other.option_));
}

Option Option::never_with(const Option& other) const {
  return Option(*option_->excludes(other.option_));
}

Command Command::add(const std::string& name, const std::string& summary) const {
  return {*app_->add_subcommand(name, summary), *chosen_};
}

template <class T>
Option Command::option(const std::string& form, T& value, const Check& check,
                       const std::string& help) const {
  const size_t space = form.find(' ');
  CLI::Option* option = app_->add_option(form.substr(0, space), value);
  option->type_name(form.substr(space + 1))->description(with_default(*option, help));
  if (check) option->transform(CLI::Validator(check, ""));
  if (option->get_positional()) take_marked(*option);  // what is added last comes first
  if constexpr (IsVector<T>::value) {
    option->allow_extra_args(false);  // or else it would take what stands behind, too: MODEL
    if constexpr (std::is_arithmetic_v<typename T::value_type>) option->delimiter(',');
  }
  return Option(*option);
}

// The kinds of values that options have.
#define HASTEN_OPTION(...)                                                        \
  template Option Command::option(const std::string&, __VA_ARGS__&, const Check&, \
                                  const std::string&) const;
HASTEN_OPTION(uint16_t)
HASTEN_OPTION(int32_t)
HASTEN_OPTION(int64_t)
HASTEN_OPTION(uint64_t)
HASTEN_OPTION(float)
HASTEN_OPTION(double)
HASTEN_OPTION(std::string)
HASTEN_OPTION(std::filesystem::path)
HASTEN_OPTION(std::optional<int64_t>)
HASTEN_OPTION(std::optional<uint64_t>)
HASTEN_OPTION(std::optional<std::string>)
HASTEN_OPTION(std::vector<int64_t>)
HASTEN_OPTION(std::vector<std::string>)
#undef HASTEN_OPTION

void Command::words(const std::string& form, std::vector<std::string>& value, int most,
                    const std::string& help) const {
  const size_t space = form.find(' ');
  CLI::Option* option = app_->add_option(form.substr(0, space), value, help);
  option->expected(0, most)->type_name(form.substr(space + 1));
  take_marked(*option);
}

Option Command::flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(*app_->add_flag(name, value, help));
}

void Command::flag_off(const std::string& name, bool& value, const std::string& help) const {
  app_->add_flag_callback(
      name, [&value] { value = false; }, help);
}

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::run(Action action) const {
  app_->callback([app = app_, chosen = chosen_, action = std::move(action)] {
    if (const auto below = app->get_subcommands(); !below.empty())
      return check_no_own_flags(*app, *below.front());
    *chosen = action;
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& summary,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(summary, name)) {
  app_->set_version_flag("--version", version);
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->require_subcommand(1);
  app_->fallthrough();
}

CommandLine::~CommandLine() = default;

CommandLine::Parsed CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(arguments_of(*app_, argc, argv));
  } catch (const CLI::ParseError& error) {
    const bool is_asked_for = error.get_exit_code() == 0;  // --help, --version
    if (is_asked_for && !names_no_command(*app_)) return {.status = app_->exit(error)};
    fmt::print(stderr, "hasten: {}\n",
               safe_text(without_marks(usage_error(*app_, error)), /*keep_newlines=*/true));
    return {.status = 2};
  }
  return {.action = chosen_};
}

}  // namespace hasten::cli
