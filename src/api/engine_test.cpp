// SPDX-License-Identifier: Apache-2.0
// The front door on the demonstration model.
#include "hasten/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "api/model_files.h"
#include "hasten_test/temporary_folder.h"
#include "weights/gguf_writer.h"

namespace hasten {
namespace {

using ::testing::HasSubstr;

struct CopyEntry {
  weights::GgufWriter& writer;
  const weights::Metadata& metadata;
  std::string_view key;

  void operator()(uint64_t value) const { writer.set_u32(key, static_cast<uint32_t>(value)); }
  void operator()(int64_t value) const { writer.set_u32(key, static_cast<uint32_t>(value)); }
  void operator()(double value) const { writer.set_f32(key, static_cast<float>(value)); }
  void operator()(bool value) const { writer.set_bool(key, value); }
  void operator()(std::string_view value) const { writer.set_string(key, value); }
  void operator()(const std::vector<std::string_view>& values) const {
    writer.set_strings(key, std::vector<std::string>(values.begin(), values.end()));
  }
  void operator()(const weights::NumberArray&) const {
    const std::vector<int64_t> values = metadata.get_i64s(key, 1 << 20);
    writer.set_i32s(key, std::vector<int32_t>(values.begin(), values.end()));
  }
};

/// The demonstration model with `num_rows` rows of zeros behind those of its vocabulary, as models
/// have them whose makers rounded up, and `num_tokens` tokens behind those, as added ones.
void write_padded_model(const std::filesystem::path& path, int64_t num_rows,
                        int64_t num_tokens = 0) {
  const auto model = api::open_model({});
  weights::GgufWriter writer(path);
  for (const auto& [key, value] : model->metadata().entries()) {
    if (key == "llama.vocab_size") continue;
    if (key == "tokenizer.ggml.tokens") {
      const auto& names = std::get<std::vector<std::string_view>>(value.data);
      std::vector<std::string> longer(names.begin(), names.end());
      for (int64_t i = 0; i < num_tokens; ++i)
        longer.push_back("<|added " + std::to_string(i) + "|>");
      writer.set_strings(key, longer);
      continue;
    }
    if (key == "tokenizer.ggml.token_type") {
      const std::vector<int64_t> values = model->metadata().get_i64s(key, 1 << 20);
      std::vector<int32_t> types(values.begin(), values.end());
      types.resize(types.size() + static_cast<size_t>(num_tokens), 3);
      writer.set_i32s(key, types);
      continue;
    }
    std::visit(CopyEntry{writer, model->metadata(), key}, value.data);
  }
  for (const auto& [name, tensor] : model->tensors()) {
    Shape shape = tensor.shape();
    if (name == "token_embd.weight") shape = Shape{tensor.dim(0) + num_rows, tensor.dim(1)};
    writer.declare(name, tensor.dtype(), shape);
  }
  for (const auto& [name, tensor] : model->tensors()) {
    writer.append({tensor.row(0), static_cast<size_t>(tensor.num_bytes())});
    if (name != "token_embd.weight" || num_rows == 0) continue;
    writer.append(std::vector<std::byte>(static_cast<size_t>(num_rows * tensor.row_bytes())));
  }
  writer.finish();
}

Request question(const Engine& engine) {
  Request request;
  request.prompt =
      engine
          .render_chat(
              {.messages = R"([{"role": "user", "content": "What is the capital of France?"}])"})
          .tokens;
  request.sampling.temperature = 0;
  return request;
}

TEST(Engine, VocabularyIsWhatARequestMayName) {
  const testing::TemporaryFolder folder;
  write_padded_model(folder.path() / "padded.gguf", 64);
  Engine engine({.model = folder.path() / "padded.gguf"});
  EXPECT_EQ(engine.model().vocab_size, Engine().model().vocab_size);
  EXPECT_EQ(engine.generate(question(engine)), "The capital of France is Paris.");

  Request request = question(engine);
  request.max_tokens = 1;
  request.prompt.back() = static_cast<int32_t>(engine.model().vocab_size) - 1;
  EXPECT_NO_THROW(engine.generate(request));
  ++request.prompt.back();
  EXPECT_THROW(engine.generate(request), Error);
}

TEST(Engine, BringsMemoryInBeforehandOnRequest) {
  std::vector<double> fractions;
  const auto progress = [&](std::string_view stage, double fraction) {
    if (stage.find("memory") != std::string_view::npos) fractions.push_back(fraction);
  };
  Engine as_needed({.kv_cache_bytes = 1 << 24, .progress = progress});
  EXPECT_TRUE(fractions.empty());
  Engine beforehand({.kv_cache_bytes = 1 << 24, .pretouch = true, .progress = progress});
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::ranges::is_sorted(fractions));
  EXPECT_EQ(fractions.back(), 1);
  const Request request = question(as_needed);
  EXPECT_EQ(beforehand.generate(request), as_needed.generate(request));
}

TEST(Engine, WeightsInTheFileGiveTheSameText) {
  Engine packed;
  Engine mapped({.repack = false});
  EXPECT_EQ(packed.model().mapped_bytes, 0);
  // All but norms is multiplied, the embedding too: it is the output.
  EXPECT_GT(mapped.model().mapped_bytes, mapped.model().weight_bytes * 9 / 10);
  EXPECT_LE(mapped.model().mapped_bytes, mapped.model().weight_bytes);
  Request request = question(packed);
  request.ignore_eos = true;
  request.max_tokens = 64;
  EXPECT_EQ(mapped.generate(request), packed.generate(request));
}

TEST(Engine, TokensWithoutEmbeddingsAreRefused) {
  const testing::TemporaryFolder folder;
  write_padded_model(folder.path() / "added.gguf", 1, 9);
  Engine engine({.model = folder.path() / "added.gguf"});
  EXPECT_EQ(engine.model().vocab_size, Engine().model().vocab_size + 1);
  EXPECT_EQ(engine.generate(question(engine)), "The capital of France is Paris.");
  Request request = question(engine);
  request.prompt.back() = static_cast<int32_t>(engine.model().vocab_size);
  EXPECT_THROW(engine.generate(request), Error);

  write_padded_model(folder.path() / "other.gguf", 0, 257);
  try {
    const Engine other({.model = folder.path() / "other.gguf"});
    FAIL() << other.model().vocab_size;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("they do not belong together"));
  }
}

TEST(Engine, BlocksOnTheirWayToADiskNeedMemoryToo) {
  const testing::TemporaryFolder folder;
  try {
    const Engine engine({.kv_cache_bytes = int64_t{1} << 50, .kv_disk = folder.path() / "store"});
    FAIL() << engine.model().kv_cache_bytes;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_THAT(error.what(), HasSubstr(", blocks for --kv-disk 512.0 MiB, and"));
  }
}

TEST(Engine, GenerateThrowsWhenItsAnswerIsCutShort) {
  Engine engine({.devices = "reference"});  // slow, so that it is still at it
  auto answer = std::async(std::launch::async, [&] {
    Request request = question(engine);
    request.ignore_eos = true;
    return engine.generate(std::move(request));
  });
  while (engine.stats().steps == 0) std::this_thread::yield();
  EXPECT_FALSE(engine.drain(0));
  try {
    const std::string text = answer.get();
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("cancelled"));
  }
}

}  // namespace
}  // namespace hasten
