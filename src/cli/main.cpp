// SPDX-License-Identifier: Apache-2.0
// The hasten program: parses the command line and runs one subcommand.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

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

}  // namespace

int main(int argc, char** argv) {
  using namespace hasten::cli;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may grow no more is an error code, not a signal
  const std::string version = std::string("hasten ") + hasten::kVersion;
  CommandLine line("hasten", "hasten: load a language model and answer many people at once",
                   version);
  const Command program = line.program();
  bool quiet = false;
  program.flag("-q,--quiet", quiet, "Log warnings and errors only");
  add_serve(program);
  add_run(program);
  add_bench(program);
  add_perplexity(program);
  add_tokenize(program);
  add_detokenize(program);
  add_inspect(program);
  add_synth(program);
  add_simulate(program);
  add_doctor(program);
  program.add("version", "Print the version, as --version does").run([&version] {
    fmt::print("{}\n", version);
    return 0;
  });
  // Last, or else every command would repeat it.
  program.footer(
      "A command that takes a MODEL uses the small demonstration model inside this program\n"
      "where none is given, but for bench load, which measures a file.\n"
      "  hasten serve                     the API and a chat page at http://127.0.0.1:8080\n"
      "  hasten run -p \"Tell me a story.\"\n"
      "  hasten COMMAND --help            more about a command");

  const CommandLine::Parsed parsed = line.parse(argc, argv);
  if (!parsed.action) return parsed.status;
  if (quiet) hasten::log::set_level(hasten::log::Level::warn);
  try {
    const int status = parsed.action();
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
