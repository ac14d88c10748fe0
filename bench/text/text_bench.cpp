// SPDX-License-Identifier: Apache-2.0
// text_bench [Google Benchmark flags]: encoding, decoding and loading of published vocabularies
// over English, Chinese and source code, one thread. Needs the shared inputs that the tests use.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hasten_test/paths.h"
#include "run_bench.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using hasten::text::Tokenizer;
using hasten::text::TokenizerSpec;

constexpr size_t kPart = 1 << 20;  // bytes of each corpus

struct Corpus {
  std::string name;
  std::string text;
};

std::string source_code() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(hasten::testing::source_dir() / "src")) {
    const auto extension = entry.path().extension();
    if (entry.path().string().find("tables") != std::string::npos) continue;  // generated
    if (extension == ".cpp" || extension == ".h") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& file : files) text += hasten::testing::read_file(file);
  return text;
}

std::vector<Corpus> corpora() {
  const auto folder = hasten::testing::shared_dir() / "data/text";
  const auto part = [](std::string text) {
    text.resize(std::min(text.size(), kPart));
    return text;
  };
  std::vector<Corpus> all = {
      {"english", part(hasten::testing::read_file(folder / "war-and-peace.txt"))},
      {"chinese", part(hasten::testing::read_file(folder / "zh/poet.tang.1000.json"))},
      {"code", part(source_code())},
  };
  all.push_back({"all", all[0].text + all[1].text + all[2].text});
  return all;
}

/// One MiB of each kind of character: what a careless tokenizer takes quadratic time for.
std::vector<Corpus> runs() {
  const std::vector<Corpus> patterns = {
      {"letter", "a"},    {"digit", "7"},        {"space", " "},         {"newline", "\n"},
      {"symbol", "!"},    {"apostrophe", "'"},   {"cased", "aA"},        {"han", "\u4E2D"},
      {"mark", "\u0301"}, {"malformed", "\x80"}, {"emoji", "\U0001F600"}};
  std::vector<Corpus> all;
  for (const Corpus& pattern : patterns) {
    std::string text;
    while (text.size() < kPart) text += pattern.text;
    all.push_back({pattern.name, text});
  }
  return all;
}

void set_bytes(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

void bench_encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer.encode(text, {.add_special = false}).size();
  set_bytes(state, text.size());
  state.counters["tokens"] = static_cast<double>(tokens);
}

void bench_decode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = false});
  if (tokenizer.decode(tokens) != text) state.SkipWithError("decoding does not give the text back");
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.decode(tokens));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(tokens.size()));
}

/// The same vocabulary with a list of merges, one for each token, as GGUF and tokenizer.json have.
TokenizerSpec with_merge_list(TokenizerSpec spec) {
  std::map<std::string_view, size_t> id_of;
  for (size_t id = 0; id < spec.tokens.size(); ++id) id_of.emplace(spec.tokens[id], id);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string_view token = spec.tokens[id];
    for (size_t cut = token.size() - 1; cut > 0; --cut) {
      const auto left = id_of.find(token.substr(0, cut));
      const auto right = id_of.find(token.substr(cut));
      if (left == id_of.end() || right == id_of.end()) continue;
      spec.merges.push_back(std::string(token.substr(0, cut)) + ' ' +
                            std::string(token.substr(cut)));
      break;
    }
  }
  spec.merges_by_rank = false;
  return spec;
}

void bench_load(benchmark::State& state, const TokenizerSpec& spec) {
  for (auto _ : state) {
    state.PauseTiming();
    TokenizerSpec copy = spec;
    state.ResumeTiming();
    benchmark::DoNotOptimize(hasten::text::make_tokenizer(std::move(copy)));
  }
}

int run(int /*argc*/, char** /*argv*/) {
  const std::vector<Corpus> texts = corpora();
  const std::vector<Corpus> hostile = runs();
  const std::map<std::string, TokenizerSpec> specs = {
      {"llama3", hasten::text::testing::llama3_spec()},
      {"qwen2", hasten::text::testing::qwen2_spec()},
      {"phi2", hasten::text::parse_tokenizer_json(
                   hasten::text::testing::read_tokenizer_file("hf/phi-2/tokenizer.json"))}};
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  for (const auto& [name, spec] : specs) {
    tokenizers.push_back(hasten::text::make_tokenizer(spec));
    const Tokenizer& tokenizer = *tokenizers.back();
    const auto add = [&](const std::string& what, auto&& f) {
      benchmark::RegisterBenchmark((name + "/" + what).c_str(), f)->Unit(benchmark::kMillisecond);
    };
    for (const Corpus& corpus : texts) {
      add("encode/" + corpus.name,
          [&](benchmark::State& state) { bench_encode(state, tokenizer, corpus.text); });
      add("decode/" + corpus.name,
          [&](benchmark::State& state) { bench_decode(state, tokenizer, corpus.text); });
    }
    for (const Corpus& corpus : hostile) {
      add("run/" + corpus.name,
          [&](benchmark::State& state) { bench_encode(state, tokenizer, corpus.text); });
    }
    add("load/ranks", [&, &spec = spec](benchmark::State& state) { bench_load(state, spec); });
    if (!spec.merges_by_rank) continue;
    add("load/merges",
        [listed = with_merge_list(spec)](benchmark::State& state) { bench_load(state, listed); });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return hasten::bench::run_bench(argc, argv, run); }
