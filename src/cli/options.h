// SPDX-License-Identifier: Apache-2.0
// The command line: commands, what each of them takes, and what is said of a wrong one. CLI11 is
// behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/checks.h"

namespace CLI {  // NOLINT(readability-identifier-naming): not ours
class App;
class Option;
}  // namespace CLI

namespace hasten::cli {

/// What a command does; its value is the exit status: 0 done, 1 failed.
using Action = std::function<int()>;

/// An option of a command, to say more of it.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  /// It may stand in that variable of the environment instead.
  Option or_variable(const std::string& name) const;
  Option only_with(const Option& other) const;
  Option never_with(const Option& other) const;

 private:
  CLI::Option* option_;
};

/// A command, to say what it takes. What that is read into must outlive the command line.
class Command {
 public:
  Command(CLI::App& app, Action& chosen) : app_(&app), chosen_(&chosen) {}

  /// A command below this one. The flags of one do not go with the other.
  Command add(const std::string& name, const std::string& summary) const;

  /// `form` is the option as the help shows it: "--ctx N", "-p,--prompt TEXT" or, by its place,
  /// "model MODEL". In `help`, {} is the value that is there now: the default. T is int32_t,
  /// int64_t, uint64_t, float, double, std::string, std::filesystem::path, an optional int64_t,
  /// uint64_t or string, or a vector: of strings, one each time that the option stands there, or of
  /// int64_t with commas.
  template <class T>
  Option option(const std::string& form, T& value, const Check& check,
                const std::string& help) const;
  template <class T>
  Option option(const std::string& form, T& value, const std::string& help) const {
    return option(form, value, Check(), help);
  }
  /// Up to `most` words by their place.
  void words(const std::string& form, std::vector<std::string>& value, int most,
             const std::string& help) const;

  /// An option without a value, which makes `value` true, or false.
  Option flag(const std::string& name, bool& value, const std::string& help) const;
  void flag_off(const std::string& name, bool& value, const std::string& help) const;

  /// What stands below the options in the help. Of the whole program: to be set last.
  void footer(const std::string& text) const;
  /// What it does.
  void run(Action action) const;

 private:
  CLI::App* app_;
  Action* chosen_;  // by the arguments
};

/// The arguments of a process.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& summary, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// The program as a whole, whose flags may stand with every command.
  Command program() { return {*app_, chosen_}; }

  struct Parsed {
    Action action = {};  // of the chosen command; empty: help was printed, or what is wrong
    int status = 0;      // to end with then
  };
  Parsed parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace hasten::cli
