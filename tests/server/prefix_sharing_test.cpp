// SPDX-License-Identifier: Apache-2.0
// Whose cached prefixes a key finds over HTTP: its own, or with share_prefixes everybody's.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "hasten/engine.h"
#include "hasten_test/temporary_folder.h"
#include "http_client.h"
#include "scripted_model.h"
#include "server/server.h"

namespace hasten::testing {
namespace {

constexpr const char* kContentsTemplate = "{% for m in messages %}{{ m.content }}{% endfor %}";

/// Asks the same with two keys, one after the other. Returns the second one's cached tokens.
int64_t cached_for_the_second_key(bool share_prefixes) {
  log::set_level(log::Level::off);
  const TemporaryFolder folder;
  const auto path = folder.path() / "scripted.gguf";
  write_scripted_model(path, kContentsTemplate, {{'A', {"Hello"}}});
  Engine engine({.model = path, .kv_cache_bytes = 1 << 20});
  server::ServerOptions options;
  options.port = 0;
  options.api_keys = {"first", "second"};
  options.share_prefixes = share_prefixes;
  server::Server server(engine, options);
  server.start();
  int64_t cached = -1;
  for (const std::string& key : options.api_keys) {
    HttpClient client(server.port());
    const HttpReply reply = client.request(
        "POST", "/v1/chat/completions",
        R"({"max_tokens": 2, "messages": [{"role": "user", "content": "a long question that fills blocks of the cache: A"}]})",
        "Authorization: Bearer " + key + "\r\n");
    EXPECT_EQ(reply.status, 200) << reply.body;
    const json::Value usage = json::parse(reply.body, "reply").at("usage");
    cached = usage.at("prompt_tokens_details").at("cached_tokens").as_int64();
  }
  return cached;
}

TEST(PrefixSharing, KeysShareOnlyWhereTheServerSaysSo) {
  EXPECT_EQ(cached_for_the_second_key(false), 0);
  EXPECT_GT(cached_for_the_second_key(true), 0);
}

}  // namespace
}  // namespace hasten::testing
