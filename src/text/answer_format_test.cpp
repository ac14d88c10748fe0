// SPDX-License-Identifier: Apache-2.0
// Tests of what a chat template tells of its answers' form.
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "hasten_test/paths.h"
#include "text/tool_calls.h"

namespace hasten::text {
namespace {

TEST(AnswerFormat, IsFoundInTheTemplate) {
  EXPECT_EQ(detect_answer_format("… <tool_call> …").tool_calls, ToolCallFormat::hermes);
  EXPECT_EQ(detect_answer_format("[TOOL_CALLS]").tool_calls, ToolCallFormat::mistral);
  EXPECT_EQ(detect_answer_format("<|python_tag|>").tool_calls, ToolCallFormat::llama3);
  EXPECT_EQ(detect_answer_format("<tool_call><function=x>").tool_calls, ToolCallFormat::qwen_tags);
  EXPECT_EQ(detect_answer_format("<|python_start|>").tool_calls, ToolCallFormat::pythonic);
  EXPECT_EQ(detect_answer_format("<|start_header_id|> [func_name1(params_name1=params_value1, …)] "
                                 "\"parameters\"")
                .tool_calls,
            ToolCallFormat::pythonic);
  EXPECT_EQ(detect_answer_format("<|tool_list_start|>").tool_calls, ToolCallFormat::lfm2);
  EXPECT_EQ(detect_answer_format("plain").tool_calls, ToolCallFormat::none);
  EXPECT_TRUE(detect_answer_format("<think>").reasoning);
}

TEST(AnswerFormat, OfPublishedTemplates) {
  HASTEN_NEED_SHARED("data/chat_templates/jinja");
  const auto folder = hasten::testing::shared_dir() / "data/chat_templates/jinja";
  const std::pair<const char*, ToolCallFormat> expected[] = {
      {"Apertus-8B-Instruct", ToolCallFormat::apertus},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", ToolCallFormat::cohere},
      {"GigaChat3-10B-A1.8B", ToolCallFormat::gigachat},
      {"GLM-4.7-Flash", ToolCallFormat::glm},
      {"Kimi-K2-Thinking", ToolCallFormat::kimi},
      {"LFM2.5-Instruct", ToolCallFormat::lfm2},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", ToolCallFormat::qwen_tags},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolCallFormat::hermes},
      {"Qwen-Qwen2.5-7B-Instruct", ToolCallFormat::hermes},
      {"Qwen3-Coder", ToolCallFormat::qwen_tags},
      {"Reka-Edge", ToolCallFormat::hermes},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", ToolCallFormat::deepseek},
      {"deepseek-ai-DeepSeek-V3.1", ToolCallFormat::deepseek},
      {"deepseek-ai-DeepSeek-V4", ToolCallFormat::dsml},
      {"google-gemma-2-2b-it", ToolCallFormat::none},
      {"google-gemma-4-31B-it", ToolCallFormat::gemma},
      {"llama-cpp-deepseek-r1", ToolCallFormat::deepseek},
      {"meetkai-functionary-medium-v3.1", ToolCallFormat::function},
      {"meta-llama-Llama-3.1-8B-Instruct", ToolCallFormat::llama3},
      {"meta-llama-Llama-3.3-70B-Instruct", ToolCallFormat::llama3},
      {"mistralai-Ministral-3-14B-Reasoning-2512", ToolCallFormat::mistral},
      {"moonshotai-Kimi-K2", ToolCallFormat::kimi},
      {"stepfun-ai-Step-3.5-Flash", ToolCallFormat::qwen_tags},
      {"unsloth-mistral-Devstral-Small-2507", ToolCallFormat::mistral},
  };
  for (const auto& [name, format] : expected) {
    const std::string source = hasten::testing::read_file(folder / (std::string(name) + ".jinja"));
    EXPECT_EQ(static_cast<int>(detect_answer_format(source).tool_calls), static_cast<int>(format))
        << name;
  }
}

}  // namespace
}  // namespace hasten::text
