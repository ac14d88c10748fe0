// SPDX-License-Identifier: Apache-2.0
// Hands texts, and the parts of long ones, to threads that take the next one when they are free.
#include "text/parallel_encode.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "text/parted_text.h"

namespace hasten::text {
namespace {

// Texts from here on are parted, into parts that are worth the start of a thread: 10 ms of work.
constexpr size_t kLongText = size_t{1} << 20;
constexpr int kMaxThreads = 256;

/// do_job(i) for each i below `num_jobs`, on this thread and `num_threads - 1` others. Throws what
/// the first job that failed threw, by number.
void run_jobs(size_t num_jobs, int num_threads, const std::function<void(size_t)>& do_job) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(num_jobs);
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < num_jobs;) {
      try {
        do_job(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const size_t num_helpers =
        std::min(num_jobs, static_cast<size_t>(num_threads)) - (num_jobs > 0 ? 1 : 0);
    try {
      for (size_t i = 0; i < num_helpers; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // The machine gives no more threads: those that there are do it all.
    }
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

int threads_of(int asked) {
  if (asked < 0 || asked > kMaxThreads) {
    fail(ErrorCode::invalid_argument, "{} threads to tokenize with; 0 to {} are possible", asked,
         kMaxThreads);
  }
  if (asked > 0) return asked;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

}  // namespace

std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts,
                                             const EncodeOptions& options, int num_threads) {
  if (!options.literal.empty()) {
    fail(ErrorCode::invalid_argument,
         "{} literal ranges for {} texts: they are those of one text, which is encoded by itself",
         options.literal.size(), texts.size());
  }
  const int threads = threads_of(num_threads);
  std::vector<std::vector<int32_t>> tokens(texts.size());
  std::vector<size_t> whole;     // texts that are one job
  std::exception_ptr long_text;  // what the first long one threw, behind those of `whole`
  for (size_t i = 0; i < texts.size(); ++i) {
    if (threads == 1 || texts[i].size() < kLongText) {
      whole.push_back(i);
      continue;
    }
    const size_t num_parts =
        std::min(static_cast<size_t>(threads), texts[i].size() / (kLongText / 2));
    try {
      PartedText parted(tokenizer, texts[i], options, num_parts);
      run_jobs(parted.num_jobs(), threads, [&](size_t job) { parted.do_job(job); });
      tokens[i] = parted.take_tokens();
    } catch (...) {
      long_text = std::current_exception();
      break;
    }
  }
  run_jobs(whole.size(), threads,
           [&](size_t job) { tokens[whole[job]] = tokenizer.encode(texts[whole[job]], options); });
  if (long_text) std::rethrow_exception(long_text);
  return tokens;
}

}  // namespace hasten::text
