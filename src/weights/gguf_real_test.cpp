// SPDX-License-Identifier: Apache-2.0
// Tests of the GGUF reader and the codecs on real files, most of them written by other tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hasten_test/paths.h"
#include "quant/codec.h"
#include "weights/checkpoint.h"
#include "weights/checkpoint_bytes_test.h"

namespace hasten::weights {
namespace {

using ::testing::HasSubstr;

TEST(GgufReal, ReadsRealModels) {
  HASTEN_NEED_SHARED("data/models/stories260K");
  const auto shared = hasten::testing::shared_dir();
  const auto stories = open_checkpoint(shared / "data/models/stories260K/stories260Ktok512.gguf");
  EXPECT_EQ(stories->metadata().get_string("general.architecture"), "llama");
  EXPECT_EQ(stories->metadata().get_u64("llama.block_count"), 5U);
  EXPECT_EQ(stories->metadata().get_strings("tokenizer.ggml.tokens").size(), 512U);
  EXPECT_EQ(stories->find("token_embd.weight")->shape(), (Shape{512, 64}));
  EXPECT_GT(touch(*stories), 0U);
  const auto tiny = open_checkpoint(shared / "models/hasten-tiny/hasten-tiny-bf16.gguf");
  EXPECT_EQ(tiny->find("blk.0.ffn_gate.weight")->shape(), (Shape{768, 256}));
  EXPECT_EQ(tiny->find("blk.0.ffn_gate.weight")->dtype(), DType::bf16);
  EXPECT_GT(touch(*tiny), 0U);
}

TEST(GgufReal, ReadsVocabularies) {
  HASTEN_NEED_SHARED("data/tokenizers/ggml-vocab");
  const auto folder = hasten::testing::shared_dir() / "data/tokenizers/ggml-vocab";
  const auto gpt2 = open_checkpoint(folder / "ggml-vocab-gpt-2.gguf");
  EXPECT_EQ(gpt2->metadata().get_strings("tokenizer.ggml.tokens").size(), 50257U);
  EXPECT_TRUE(gpt2->tensors().empty());
  const auto llama = open_checkpoint(folder / "ggml-vocab-llama-spm.gguf");
  EXPECT_EQ(llama->metadata().get_f32s("tokenizer.ggml.scores", 32000).size(), 32000U);
}

// sqrt(sum (row - want)^2 / sum want^2) over one tensor; `row` gives its decoded rows.
double relative_rms(const Tensor& want, const std::function<std::vector<float>(int64_t)>& row) {
  double error = 0;
  double power = 0;
  for (int64_t r = 0; r < want.num_rows(); ++r) {
    const std::vector<float> found = row(r);
    const auto* wanted = reinterpret_cast<const float*>(want.row(r));
    for (size_t i = 0; i < found.size(); ++i) {
      error += std::pow(double{found[i]} - wanted[i], 2);
      power += std::pow(double{wanted[i]}, 2);
    }
  }
  return std::sqrt(error / power);
}

// The same layer in fifteen formats, quantised by another tool: what our codecs decode must lie as
// close to the f32 file as the format allows, and equal it where the type holds the same numbers.
TEST(GgufReal, DecodesTheSameLayerFromEveryFormat) {
  HASTEN_NEED_SHARED("models/formats");
  struct Case {
    const char* file;
    DType dtype;
    double bound;  // relative RMS of the worst tensor
  };
  // The weights are bf16 by origin, so that only the smallest of them lose bits in f16.
  const Case cases[] = {
      {"f32", DType::f32, 0},          {"f16", DType::f16, 2e-8},
      {"bf16", DType::bf16, 0},        {"q4_0", DType::q4_0, 0.1},
      {"q4_1", DType::q4_1, 0.09},     {"q5_0", DType::q5_0, 0.05},
      {"q5_1", DType::q5_1, 0.045},    {"q8_0", DType::q8_0, 0.007},
      {"q2_k", DType::q2_k, 0.33},     {"q3_k_s", DType::q3_k, 0.2},
      {"q4_k_s", DType::q4_k, 0.09},   {"q5_k_s", DType::q5_k, 0.05},
      {"q6_k", DType::q6_k, 0.025},    {"iq4_nl", DType::iq4_nl, 0.09},
      {"iq4_xs", DType::iq4_xs, 0.09},
  };
  const auto folder = hasten::testing::shared_dir() / "models/formats";
  const auto truth = open_checkpoint(folder / "one-layer-f32.gguf");
  for (const Case& c : cases) {
    const auto checkpoint =
        open_checkpoint(folder / (std::string("one-layer-") + c.file + ".gguf"));
    ASSERT_EQ(checkpoint->tensors().size(), truth->tensors().size());
    double worst = 0;
    int num_of_type = 0;
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      const Tensor& want = *truth->find(name);
      ASSERT_EQ(tensor.shape(), want.shape());
      const double rms = relative_rms(want, [&tensor = tensor](int64_t r) {
        std::vector<float> row(static_cast<size_t>(tensor.shape().back()));
        quant::decode_row(tensor.dtype(), tensor.row(r), row.data(), tensor.shape().back());
        return row;
      });
      num_of_type += tensor.dtype() == c.dtype;
      worst = std::max(worst, rms);
      if (tensor.dtype() == DType::f32) {
        EXPECT_EQ(rms, 0) << name;
      }
    }
    std::printf("%-7s %2d of %zu tensors, worst relative rms %.5f\n", c.file, num_of_type,
                checkpoint->tensors().size(), worst);
    EXPECT_LE(worst, c.bound) << c.file;
    EXPECT_GE(num_of_type, 8) << c.file;
  }
}

TEST(GgufReal, OurEncodersLoseNoMoreThanAnotherTools) {
  HASTEN_NEED_SHARED("models/formats");
  const auto folder = hasten::testing::shared_dir() / "models/formats";
  const auto truth = open_checkpoint(folder / "one-layer-f32.gguf");
  const Tensor& want = *truth->find("blk.0.attn_k.weight");
  const int64_t width = want.shape().back();
  for (const char* file : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_s", "q4_k_s",
                           "q5_k_s", "q6_k", "iq4_nl", "iq4_xs"}) {
    const auto theirs = open_checkpoint(folder / (std::string("one-layer-") + file + ".gguf"));
    const Tensor& their_tensor = *theirs->find("blk.0.attn_k.weight");
    const DType type = their_tensor.dtype();
    std::vector<float> row(static_cast<size_t>(width));
    const double their_rms = relative_rms(want, [&](int64_t r) {
      quant::decode_row(type, their_tensor.row(r), row.data(), width);
      return row;
    });
    std::vector<std::byte> encoded(static_cast<size_t>(row_bytes(type, width)));
    const double our_rms = relative_rms(want, [&](int64_t r) {
      quant::encode_row(type, reinterpret_cast<const float*>(want.row(r)), encoded.data(), width);
      quant::decode_row(type, encoded.data(), row.data(), width);
      return row;
    });
    std::printf("%-7s relative rms: ours %.5f, theirs %.5f\n", file, our_rms, their_rms);
    EXPECT_LE(our_rms, 1.02 * their_rms) << file;
  }
}

TEST(GgufReal, RefusesATypeThatIsNotKnown) {
  HASTEN_NEED_SHARED("models/formats");
  std::string message;
  try {
    (void)open_checkpoint(hasten::testing::shared_dir() / "models/formats/one-layer-iq3_s.gguf");
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("has type 21 (iq3_s); known are"));
}

}  // namespace
}  // namespace hasten::weights
