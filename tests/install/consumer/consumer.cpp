// SPDX-License-Identifier: Apache-2.0
// Asks the demonstration model one question through the installed library.
#include <hasten/engine.h>

#include <cstdio>

int main() {
  hasten::Engine engine;
  hasten::Request request;
  request.prompt =
      engine
          .render_chat(
              {.messages = R"([{"role": "user", "content": "What is the capital of France?"}])"})
          .tokens;
  request.sampling.temperature = 0;
  const std::string answer = engine.generate(request);
  std::printf("%s\n", answer.c_str());
  return answer.find("Paris") == std::string::npos;
}
