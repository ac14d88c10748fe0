// SPDX-License-Identifier: Apache-2.0
// The hasten program: parses the command line and runs one subcommand.
#include <fmt/format.h>

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
  CLI::App app{"hasten: load a language model and answer many people at once", "hasten"};
  app.set_version_flag("--version", std::string("hasten ") + hasten::kVersion);
  app.footer(
      "Without a MODEL, every command uses the small demonstration model inside this program.\n"
      "  hasten serve                     the API and a chat page at http://127.0.0.1:8080\n"
      "  hasten run -p \"Tell me a story.\"\n"
      "  hasten COMMAND --help            more about a command");
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

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "hasten: {}; see 'hasten --help'\n",
               safe_text(error.what(), /*keep_newlines=*/true));
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
