// SPDX-License-Identifier: Apache-2.0
// API keys, hosts and origins over HTTP; every route is held to its declared policy.
#include "server/access.h"

#include "server/routes.h"
#include "server_fixture.h"

namespace hasten::testing {
namespace {

class AccessTest : public ServerTest {};

std::string concrete(std::string_view path) {
  return path.ends_with("/*") ? std::string(path.substr(0, path.size() - 1)) + "fake"
                              : std::string(path);
}

TEST_F(AccessTest, HoldsEveryRouteToItsPolicy) {
  options_.api_keys = {"sekret-1", "sekret-2"};
  const std::string wrong[] = {"",
                               "Authorization: Bearer wrong\r\n",
                               "Authorization: Bearer sekret-\r\n",
                               "Authorization: Bearer sekret-11\r\n",
                               "Authorization: Bearer \r\n",
                               "Authorization: sekret-1\r\n",
                               "Authorization: Basic sekret-1\r\n"};
  ASSERT_GT(server::routes().size(), 10U);
  for (const server::Route& route : server::routes()) {
    const std::string path = concrete(route.path);
    const auto status = [&](const std::string& headers) {
      return connect()
          .request(route.method, path, route.method == "POST" ? "{}" : "", headers)
          .status;
    };
    for (const std::string& header : wrong) {
      if (route.auth == server::Auth::key) {
        EXPECT_EQ(status(header), 401) << path << " " << header;
      } else {
        EXPECT_EQ(status(header), 200) << path << " " << header;
      }
    }
    for (const char* key : {"Bearer sekret-1", "bearer sekret-2"}) {
      const int got = status("Authorization: " + std::string(key) + "\r\n");
      EXPECT_TRUE(got == 200 || got == 400) << path << " " << got;  // {} lacks fields
    }
  }
  const HttpReply reply = chat("hi");
  const json::Value missing = parse(reply.body).at("error");
  EXPECT_EQ(missing.at("code"), "invalid_api_key");
  const json::Value wrong_key =
      parse(get("/v1/models", "Authorization: Bearer wrong\r\n").body).at("error");
  EXPECT_EQ(wrong_key.at("code"), "invalid_api_key");
  EXPECT_EQ(missing.at("message"), "This server needs an API key: Authorization: Bearer KEY.");
  EXPECT_EQ(wrong_key.at("message"), "This API key is none of this server's.");
  EXPECT_EQ(reply.headers.at("www-authenticate"), "Bearer");
}

TEST_F(AccessTest, ATenantIsItsKeyAndNotItsPlace) {
  const auto tenant = [](std::vector<std::string> keys, const std::string& key) {
    server::ServerOptions options;
    options.api_keys = std::move(keys);
    const server::Access access(options);
    return access.authenticate("Bearer " + key).value_or("nobody");
  };
  const std::string bob = tenant({"alice", "bob"}, "bob");
  EXPECT_EQ(tenant({"bob"}, "bob"), bob);
  EXPECT_NE(tenant({"alice", "bob"}, "alice"), bob);
  EXPECT_EQ(bob.find("bob"), std::string::npos);
  EXPECT_EQ(tenant({"alice"}, "bob"), "nobody");
}

TEST_F(AccessTest, RefusesKeysThatNobodyCanSend) {
  for (const char* key : {"", "two words", "line\n", "schl\xC3\xBCssel"}) {
    options_.api_keys = {"good", key};
    server_ = nullptr;
    EXPECT_THROW(server(), Error) << key;
  }
}

TEST_F(AccessTest, NeedsNoKeyUnlessConfigured) {
  EXPECT_EQ(chat("hi").status, 200);
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer anything\r\n").status, 200);
}

TEST_F(AccessTest, RefusesForeignHostsOnLoopback) {
  const auto status = [this](std::string_view host) {
    HttpClient client = connect();
    client.send("GET /v1/models HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    return client.read_reply().status;
  };
  options_.allowed_hosts = {"Llm.Example"};
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:80", "[::1]:80",
                           "a.localhost", "llm.example:80"}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
                           "evil.example:8080", "", "192.168.0.1", "notlocalhost"}) {
    EXPECT_EQ(status(host), 403) << host;
  }
}

TEST_F(AccessTest, LetsBrowsersOfAllowedOriginsCall) {
  options_.cors_origins = {"https://app.example"};
  for (const char* origin : {"https://app.example", "http://localhost:3000", "http://localhost"}) {
    const std::string header = "Origin: " + std::string(origin) + "\r\n";
    const HttpReply preflight =
        connect().request("OPTIONS", "/v1/chat/completions", "",
                          header + "Access-Control-Request-Headers: authorization\r\n");
    EXPECT_EQ(preflight.status, 204);
    EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), origin);
    EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "authorization");
    EXPECT_EQ(post("/v1/chat/completions", chat_body("hi"), header).status, 200);
  }
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example"}) {
    const std::string header = "Origin: " + std::string(origin) + "\r\n";
    EXPECT_EQ(get("/v1/models", header).headers.count("access-control-allow-origin"), 0U);
    EXPECT_EQ(post("/v1/chat/completions", chat_body("hi"), header).status, 403) << origin;
  }
}

TEST_F(AccessTest, AnyOriginWhenConfigured) {
  options_.cors_origins = {"*"};
  EXPECT_EQ(post("/v1/chat/completions", chat_body("hi"), "Origin: https://any.example\r\n").status,
            200);
}

TEST(ConstantTimeTest, ComparesWholeStrings) {
  using server::equal_in_constant_time;
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "xbc", "abcabc", "abca"}) {
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
    EXPECT_FALSE(equal_in_constant_time("abc", other)) << other;
  }
}

TEST_F(AccessTest, WritesMetricsUnderTheNamesOfVllm) {
  // What the engine did before it was served is no traffic.
  Request early;
  early.prompt = {1, 2, 3};
  engine_.submit(std::move(early), [](const Chunk&) {}).wait();
  ASSERT_TRUE(running_becomes(0));
  chat("hi");
  chat("hi", R"(, "temperature": -1)");
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"fake\"} 0", "vllm:num_requests_waiting{",
        "vllm:kv_cache_usage_perc{", "vllm:prompt_tokens_total{model_name=\"fake\"} 5",
        "vllm:generation_tokens_total{", "vllm:prefix_cache_queries_total{",
        "vllm:prefix_cache_hits_total{", "hasten:preempted_tokens_total{",
        "hasten:resumed_tokens_total{",
        "vllm:request_success_total{model_name=\"fake\",finished_reason=\"stop\"} 1",
        "vllm:time_to_first_token_seconds_count{model_name=\"fake\"} 1",
        "vllm:inter_token_latency_seconds_bucket{", "vllm:e2e_request_latency_seconds_count",
        "vllm:request_queue_time_seconds_sum{", "vllm:request_prefill_time_seconds_sum{",
        "vllm:request_decode_time_seconds_sum{",
        "hasten:rejections_total{reason=\"invalid_request\"} 1"}) {
    // A request is counted when its engine is done with it, a moment after its last byte was read.
    std::string text = get("/metrics").body;
    for (int i = 0; i < 500 && text.find(line) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      text = get("/metrics").body;
    }
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace hasten::testing
