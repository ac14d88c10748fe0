// SPDX-License-Identifier: Apache-2.0
// text_bench [Google Benchmark flags]: encoding, decoding and loading of published vocabularies
// over English, Chinese and source code, one thread. Needs the shared inputs that the tests use.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hasten_test/paths.h"
#include "run_bench.h"
#include "text/character_runs.h"
#include "text/pre_tokenizer.h"
#include "text/shared_vocabularies.h"
#include "text/token_spelling.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using hasten::text::Tokenizer;
using hasten::text::TokenizerKind;
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
  std::vector<Corpus> all;
  for (const auto& run : hasten::text::testing::kCharacterRuns) {
    all.push_back({std::string(run.name), hasten::text::testing::repeated(run.unit, kPart)});
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

/// The milliseconds of each run, the best of three; the time of the benchmark is that of all.
void bench_runs(benchmark::State& state, const TokenizerSpec& spec,
                const std::vector<Corpus>& hostile) {
  const auto tokenizer = hasten::text::make_tokenizer(spec);
  const auto cpu_ms = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  };
  for (auto _ : state) {
    double slowest = 0;
    for (const Corpus& corpus : hostile) {
      double best = 1e9;
      for (int i = 0; i < 3; ++i) {
        const double start = cpu_ms();
        benchmark::DoNotOptimize(tokenizer->encode(corpus.text, {.add_special = false}));
        best = std::min(best, cpu_ms() - start);
      }
      slowest = std::max(slowest, best);
      state.counters[corpus.name + "_ms"] = best;
    }
    state.counters["slowest_ms"] = slowest;
  }
}

/// The tokens of `spec`, which is byte-level, in a vocabulary of another kind.
TokenizerSpec as_kind(const TokenizerSpec& spec, TokenizerKind kind) {
  TokenizerSpec other;
  other.kind = kind;
  std::set<std::string> known;
  const auto add = [&](std::string token) {
    if (!known.insert(token).second) return;
    other.scores.push_back(-static_cast<float>(other.tokens.size()) / 1000);
    other.tokens.push_back(std::move(token));
  };
  if (kind == TokenizerKind::word_piece) other.continuing_subword_prefix = "##";
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto bytes = hasten::text::from_gpt2_alphabet(spec.tokens[id]);
    if (!bytes) continue;
    if (kind == TokenizerKind::rwkv) {
      if (id < 65536) add(hasten::text::to_python_bytes(*bytes));
    } else if (kind == TokenizerKind::word_piece) {
      const bool begins = bytes->size() > 1 && bytes->front() == ' ';
      add(begins ? bytes->substr(1) : "##" + *bytes);
    } else if (bytes->size() <= 16) {  // as long as SentencePiece makes them
      std::string piece;
      for (const char c : *bytes) piece += c == ' ' ? "\u2581" : std::string(1, c);
      add(std::move(piece));
    }
  }
  other.unk = 0;
  return other;
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
  // From the bytes of a file on.
  const auto add_file = [](const char* name, const char* file) {
    benchmark::RegisterBenchmark(name, [bytes = hasten::text::testing::read_tokenizer_file(file)](
                                           benchmark::State& state) {
      for (auto _ : state) {
        benchmark::DoNotOptimize(
            hasten::text::make_tokenizer(hasten::text::parse_tiktoken_ranks(bytes, "llama-bpe")));
      }
    })->Unit(benchmark::kMillisecond);
  };
  add_file("llama3/load/file", "llama3/tokenizer.model");
  add_file("qwen2/load/file", "qwen/qwen.tiktoken");
  const auto add_runs = [&](const std::string& name, auto&& make_spec) {
    benchmark::RegisterBenchmark(
        ("runs/" + name).c_str(),
        [&hostile, make_spec](benchmark::State& state) { bench_runs(state, make_spec(), hostile); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  };
  const TokenizerSpec& llama3 = specs.at("llama3");
  std::set<const std::string_view*> seen;
  for (const auto& known : hasten::text::known_pre_tokenizers()) {
    if (!seen.insert(known.expressions.data()).second) continue;
    add_runs(std::string(known.name), [&llama3, &known] {
      TokenizerSpec spec = llama3;
      spec.pre = std::string(known.name);
      return spec;
    });
  }
  const std::pair<const char*, TokenizerKind> kinds[] = {
      {"kind/unigram", TokenizerKind::unigram},
      {"kind/word_piece", TokenizerKind::word_piece},
      {"kind/rwkv", TokenizerKind::rwkv}};
  for (const auto& [name, kind] : kinds) {
    add_runs(name, [&llama3, kind = kind] { return as_kind(llama3, kind); });
  }
  add_runs("kind/sentencepiece_bpe", [] {
    return hasten::text::parse_sentencepiece_model(
        hasten::text::testing::read_tokenizer_file("llama2/tokenizer.model"));
  });
  add_runs("kind/character_bpe", [&llama3] {
    TokenizerSpec spec = with_merge_list(llama3);
    spec.kind = TokenizerKind::character_bpe;
    spec.words_in_gpt2_alphabet = true;
    return spec;
  });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return hasten::bench::run_bench(argc, argv, run); }
