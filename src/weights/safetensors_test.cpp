// SPDX-License-Identifier: Apache-2.0
// Tests of safetensors and Hugging Face folders: real ones, damaged and lying ones.
#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "hasten_test/paths.h"
#include "hasten_test/temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/checkpoint_bytes_test.h"
#include "weights/hf_folder.h"

namespace hasten::weights {
namespace {

using ::testing::HasSubstr;

std::string safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += header;
  for (size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

const char* const kGood = R"({"__metadata__":{"format":"pt"},)"
                          R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[16,28]},)"
                          R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                          R"("scalar":{"dtype":"F16","shape":[],"data_offsets":[28,30]}}      )";

std::string safetensors_error(const std::string& bytes) {
  const auto image = aligned_copy(bytes);
  try {
    (void)parse_safetensors(image, "m");
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Safetensors, ReadsAHandmadeFile) {
  // Headers of every length modulo 8: views where the alignment allows, copies elsewhere.
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    const auto bytes = aligned_copy(safetensors(kGood + std::string(spaces, ' '), 30));
    const SafetensorsFile file = parse_safetensors(bytes, "m");
    ASSERT_EQ(file.tensors.size(), 3U);
    EXPECT_EQ(file.tensors[0].name, "a");
    EXPECT_EQ(file.tensors[1].name, "b");
    EXPECT_EQ(file.tensors[1].tensor.shape(), (Shape{2, 3}));
    EXPECT_EQ(file.tensors[1].tensor.row(1)[0], std::byte{22});
    EXPECT_EQ(file.tensors[2].tensor.shape(), Shape{});
    EXPECT_EQ(file.tensors[2].tensor.num_bytes(), 2);
    for (const NamedTensor& named : file.tensors) {
      const auto size = static_cast<uintptr_t>(info(named.tensor.dtype()).block_bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(named.tensor.data()) % size, 0U);
    }
  }
}

TEST(Safetensors, SaysWhatIsWrong) {
  const auto one = [](const std::string& entry) {
    return safetensors("{\"w\":" + entry + "}", 16);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"short", "5 bytes are less than its header length"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10),
       "a header of 18446744073709551615 bytes; the limit is 100000000"},
      {safetensors("[]", 0), "its header is not a JSON object"},
      {safetensors("{", 0), "m is not valid JSON"},
      {safetensors("{\"w\":" + std::string(200, '[') + "}", 0), "nests deeper than 8 levels"},
      {one("3"), "tensor \"w\" is not an object"},
      {one(R"({"shape":[4],"data_offsets":[0,16]})"), "tensor \"w\" lacks dtype"},
      {one(R"({"dtype":"F32","data_offsets":[0,16]})"), "tensor \"w\" lacks shape"},
      {one(R"({"dtype":"F32","shape":[4]})"), "tensor \"w\" lacks data_offsets"},
      {one(R"({"dtype":7,"shape":[4],"data_offsets":[0,16]})"), "a dtype that is not a string"},
      {one(R"({"dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16]})"),
       "tensor \"w\" has dtype \"F8_E4M3\"; F32, F16 and BF16 are read"},
      {one(R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})"), "shape is not an array"},
      {one(R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})"), "shape holds something"},
      {one(R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})"), "shape holds something"},
      {one(R"({"dtype":"F32","shape":[1,1,1,1,4],"data_offsets":[0,16]})"), "has 5 dimensions"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})"), "not [begin, end]"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,8,16]})"), "not [begin, end]"},
      {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})"),
       "of shape [3] in f32 does not have the 16 bytes"},
      {one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]})"),
       "does not have the 16 bytes"},
      {one(R"({"dtype":"F32","shape":[8],"data_offsets":[0,32]})"),
       "its tensors take 32 bytes, 16 follow"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
       "its tensors take 8 bytes, 16 follow"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,16]})"),
       "begins at byte 8 of the data; the one before it ends at 0"},
      {safetensors(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                   R"("v":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                   16),
       "tensor \"v\" begins at byte 8 of the data; it overlaps the one that ends at 12"},
  };
  for (const auto& [bytes, message] : cases)
    EXPECT_THAT(safetensors_error(bytes), HasSubstr(message));
}

TEST(Safetensors, EveryTruncationIsOneError) {
  const std::string bytes = safetensors(kGood, 30);
  ASSERT_EQ(safetensors_error(bytes), "no error");
  for (size_t length = 0; length < bytes.size(); ++length)
    ASSERT_NE(safetensors_error(bytes.substr(0, length)), "no error") << length;
}

TEST(Safetensors, BitFlipsAreErrorsOrReadable) {
  const std::string bytes = safetensors(kGood, 30);
  std::mt19937 random(5);
  uint64_t sum = 0;
  int loaded = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    auto image = aligned_copy(bytes);
    for (uint64_t flips = 1 + random() % 2; flips > 0; --flips)
      image[random() % image.size()] ^= static_cast<std::byte>(1 << random() % 8);
    try {
      const SafetensorsFile file = parse_safetensors(image, "m");
      for (const NamedTensor& named : file.tensors) {
        const auto* data = static_cast<const uint8_t*>(named.tensor.data());
        for (int64_t i = 0; i < named.tensor.num_bytes(); ++i) sum += data[i];
      }
      ++loaded;
    } catch (const Error& error) {
      ASSERT_NE(error.code(), ErrorCode::internal) << error.what();
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_LT(loaded, 19900);
  EXPECT_GT(sum, 0U);
}

// --- Folders -------------------------------------------------------------------------------------

class HfFolder : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string open_error() const {
    try {
      (void)open_checkpoint(folder_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  static std::string one_tensor(const std::string& name) {
    return safetensors("{\"" + name + R"(":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
                       16);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(HfFolder, OpensASingleFile) {
  EXPECT_THAT(open_error(), HasSubstr("config.json is missing"));
  write("config.json", "[]");
  EXPECT_THAT(open_error(), HasSubstr("config.json is not a JSON object"));
  write("config.json", R"({"model_type":"llama"})");
  EXPECT_THAT(open_error(), HasSubstr("has neither model.safetensors nor"));
  write("model.safetensors", one_tensor("w"));
  write("tokenizer.json", "{}");
  const auto checkpoint = open_checkpoint(folder_.path());
  EXPECT_EQ(checkpoint->format(), Checkpoint::Format::safetensors);
  EXPECT_EQ(checkpoint->config()->at("model_type").as_string(), "llama");
  EXPECT_EQ(checkpoint->find("w")->num_bytes(), 16);
  EXPECT_TRUE(checkpoint->metadata().entries().empty());
  EXPECT_EQ(checkpoint->file("tokenizer.json"), "{}");
  EXPECT_EQ(checkpoint->file("absent.json"), std::nullopt);
  for (const char* name : {"", ".", "..", "../config.json", "/etc/hostname", "a\\b"})
    EXPECT_THROW((void)checkpoint->file(name), Error) << name;
  std::filesystem::resize_file(folder_.path() / "tokenizer.json", (64 << 20) + 1);
  EXPECT_THROW((void)checkpoint->file("tokenizer.json"), Error);
  EXPECT_THROW((void)open_checkpoint(folder_.path() / "model.safetensors"), Error);
}

TEST_F(HfFolder, OpensShards) {
  write("config.json", "{}");
  const auto index = [&](const std::string& map) {
    write("model.safetensors.index.json", R"({"weight_map":)" + map + "}");
  };
  index("3");
  EXPECT_THAT(open_error(), HasSubstr("no object weight_map"));
  index(R"({"a":"../1.safetensors"})");
  EXPECT_THAT(open_error(), HasSubstr("which is no file of this folder"));
  index(R"({"a":"\u001b.safetensors"})");
  EXPECT_THAT(open_error(), HasSubstr("which is no file of this folder"));
  index(R"({"a":7})");
  EXPECT_THAT(open_error(), HasSubstr("which is no file of this folder"));
  const std::string long_name(300, 'n');
  index(R"({"a":")" + long_name + "\"}");
  EXPECT_THAT(open_error(), HasSubstr(long_name + " is missing"));
  index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  write("1.safetensors", one_tensor("a"));
  EXPECT_THAT(open_error(), HasSubstr("2.safetensors is missing"));
  write("2.safetensors", one_tensor("c"));
  EXPECT_THAT(open_error(), HasSubstr("tensor \"b\" is not in 2.safetensors"));
  write("2.safetensors", one_tensor("a"));
  EXPECT_THAT(open_error(), HasSubstr("tensor \"a\" lies in an earlier shard too"));
  write("2.safetensors", one_tensor("b"));
  const auto checkpoint = open_checkpoint(folder_.path());
  EXPECT_EQ(checkpoint->tensors().size(), 2U);
  EXPECT_EQ(checkpoint->total_bytes(), 32);
}

// What is left of a repository's files where Git LFS has fetched none of them.
TEST_F(HfFolder, SaysWhatIsNotFetched) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
  const auto expect_refusal = [&](const std::string& name) {
    EXPECT_THAT(open_error(), HasSubstr(name + " is not there yet, only what Git LFS put in its "
                                               "place: git lfs pull fetches it"));
  };
  write("config.json", pointer);
  expect_refusal("config.json");
  write("config.json", "{}");
  write("model.safetensors", pointer);
  expect_refusal("model.safetensors");
  write("model.safetensors", one_tensor("w"));
  write("generation_config.json", pointer);  // which nothing reads
  EXPECT_EQ(open_checkpoint(folder_.path())->tensors().size(), 1U);
  std::filesystem::remove(folder_.path() / "model.safetensors");
  write("model.safetensors.index.json", pointer);
  expect_refusal("model.safetensors.index.json");
  write("model.safetensors.index.json", R"({"weight_map":{"a":"1.safetensors"}})");
  write("1.safetensors", pointer);
  expect_refusal("1.safetensors");
}

TEST(HfFolderReal, HasTheTensorsOfItsGguf) {
  HASTEN_NEED_SHARED("models/hasten-tiny/hf");
  const auto folder = hasten::testing::shared_dir() / "models/hasten-tiny";
  const auto hf = open_checkpoint(folder / "hf");
  const auto gguf = open_checkpoint(folder / "hasten-tiny-bf16.gguf");
  EXPECT_EQ(hf->config()->at("hidden_size").as_int64(), 256);
  EXPECT_TRUE(hf->file("tokenizer.json").has_value());
  const std::pair<const char*, const char*> same[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
      {"model.layers.4.mlp.down_proj.weight", "blk.4.ffn_down.weight"},
  };
  for (const auto& [hf_name, gguf_name] : same) {
    const Tensor* a = hf->find(hf_name);
    const Tensor* b = gguf->find(gguf_name);
    ASSERT_TRUE(a != nullptr && b != nullptr) << hf_name;
    ASSERT_EQ(a->shape(), b->shape());
    ASSERT_EQ(a->num_bytes(), b->num_bytes());
    EXPECT_EQ(std::memcmp(a->data(), b->data(), static_cast<size_t>(a->num_bytes())), 0) << hf_name;
  }
}

}  // namespace
}  // namespace hasten::weights
