// SPDX-License-Identifier: Apache-2.0
// Chat templates in the folders of models: which is taken, what is refused, whom errors blame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "api/tokenizer_files_test.h"
#include "hasten/error.h"
#include "hasten/tokenizer.h"

namespace hasten {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

// Hermes 2 Pro's and Command R's folders have a template for prompts that offer tools.
TEST_F(TokenizerFolder, TemplateForTools) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const std::string with_tools =
      "{% for t in tools %}[{{ t.function.name }}]{% endfor %}{{ messages[0].content }}";
  const auto rendered = [](const Tokenizer& tokenizer, const char* tools) {
    return tokenizer
        .render_chat({.messages = R"([{"role": "user", "content": "a"}])", .tools = tools})
        .text;
  };
  constexpr const char* kTools = R"([{"type": "function", "function": {"name": "b"}}])";
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": ")" + plain +
                                     R"("}, {"name": "tool_use", "template": ")" + with_tools +
                                     R"("}]})");
  EXPECT_EQ(rendered(open(), kTools), "[b]a");
  EXPECT_EQ(rendered(open(), "[]"), "a");
  EXPECT_EQ(rendered(open(), ""), "a");
  EXPECT_EQ(open().chat_template().source, plain);
  EXPECT_THAT(open().chat_template().capabilities, HasSubstr("tools"));
  write("tokenizer_config.json", R"({"chat_template": ")" + plain + "\"}");
  EXPECT_THAT([&] { rendered(open(), kTools); },
              ThrowsMessage<Error>(HasSubstr("shows the model no tools")));
  // One that does not parse is no reason to refuse the model.
  const std::string broken = R"({"name": "tool_use", "template": "{{ ?"})";
  write("tokenizer_config.json", R"({"chat_template": [)" + broken +
                                     R"(, {"name": "default", "template": ")" + plain + "\"}]}");
  EXPECT_EQ(rendered(open(), ""), "a");
}

// The model would never hear of them.
TEST_F(TokenizerFolder, RefusesToolsThatATemplateDoesNotShow) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  Chat chat{.messages = R"([{"role": "user", "content": "a"}])",
            .tools = R"([{"type": "function", "function": {"name": "b"}}])"};
  const auto rendered = [&](const char* source) {
    write("chat_template.jinja", source);
    return open().render_chat(chat).text;
  };
  try {
    (void)rendered("{% for m in messages %}{{ m.content }}{% endfor %}");
    ADD_FAILURE() << "it renders";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.param(), "tools");
    EXPECT_EQ(error.what(), subject("chat_template.jinja") +
                                "shows the model no tools, so that it cannot call any; leave tools "
                                "out, or send tool_choice \"none\"");
  }
  const char* const shown = "{{ messages[0].content }}{% for t in tools or [] %}b{% endfor %}";
  EXPECT_EQ(rendered(shown), "ab");
  // What shows them in some chats only, and what cannot do without any.
  EXPECT_EQ(rendered("{{ messages[0].content }}{% if tools and messages | length == 1 and "
                     "messages[0].content == 'a' %}{{ tools[0].function.name }}{% endif %}"),
            "ab");
  EXPECT_EQ(rendered("{{ tools | length }}{{ messages[0].content }}"), "1a");
  // A model of calls hears of the tools from a message, as DeepSeek-V3.1 does.
  EXPECT_EQ(rendered("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
                     "{{ c.function.name ~ c.function.arguments }}{% endfor %}{% endfor %}"),
            "a");
  chat.tools = {};
  EXPECT_EQ(rendered("{% for m in messages %}{{ m.content }}{% endfor %}"), "a");
}

// What needs no chats works without their template.
TEST_F(TokenizerFolder, TemplateThatDoesNotWork) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  EXPECT_EQ(open().chat_template().error, "");
  const std::string deep = "{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}";
  const std::pair<std::string, const char*> broken[] = {
      {deep, "exceeds the depth limit"},
      {"a\n{% for m in %}", "does not parse: line 2: unexpected end of a tag"}};
  for (const auto& [source, words] : broken) {
    write("chat_template.jinja", source);
    const Tokenizer tokenizer = open();
    EXPECT_THAT(tokenizer.chat_template().error,
                StartsWith(subject("chat_template.jinja") + words));
    EXPECT_EQ(tokenizer.chat_template().refusal, "");
    EXPECT_EQ(tokenizer.chat_template().source, source);
    EXPECT_EQ(tokenizer.chat_template().capabilities, "");
    EXPECT_EQ(tokenizer.encode("aba"), (Ids{2, 1}));
    try {
      (void)tokenizer.render_chat({.messages = R"([{"role": "user", "content": "a"}])"});
      ADD_FAILURE() << "it renders: " << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), tokenizer.chat_template().error);
      EXPECT_EQ(error.param(), "messages");
    }
  }
}

// It may be for other chats.
TEST_F(TokenizerFolder, TemplateThatRefusesAPlainQuestion) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  EXPECT_EQ(open().chat_template().refusal, "");
  const std::string refuses = subject("chat_template.jinja") + "refuses a plain question";
  const Chat plain{.messages = R"([{"role": "user", "content": "a"}])"};
  Chat with_system = plain;
  with_system.messages =
      R"([{"role": "system", "content": "b"}, {"role": "user", "content": "a"}])";
  Chat with_tools = plain;
  with_tools.tools = R"([{"type": "function", "function": {"name": "b"}}])";
  Chat with_documents = plain;
  with_documents.template_arguments = R"({"documents": ["b"]})";
  const struct {
    const char* source;
    std::string refusal;
    Chat taken;
    const char* text;
  } templates[] = {
      {"{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}"
       "{{ messages[0].content }}",
       refuses + ": no", with_system, "b"},
      {"{{ tools[0].function.name }}", refuses + ": it failed in line 1: ", with_tools, "b"},
      {"{% if not documents %}{{ raise_exception('give documents') }}{% endif %}"
       "{{ documents[0] }}",
       refuses + ": give documents", with_documents, "b"},
      {"\n{{ documents[0] + messages[0].content }}",
       refuses + ": it failed in line 2: ", with_documents, "\nba"},
      {"{% if not documents %}{{ raise_exception('') }}{% endif %}b", refuses, with_documents, "b"},
  };
  for (const auto& [source, refusal, taken, text] : templates) {
    write("chat_template.jinja", source);
    const Tokenizer tokenizer = open();
    EXPECT_EQ(tokenizer.chat_template().error, "");
    EXPECT_THAT(tokenizer.chat_template().refusal, StartsWith(refusal));
    EXPECT_EQ(tokenizer.render_chat(taken).text, text);
    EXPECT_THAT([&] { (void)tokenizer.render_chat(plain); },
                ThrowsMessage<Error>(StartsWith(subject("chat_template.jinja"))));
  }
}

TEST_F(TokenizerFolder, MessagesNameTheModelAndThePlaceOfItsTemplate) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  const Chat plain{.messages = R"([{"role": "user", "content": "a"}])"};
  const auto refusal = [&](Chat chat) {
    const Tokenizer tokenizer = open();
    try {
      (void)tokenizer.render_chat(chat);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.param(), "messages");
      return std::string(error.what());
    }
    return std::string();
  };
  write("tokenizer_config.json", R"({"chat_template": "{{ raise_exception('say please') }}"})");
  EXPECT_EQ(refusal(plain),
            subject("tokenizer_config.json") + "refused the conversation: say please");
  write("chat_template.json", R"({"chat_template": [
    {"name": "default", "template": "{{ nothing() }}"},
    {"name": "tool_use", "template": "{{ raise_exception('no tools') }}"}]})");
  EXPECT_THAT(
      open().chat_template().unknown_names,
      StartsWith(subject("chat_template.json") + "uses the function \"nothing\" in line 1"));
  Chat with_tools = plain;
  with_tools.tools = R"([{"type": "function", "function": {"name": "b"}}])";
  EXPECT_EQ(refusal(with_tools), "the chat template tool_use of " +
                                     folder_.path().filename().string() +
                                     " (chat_template.json) refused the conversation: no tools");
  write("chat_template.json", "{");
  EXPECT_THAT([&] { (void)open(); },
              ThrowsMessage<Error>(StartsWith((folder_.path() / "chat_template.json").string() +
                                              " is not valid JSON")));
}

// Whatever of it fails, unless a field of the request is to blame.
TEST_F(TokenizerFolder, ErrorsOfATemplateAreOfTheMessages) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  const auto param = [&](const std::string& source, const char* messages) {
    write("chat_template.jinja", source);
    const Tokenizer tokenizer = open();
    try {
      (void)tokenizer.render_chat({.messages = messages});
      ADD_FAILURE() << "it renders: " << source;
    } catch (const Error& error) {
      return error.param();
    }
    return std::string();
  };
  constexpr const char* kPlain = R"([{"role": "user", "content": "a"}])";
  for (const char* source :
       {"{{ raise_exception('no') }}", "{{ messages + 1 }}", "{{ nothing() }}", "{{ ?",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"}) {
    EXPECT_EQ(param(source, kPlain), "messages") << source;
  }
  EXPECT_EQ(param("{{ messages[0].content }}", R"([{"role": "user", "content": 5}])"),
            "messages[0].content");
}

// The template of prompts that offer tools, which renders.
TEST_F(TokenizerFolder, DoubtsOfTheTemplateForToolsAreItsOwn) {
  write("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 'ab' 2\n");
  write("chat_template.json", R"({"chat_template": [
    {"name": "default", "template": "{% for m in messages %}{{ m.content }}{% endfor %}"},
    {"name": "tool_use", "template": "{{ tools }}{% if 0 %}{{ nothing() }}{% endif %}"}]})");
  const std::string own = "the chat template tool_use of " + folder_.path().filename().string() +
                          " (chat_template.json) ";
  for (const TemplateInfo& info : {open().chat_template(), read_template(folder_.path())}) {
    EXPECT_EQ(info.doubt + info.unknown_names + info.tool_error, "");
    EXPECT_THAT(info.tool_doubt, StartsWith(own + "makes the same prompt whatever users say"));
    EXPECT_THAT(info.tool_unknown_names,
                StartsWith(own + "uses the function \"nothing\" in line 1"));
  }
  write("chat_template.json", R"({"chat_template": [
    {"name": "default", "template": "{{ messages[0].content }}"},
    {"name": "tool_use", "template": "{{ ?"}]})");
  EXPECT_THAT(read_template(folder_.path()).tool_error, StartsWith(own + "does not parse"));
}

}  // namespace
}  // namespace hasten
