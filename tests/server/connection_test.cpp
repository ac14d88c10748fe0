// SPDX-License-Identifier: Apache-2.0
// Connections: keep-alive, limits, slow and vanishing clients, request smuggling, and the drain.
#include <future>

#include "server_fixture.h"

namespace hasten::testing {
namespace {

using std::chrono::milliseconds;

class ConnectionTest : public ServerTest {
 protected:
  /// Sends bytes as they are and returns the reply.
  HttpReply raw(std::string_view bytes) {
    HttpClient client = connect();
    client.send(bytes);
    return client.read_reply();
  }
  static std::string post_head(std::string_view fields) {
    return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) + "\r\n";
  }
  std::string metrics() { return get("/metrics").body; }
};

TEST_F(ConnectionTest, CarriesManyRequests) {
  HttpClient client = connect();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.request("GET", "/health").status, 200);
    EXPECT_EQ(client.request("POST", "/v1/chat/completions", chat_body("hi")).status, 200);
    EXPECT_EQ(
        client.request("POST", "/v1/chat/completions", chat_body("hi", R"(,"stream":true)")).status,
        200);
    EXPECT_EQ(client.request("GET", "/nowhere").status, 404);
  }
  const std::string get = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send(get + get + get);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read_reply().status, 200);
  client.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_reply().headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_within(2));
}

TEST_F(ConnectionTest, SpeaksHttp10WithoutChunks) {
  HttpClient client = connect();
  const std::string body = chat_body("hi", R"(,"stream":true)");
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\nHost: localhost\r\n\r\n" + body);
  EXPECT_TRUE(client.read_until("data: [DONE]\n\n"));
  EXPECT_TRUE(client.closed_within(2));
}

TEST_F(ConnectionTest, AnswersHeadAndOptions) {
  const HttpReply head = connect().request("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
  const HttpReply options = connect().request("OPTIONS", "/v1/chat/completions");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "POST, OPTIONS");
}

TEST_F(ConnectionTest, RefusesUnknownPathsMethodsAndTypes) {
  EXPECT_EQ(get("/nowhere").status, 404);
  const HttpReply method = get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST, OPTIONS");
  const HttpReply text = post("/v1/completions", "{}", "Content-Type: text/plain\r\n");
  EXPECT_EQ(text.status, 415);
  EXPECT_NE(text.body.find("-H 'Content-Type: application/json'"), std::string::npos) << text.body;
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"hi"})",
                 "Content-Type: Application/JSON; charset=utf-8\r\n")
                .status,
            200);
  for (const HttpReply& reply : {get("/nowhere"), method}) {
    const json::Value error = parse(reply.body).at("error");
    EXPECT_TRUE(error.at("message").is_string());
    EXPECT_TRUE(error.at("type").is_string());
    EXPECT_TRUE(error.at("param").is_null());
  }
}

TEST_F(ConnectionTest, CountsEveryAnswer) {
  get("/nowhere");
  get("/v1/completions");
  connect().request("OPTIONS", "/v1/completions");
  chat("hi", R"(, "stream": true)");
  raw("nonsense\r\n\r\n");
  const std::string text = metrics();
  for (const char* labels :
       {R"(route="unknown",status="404")", R"(route="/v1/completions",status="405")",
        R"(route="/v1/completions",status="204")", R"(route="/v1/chat/completions",status="200")",
        R"(route="unknown",status="400")"}) {
    EXPECT_NE(text.find(fmt::format("hasten:http_responses_total{{{}}} 1\n", labels)),
              std::string::npos)
        << labels << text;
  }
}

TEST_F(ConnectionTest, QuotesBytesOfAnyKindAsUtf8) {
  const HttpReply reply = get("/nowhere%ff%0a%c3");
  EXPECT_EQ(reply.status, 404);
  const std::string message(parse(reply.body).at("error").at("message").as_string());
  EXPECT_TRUE(message.starts_with(
      "There is no /nowhere\xEF\xBF\xBD\n\xEF\xBF\xBD here. There are /v1/chat/completions, "))
      << message;
  EXPECT_TRUE(message.ends_with(", /health/live.")) << message;
}

TEST_F(ConnectionTest, EchoesRequestIdsThatAreFit) {
  EXPECT_EQ(get("/health", "X-Request-Id: abc-1\r\n").headers.at("x-request-id"), "abc-1");
  EXPECT_EQ(get("/health").headers.at("x-request-id").size(), 32U);
  EXPECT_EQ(get("/health", "X-Request-Id: a b\r\n").headers.at("x-request-id").size(), 32U);
  EXPECT_EQ(get("/health", "X-Request-Id: " + std::string(129, 'a') + "\r\n")
                .headers.at("x-request-id")
                .size(),
            32U);
}

TEST_F(ConnectionTest, LimitsHeaders) {
  std::string many;
  for (int i = 0; i < 110; ++i) many += "X: 1\r\n";
  EXPECT_EQ(get("/health", many).status, 431);
  EXPECT_EQ(get("/health", "X: " + std::string(17 << 10, 'a') + "\r\n").status, 431);
  EXPECT_EQ(get("/health", "X: " + std::string(15 << 10, 'a') + "\r\n").status, 200);
}

TEST_F(ConnectionTest, LimitsBodies) {
  options_.limits.body_bytes = 1000;
  EXPECT_EQ(post("/v1/completions", std::string(1001, ' ')).status, 413);
  EXPECT_EQ(post("/v1/completions", std::string(1000, ' ')).status, 400);
  // Chunked, so that the length is not known beforehand.
  const HttpReply chunked = raw(post_head("Transfer-Encoding: chunked\r\n") + "400\r\n" +
                                std::string(1024, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.status, 413);
  EXPECT_EQ(parse(chunked.body).at("error").at("code"), "body_too_large");
}

TEST_F(ConnectionTest, LimitsTheBodiesOfAllConnectionsTogether) {
  options_.limits.bodies_bytes = 3000;
  const std::string body = R"({"prompt":"hi"})" + std::string(2000, ' ');
  const auto status = [&] { return post("/v1/completions", body).status; };
  EXPECT_EQ(status(), 200);
  {
    HttpClient slow = connect();
    slow.send(post_head("Content-Length: 2001\r\n") + std::string(2000, ' '));
    int seen = 200;  // until the server has read those bytes
    for (int i = 0; i < 500 && seen != 429; ++i) seen = status();
    EXPECT_EQ(seen, 429);
    EXPECT_EQ(get("/health").status, 200);
  }
  int seen = 429;  // until it has noticed that the client left
  for (int i = 0; i < 500 && seen != 200; ++i) seen = status();
  EXPECT_EQ(seen, 200);
  EXPECT_EQ(chat("count 2000").status, 429);  // an answer counts, too
  EXPECT_EQ(chat("hi").status, 200);
}

TEST_F(ConnectionTest, LetsTheRefusalOfALargeBodyArrive) {
  HttpClient client = connect();
  const std::string body(6 << 20, ' ');
  client.send(post_head("Content-Length: " + std::to_string(body.size()) + "\r\n"));
  client.send(body);
  EXPECT_EQ(client.read_reply().status, 413);
}

TEST_F(ConnectionTest, AsksForTheBodyOnExpect) {
  HttpClient client = connect();
  client.send(post_head("Content-Length: 15\r\nExpect: 100-continue\r\n"));
  ASSERT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(R"({"prompt":"hi"})");
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(ConnectionTest, ReadsChunkedBodies) {
  const HttpReply reply = raw(post_head("Transfer-Encoding: chunked\r\n") +
                              "8\r\n{\"prompt\r\n7;x=y\r\n\":\"hi\"}\r\n0\r\n\r\n");
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST_F(ConnectionTest, RefusesWhatProxiesCouldReadDifferently) {
  const std::string bad[] = {
      post_head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
      post_head("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") + "0\r\n\r\n",
      post_head("Content-Length: 5\r\nContent-Length: 6\r\n") + "12345",
      post_head("Content-Length: +5\r\n") + "12345",
      post_head("Content-Length: 5, 5\r\n") + "12345",
      post_head("Content-Length: -1\r\n"),
      post_head("Content-Length: 99999999999999999999\r\n"),
      post_head("Transfer-Encoding: chunked, chunked\r\n") + "0\r\n\r\n",
      post_head("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n",
      post_head("Transfer-Encoding: identity\r\n"),
      post_head("Transfer-Encoding: xchunked\r\n") + "0\r\n\r\n",
      post_head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
      post_head("Transfer-Encoding : chunked\r\n") + "0\r\n\r\n",
      post_head("Transfer-Encoding: chunked\r\n") + "zz\r\n\r\n",
      post_head("Transfer-Encoding: chunked\r\n") + "-1\r\n\r\n",
      post_head("Transfer-Encoding: chunked\r\n") + "ffffffffffffffffff\r\n\r\n",
      post_head("Transfer-Encoding: chunked\r\n") + "1\r\nab\r\n0\r\n\r\n",
      post_head("Host: elsewhere\r\n"),
      "POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
      "GET /health HTTP/1.1\r\n\r\n",
      "GET /health HTTP/1.1\nHost: localhost\n\n",
      "GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n",
      "GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "G\x01T /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not TLS here\r\n\r\n",
  };
  for (const std::string& bytes : bad) {
    HttpClient client = connect();
    client.send(bytes);
    const HttpReply reply = client.read_reply();
    EXPECT_TRUE(reply.status >= 400 && reply.status < 500) << reply.status << " for " << bytes;
    // What follows on the connection is never taken for a request.
    EXPECT_TRUE(client.closed_within(3)) << bytes;
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ConnectionTest, ClosesClientsThatAreTooSlow) {
  options_.limits.header_deadline = milliseconds(200);
  options_.limits.body_deadline = milliseconds(200);
  options_.limits.idle_timeout = milliseconds(200);
  EXPECT_TRUE(connect().closed_within(2));  // sends nothing
  HttpClient head = connect();
  head.send("GET /health HT");
  EXPECT_TRUE(head.closed_within(2));
  HttpClient body = connect();
  body.send(post_head("Content-Length: 10\r\n") + "{");
  EXPECT_TRUE(body.closed_within(2));
  const std::string text = metrics();
  EXPECT_NE(text.find("hasten:rejections_total{reason=\"too_slow\"} 2"), std::string::npos) << text;
}

TEST_F(ConnectionTest, LimitsConnections) {
  options_.limits.connections = 2;
  HttpClient first = connect();
  HttpClient second = connect();
  EXPECT_EQ(first.request("GET", "/health").status, 200);
  EXPECT_EQ(second.request("GET", "/health").status, 200);
  HttpClient third = connect();
  EXPECT_EQ(third.read_reply().status, 503);
  EXPECT_TRUE(third.closed_within(2));
  EXPECT_EQ(first.request("GET", "/health").status, 200);
}

TEST_F(ConnectionTest, CancelsWhenTheClientLeaves) {
  for (const char* stream : {"false", "true"}) {
    HttpClient client = connect();
    const std::string body = chat_body("forever", std::string(R"(,"stream":)") + stream);
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    ASSERT_TRUE(running_becomes(1));
    if (*stream == 't') {
      EXPECT_TRUE(client.read_until("again"));
    }
    client.close();
    EXPECT_TRUE(running_becomes(0)) << "stream: " << stream;
  }
  EXPECT_EQ(engine_.stats().finished_cancelled, 2);
}

TEST_F(ConnectionTest, CutsClientsThatSendTooFarAhead) {
  HttpClient client = connect();
  const std::string body = chat_body("forever");
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_TRUE(running_becomes(1));
  client.send(std::string(20 << 10, 'x'));
  EXPECT_TRUE(running_becomes(0));
  EXPECT_TRUE(client.closed_within(5));
}

TEST_F(ConnectionTest, WakesWhoWaitsForAServerThatNeverStarted) {
  server::Server unused(engine_, options_);
  auto waiter = std::async(std::launch::async, [&] { unused.wait(); });
  std::this_thread::sleep_for(milliseconds(50));  // so that it waits
  unused.shutdown(milliseconds(0));
  EXPECT_EQ(waiter.wait_for(std::chrono::seconds(5)), std::future_status::ready);
}

TEST_F(ConnectionTest, CutsReadersThatAreTooSlow) {
  options_.limits.output_bytes = 64 << 10;
  fake_controls().step_us = 1;
  HttpClient client = connect(4096);
  const std::string body = chat_body("flood", R"(,"stream":true)");
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  // The client reads nothing; another one is served meanwhile.
  EXPECT_EQ(chat("hi").status, 200);
  bool cut = false;  // so fast that the request may never be seen running
  for (int i = 0; i < 500 && !cut; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    cut = metrics().find("reason=\"slow_reader\"} 1") != std::string::npos;
  }
  EXPECT_TRUE(cut);
  EXPECT_TRUE(running_becomes(0));
  EXPECT_TRUE(client.closed_within(5));
}

TEST_F(ConnectionTest, RefusesWhenTheQueueIsFull) {
  fake_controls().max_queue = 0;
  const HttpReply reply = chat("hi");
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  EXPECT_EQ(parse(reply.body).at("error").at("type"), "rate_limit_error");
  EXPECT_NE(metrics().find("reason=\"queue_requests\"} 1"), std::string::npos);
}

TEST_F(ConnectionTest, LimitsGenerationsAtOnce) {
  options_.limits.requests = 1;
  HttpClient first = connect();
  const std::string body = chat_body("forever");
  first.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_TRUE(running_becomes(1));
  EXPECT_EQ(chat("hi").status, 429);
  first.close();
  ASSERT_TRUE(running_becomes(0));
  int status = 429;  // the place is free once the server has seen the client leave
  for (int i = 0; i < 500 && status != 200; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    status = chat("hi").status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(ConnectionTest, TellsItsHealth) {
  EXPECT_EQ(get("/health/ready").body, R"({"status":"ready"})");
  EXPECT_EQ(get("/health").status, 200);
  fake_controls().ready = false;
  const HttpReply reply = get("/health/ready");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(parse(reply.body).at("reason"), "no step for 5 s");
  EXPECT_EQ(get("/health").status, 503);
  EXPECT_EQ(get("/health/live").status, 200);
}

TEST_F(ConnectionTest, DrainsWithoutCuttingAnswers) {
  fake_controls().step_us = 20'000;
  HttpClient idle = connect();
  HttpClient probe = connect();
  EXPECT_EQ(idle.request("GET", "/health/ready").status, 200);
  EXPECT_EQ(probe.request("GET", "/health/ready").status, 200);
  auto answer =
      std::async(std::launch::async, [&] { return chat("count 60", R"(, "stream": true)"); });
  ASSERT_TRUE(running_becomes(1));
  auto drained = std::async(std::launch::async, [&] { server_->shutdown(milliseconds(10'000)); });
  std::this_thread::sleep_for(milliseconds(50));
  const HttpReply ready = probe.request("GET", "/health/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(parse(ready.body).at("status"), "draining");
  const HttpReply refused = idle.request("POST", "/v1/chat/completions", chat_body("hi"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  // A balancer that connects anew for each probe must hear of it, too.
  const HttpReply later = get("/health/ready");
  EXPECT_EQ(later.status, 503);
  EXPECT_EQ(later.headers.at("connection"), "close");
  EXPECT_EQ(get("/health/live").status, 200);
  EXPECT_EQ(get("/metrics").status, 200);
  const HttpReply late = chat("hi");
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.headers.at("connection"), "close");
  EXPECT_EQ(parse(late.body).at("error").at("code"), "unavailable");
  const HttpReply reply = answer.get();
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(events_of(reply.body).back(), "[DONE]");
  EXPECT_NE(reply.body.find("w59"), std::string::npos);
  drained.get();
  EXPECT_THROW(connect(), std::runtime_error);
}

TEST_F(ConnectionTest, DrainsThoughAnAnswerIsReadLate) {
  fake_controls().step_us = 1;
  options_.limits.output_bytes = 1 << 30;
  HttpClient client = connect(4096);
  const std::string body =
      chat_body("count 1500", R"(,"stream":true,"logprobs":true,"top_logprobs":20)");
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_TRUE(client.read_until("w0"));
  ASSERT_TRUE(running_becomes(0));  // and the most of it still waits to be written
  auto drained = std::async(std::launch::async, [&] { server_->shutdown(milliseconds(60'000)); });
  std::this_thread::sleep_for(milliseconds(100));
  // The head had promised to keep the connection, but nothing more may be asked on it.
  EXPECT_TRUE(client.closed_within(20));
}

TEST_F(ConnectionTest, TellsClientsWhenTheDrainRunsOut) {
  server();
  auto answer =
      std::async(std::launch::async, [&] { return chat("forever", R"(, "stream": true)"); });
  ASSERT_TRUE(running_becomes(1));
  server_->shutdown(milliseconds(50));
  const HttpReply reply = answer.get();
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(parse(events[events.size() - 2]).at("error").at("code"), "unavailable");
  server_->wait();
}

TEST_F(ConnectionTest, ServesManyClientsAtOnce) {
  server();  // before there are threads
  std::vector<std::future<int>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::async(std::launch::async, [&, i] {
      int failures = 0;
      for (int j = 0; j < 10; ++j) {
        if ((i + j) % 4 == 0) {  // leaves in the middle
          HttpClient client = connect();
          const std::string body = chat_body("forever", R"(,"stream":true)");
          client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                      std::to_string(body.size()) + "\r\n\r\n" + body);
          client.read_until("again");
        } else {
          const HttpReply reply = chat("count 20", R"(, "stream": true)");
          failures += reply.body.find("w19") == std::string::npos;
        }
      }
      return failures;
    }));
  }
  for (auto& client : clients) EXPECT_EQ(client.get(), 0);
  EXPECT_TRUE(running_becomes(0));
}

}  // namespace
}  // namespace hasten::testing
