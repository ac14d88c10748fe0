// SPDX-License-Identifier: Apache-2.0
// hasten bench load: how long a model takes to be ready, and its weights of that, beside the time
// that memory takes to read and write as much, and beside a mere copy.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fresh_memory.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/median.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "hasten/machine.h"
#include "weights/checkpoint.h"

namespace hasten::cli {
namespace {

struct LoadingOptions {
  EngineOptions engine;
  int32_t repeat = 5;
  bool json = false;
};

/// One of the rounds. Times are seconds.
struct Loading {
  double ready = 0;
  double weights = 0;
  double copy = 0;   // of as many bytes
  double limit = 0;  // of either
  double read_bytes_per_second = 0;
};

double weights_fraction(const Loading& round) { return round.limit / round.weights; }
double copy_fraction(const Loading& round) { return round.limit / round.copy; }

/// Of a number that each round has.
template <class F>
double median_of(const std::vector<Loading>& rounds, F&& number) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const Loading& round : rounds) values.push_back(std::invoke(number, round));
  return median(std::move(values));
}

/// The median of each number.
Loading medians(const std::vector<Loading>& rounds) {
  return {.ready = median_of(rounds, &Loading::ready),
          .weights = median_of(rounds, &Loading::weights),
          .copy = median_of(rounds, &Loading::copy),
          .limit = median_of(rounds, &Loading::limit),
          .read_bytes_per_second = median_of(rounds, &Loading::read_bytes_per_second)};
}

/// Part of a matrix in the file, and where it is copied to.
struct Piece {
  const std::byte* from;
  int64_t num_bytes;
  int64_t to;
};

/// The first num_bytes of the matrices, in pieces that stay in a core's cache.
std::vector<Piece> pieces_of(const weights::Checkpoint& checkpoint, int64_t num_bytes) {
  constexpr int64_t kPieceBytes = 256 * 1024;
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<size_t>(num_bytes / kPieceBytes) + checkpoint.tensors().size());
  int64_t to = 0;
  for (const weights::NamedTensor& entry : checkpoint.tensors()) {
    if (entry.tensor.shape().rank() != 2) continue;
    const auto* data = static_cast<const std::byte*>(entry.tensor.data());
    const int64_t size = std::min(entry.tensor.num_bytes(), num_bytes - to);
    for (int64_t at = 0; at < size; at += kPieceBytes) {
      pieces.push_back({data + at, std::min(kPieceBytes, size - at), to + at});
    }
    to += size;
  }
  return pieces;
}

/// Seconds that so many threads take to copy so many bytes of the model's matrices to new memory:
/// what packing does to memory, pages that the system has to clear included, without any
/// arithmetic. The file's pages are mapped before, as many are when packing begins.
double copy_seconds(const std::filesystem::path& model, int64_t num_bytes, int32_t num_threads) {
  constexpr int64_t kPage = 4096;
  const auto checkpoint = weights::open_checkpoint(model);
  const std::vector<Piece> pieces = pieces_of(*checkpoint, num_bytes);
  for (const Piece& piece : pieces) {
    for (int64_t at = 0; at < piece.num_bytes; at += kPage) {
      (void)static_cast<const volatile std::byte*>(piece.from)[at];
    }
  }
  const FreshMemory memory(std::max<int64_t>(1, num_bytes));
  if (memory.data() == nullptr) {
    fail(ErrorCode::resource_exhausted, "no memory to copy {} of weights", size_text(num_bytes));
  }
  std::atomic<size_t> next{0};
  const auto copy = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      std::memcpy(memory.data() + pieces[i].to, pieces[i].from,
                  static_cast<size_t>(pieces[i].num_bytes));
    }
  };
  const int64_t began = monotonic_us();
  std::vector<std::jthread> others;
  for (int32_t i = 1; i < num_threads; ++i) others.emplace_back(copy);
  copy();
  others.clear();
  return static_cast<double>(monotonic_us() - began) * 1e-6;
}

void print_json(const ModelInfo& model, const std::vector<Loading>& rounds) {
  const Loading median = medians(rounds);
  json::Array fractions;
  for (const Loading& round : rounds) fractions.push_back(weights_fraction(round));
  fmt::print("{}\n", json_text(json::Object{{"model", model.name},
                                            {"weight_types", model.weight_types},
                                            {"device", model.device},
                                            {"packed_bytes", model.bytes_per_token},
                                            {"read_bytes_per_second", median.read_bytes_per_second},
                                            {"limit_seconds", median.limit},
                                            {"weights_seconds", median.weights},
                                            {"fraction", median_of(rounds, weights_fraction)},
                                            {"fractions", std::move(fractions)},
                                            {"copy_seconds", median.copy},
                                            {"copy_fraction", median_of(rounds, copy_fraction)},
                                            {"ready_seconds", median.ready}}));
}

void print_table(const ModelInfo& model, const std::vector<Loading>& rounds) {
  const Loading median = medians(rounds);
  fmt::print("{}: {}, {} packed, on {}; memory reads {:.1f} GB/s\n\n", model.name,
             model.weight_types, size_text(model.bytes_per_token), model.device,
             median.read_bytes_per_second * 1e-9);
  fmt::print("{:<8} {:>9} {:>9} {:>9}\n", "", "ms", "limit", "fraction");
  const auto row = [&](const char* name, double seconds, double fraction) {
    fmt::print("{:<8} {:>9.1f} {:>9.1f} {:>7.0f} %\n", name, seconds * 1e3, median.limit * 1e3,
               100 * fraction);
  };
  row("weights", median.weights, median_of(rounds, weights_fraction));
  row("copy", median.copy, median_of(rounds, copy_fraction));
  fmt::print("{:<8} {:>9.1f}\n", "ready", median.ready * 1e3);
}

int bench_load(const LoadingOptions& options) {
  log::set_level(log::Level::warn);
  check_model(options.engine.model);
  if (options.engine.model.empty()) {
    fail_param("model", "bench load measures a model of a file: hasten bench load MODEL");
  }
  const int32_t threads =
      options.engine.threads > 0 ? options.engine.threads : describe_machine().num_threads;
  CeilingMeter meter(threads);
  meter.measure();  // which way to read is the faster one
  ModelInfo model;
  double rate = meter.read_bytes_per_second();
  const auto load = [&] {
    Loading round;
    {
      const int64_t began = monotonic_us();
      const Engine engine(options.engine);
      round.ready = static_cast<double>(monotonic_us() - began) * 1e-6;
      model = engine.model();
    }
    if (model.mapped_bytes > 0) {
      fail(ErrorCode::resource_exhausted,
           "memory is short: {} of the weights were not packed, but are used from the file, so "
           "there is no loading to measure; free some, or give a smaller model",
           size_text(model.mapped_bytes));
    }
    const int64_t packed_bytes = model.bytes_per_token;  // as many are written, or some more
    round.weights = static_cast<double>(model.weights_us) * 1e-6;
    round.copy = copy_seconds(options.engine.model, packed_bytes, threads);
    const double before = std::exchange(rate, meter.read_bytes_per_second());
    round.read_bytes_per_second = 2 / (1 / before + 1 / rate);
    round.limit = 2 * static_cast<double>(packed_bytes) / round.read_bytes_per_second;
    return round;
  };
  load();  // the file is in the system's cache now
  std::vector<Loading> rounds;
  ProgressBar bar;
  for (int32_t i = 0; i < options.repeat; ++i) {
    rounds.push_back(load());
    bar.show("bench", static_cast<double>(i + 1) / options.repeat);
  }
  options.json ? print_json(model, rounds) : print_table(model, rounds);
  return 0;
}

}  // namespace

void add_bench_load(Command bench) {
  const Command command =
      bench.add("load", "Measure how long a model takes to be ready, and its weights of that");
  auto options = std::make_shared<LoadingOptions>();
  command.option("model MODEL", options->engine.model, "A .gguf file or a folder");
  add_threads_flag(command, options->engine.threads);
  command.option("--repeat N", options->repeat, whole_number(1, 1000),
                 "Load it so many times; medians are reported (default: {})");
  command.flag("--json", options->json, "Print one JSON object");
  command.footer(
      "A first load, not counted, brings the file into the system's cache. 'weights' is the time\n"
      "to check them and to pack them for the kernels; of a file of 16 MiB and more, pages are\n"
      "mapped while the tokenizer is read and, while time is left, memory is brought in: what is\n"
      "not done of both when the tokenizer is there counts as 'weights'. Its limit is what memory "
      "takes to read as many bytes and to\n"
      "write them, at the rate it reads with before and after each round. 'copy' is what as many\n"
      "threads take to copy as many bytes of the file, whose pages are mapped, to new memory,\n"
      "which the system clears. 'ready' is all that comes before the first request: the "
      "tokenizer,\n"
      "the weights, addresses for keys, values and the largest step, whose pages the system gives\n"
      "when they are used.");
  command.run([options] { return bench_load(*options); });
}

}  // namespace hasten::cli
