// SPDX-License-Identifier: Apache-2.0
// Loading, encoding and decoding on a small stack: threads of other languages have no more, and
// nothing here may recurse by what it reads.
#include <gtest/gtest.h>
#include <pthread.h>

#include <exception>
#include <functional>
#include <string>

#include "base/error.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 1024 * 1024;  // the sanitizers put red zones into every frame
#else
constexpr size_t kStackBytes = 256 * 1024;
#endif

/// What `work` threw is thrown here.
void run_on_small_stack(const std::function<void()>& work) {
  struct Job {
    const std::function<void()>& work;
    std::exception_ptr error;
  } job{work, nullptr};
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread{};
  const auto run = [](void* data) -> void* {
    auto& own = *static_cast<Job*>(data);
    try {
      own.work();
    } catch (...) {
      own.error = std::current_exception();
    }
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &job), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  if (job.error) std::rethrow_exception(job.error);
}

std::string hostile_text() {
  std::string text;
  for (const std::string_view piece :
       {"a", " ", "\n", "7", "!", "\u4E2D", "\u0301", "\x80", "aA"}) {
    for (int i = 0; i < 20'000; ++i) text += piece;
  }
  return text;
}

TEST(SmallStack, HoldsPublishedTokenizers) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const std::string text = hostile_text();
  run_on_small_stack([&] {
    for (const auto& make_spec :
         {testing::llama3_spec, testing::qwen2_spec, +[] {
            return parse_tokenizer_json(testing::read_tokenizer_file("hf/llama2/tokenizer.json"));
          }}) {
      const auto tokenizer = make_tokenizer(make_spec());
      const auto tokens = tokenizer->encode(text, {.add_special = false});
      EXPECT_GT(tokens.size(), 1000U);
      EXPECT_FALSE(tokenizer->decode(tokens).empty());
    }
  });
}

TEST(SmallStack, HoldsJsonAsDeepAsItMayBe) {
  std::string nested = R"({"model": )";
  for (int i = 0; i < 100'000; ++i) nested += "[";
  run_on_small_stack([&] { EXPECT_THROW(parse_tokenizer_json(nested), Error); });
}

}  // namespace
}  // namespace hasten::text
