// SPDX-License-Identifier: Apache-2.0
// The client against servers that answer well, stall, lie and break off, on real sockets.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/load.h"
#include "client/sse_reader.h"
#include "client/url.h"
#include "hasten/error.h"

namespace hasten::client {
namespace {

using boost::asio::ip::tcp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Url, IsTakenApart) {
  const Url plain = parse_url("http://localhost");
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.authority(), "localhost:80");
  EXPECT_EQ(plain.prefix, "");
  const Url full = parse_url("http://[::1]:8080/api/v1/");
  EXPECT_EQ(full.host, "::1");
  EXPECT_EQ(full.authority(), "[::1]:8080");
  EXPECT_EQ(full.prefix, "/api");
}

TEST(Url, SaysWhatIsWrong) {
  for (const auto& [url, said] : std::vector<std::pair<std::string, std::string>>{
           {"https://x", "there is no TLS here"},
           {"localhost:8080", "does not begin with http://"},
           {"http://", "names no host"},
           {"http://x:0", "its port is no number"},
           {"http://x:99999", "its port is no number"},
           {"http://x:", "its port is no number"},
           {"http://[::1", "no closing bracket"},
           {"http://[::1]8", "its port is no number"},
           {"http://u:p@x", "holds a user"},
           {"http://x/y?z", "holds a query"},
           {"http://x/ y", "holds what no URL may"}}) {
    try {
      parse_url(url);
      ADD_FAILURE() << url;
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), "url");
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  }
}

std::vector<std::string> events_of(std::string_view text, size_t piece, size_t most = 100) {
  std::vector<std::string> events;
  SseReader reader(most);
  for (size_t at = 0; at < text.size(); at += piece)
    reader.feed(text.substr(at, piece), [&](std::string_view data) { events.emplace_back(data); });
  return events;
}

TEST(SseReader, ReadsTheSameWhateverThePieces) {
  constexpr std::string_view kStream =
      ": a comment\n\ndata: one\r\n\r\nevent: x\ndata:two\ndata:  three\nid: 7\n\n\n"
      "data\n\ndata: cut off";
  for (size_t piece = 1; piece <= kStream.size(); ++piece)
    EXPECT_THAT(events_of(kStream, piece), ElementsAre("one", "two\n three", "")) << piece;
}

TEST(SseReader, IsBounded) {
  EXPECT_THROW(events_of(std::string(101, 'x'), 7), Error);
  EXPECT_THROW(
      events_of("data: " + std::string(60, 'x') + "\ndata: " + std::string(60, 'x') + "\n", 1000),
      Error);
  EXPECT_EQ(events_of("data: " + std::string(94, 'x') + "\n\n", 1).size(), 1);
}

/// Answers each connection with a function of its own, in turn, on one thread.
class Answerer {
 public:
  using Answer = std::function<void(tcp::socket&, const std::string& head)>;

  explicit Answerer(std::vector<Answer> answers)
      : acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}),
        thread_([this, answers = std::move(answers)] {
          for (const Answer& answer : answers) {
            boost::system::error_code error;
            tcp::socket socket = acceptor_.accept(error);
            if (error) return;
            boost::asio::streambuf buffer;
            boost::asio::read_until(socket, buffer, "\r\n\r\n", error);
            answer(socket, {boost::asio::buffers_begin(buffer.data()),
                            boost::asio::buffers_end(buffer.data())});
          }
        }) {}
  ~Answerer() { thread_.join(); }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  ServerAddress address() const {
    ServerAddress server;
    server.url = {.host = "127.0.0.1", .port = std::to_string(acceptor_.local_endpoint().port())};
    server.stall_timeout = std::chrono::milliseconds(300);
    return server;
  }

 private:
  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

void send(tcp::socket& socket, const std::string& bytes) {
  boost::system::error_code ignored;
  boost::asio::write(socket, boost::asio::buffer(bytes), ignored);
}

Answerer::Answer say(const std::string& bytes) {
  return [bytes](tcp::socket& socket, const std::string&) { send(socket, bytes); };
}

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
const std::string kText = "data: {\"choices\": [{\"text\": \"a\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 3, "
    "\"prompt_tokens_details\": {\"cached_tokens\": 5}}}\n\n";

struct Seen {
  std::vector<int> texts;  // events with text of each request
  std::vector<Ending> endings;
};

Seen run(const ServerAddress& server, size_t count, std::vector<int64_t> times = {}) {
  Seen seen;
  seen.texts.resize(count);
  seen.endings.resize(count);
  run_load(server, {.num_requests = count,
                    .times_us = std::move(times),
                    .users = 1,
                    .path = "/v1/completions",
                    .body = [](size_t) { return std::string("{}"); },
                    .on_send = [](size_t, int64_t, int64_t) {},
                    .on_text = [&](size_t i, int64_t) { ++seen.texts[i]; },
                    .on_end = [&](size_t i, int64_t, const Ending& e) { seen.endings[i] = e; }});
  return seen;
}

TEST(Load, ReadsAStreamOfEvents) {
  std::string head;
  Answerer server(
      {[&](tcp::socket& socket, const std::string& got) {
         head = got;
         send(socket, kStreamHead + kText + kText + kUsage + "data: [DONE]\n\n");
       },
       say(kStreamHead + "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": "
                         "\"\"}}]}\n\ndata: {\"choices\": [{\"delta\": {\"content\": \"x\"}}]}\n\n"
                         "data: [DONE]\n\n")});
  ServerAddress address = server.address();
  address.api_key = "secret";
  address.url.prefix = "/api";
  const Seen seen = run(address, 2);
  EXPECT_THAT(seen.texts, ElementsAre(2, 1));
  EXPECT_EQ(seen.endings[0].failure, "");
  EXPECT_EQ(seen.endings[0].prompt_tokens, 7);
  EXPECT_EQ(seen.endings[0].cached_tokens, 5);
  EXPECT_EQ(seen.endings[0].completion_tokens, 3);
  EXPECT_EQ(seen.endings[1].completion_tokens, -1);
  EXPECT_THAT(head, HasSubstr("POST /api/v1/completions HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer secret\r\n"));
}

TEST(Load, CountsEachKindOfFailure) {
  const std::string chunk = std::string(70000, 'x');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", "HTTP 429"},
      {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
       "no event stream"},
      {kStreamHead + kText, "cut short"},
      {"", "cut short"},
      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "no HTTP"},
      {"HTTP/1.1 200 OK\r\nA: " + chunk, "its header is too long"},
      {kStreamHead + "data: {\n\n", "malformed event"},
      {kStreamHead + "data: [1]\n\n", "malformed event"},
      {kStreamHead + "data: " + std::string(2 << 20, 'x'), "malformed event"},
      {kStreamHead + "data: {\"error\": {\"message\": \"no\"}}\n\n", "error event"},
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99999999999\r\n\r\n",
       "too much data"},
      {kStreamHead + "data: {\"choices\": 3, \"usage\": {\"prompt_tokens\": \"many\"}}\n\n"
                     "data: {\"choices\": [7], \"usage\": [1]}\n\n: end\n\ndata: [DONE]\n\n",
       ""}};
  std::vector<Answerer::Answer> answers;
  for (const auto& [bytes, kind] : cases) answers.push_back(say(bytes));
  Answerer server(answers);
  const Seen seen = run(server.address(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(seen.endings[i].failure, cases[i].second) << i;
}

TEST(Load, TellsWhatTheServerSaysOfAFailure) {
  const auto refused = [](std::string_view status, std::string_view body) {
    return say(
        fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body));
  };
  Answerer server({refused("400 Bad", R"({"error": {"message": "too long", "code": 1}})"),
                   refused("401 No", R"({"error": "no key"})"),
                   refused("502 Bad", "<html>" + std::string(1 << 20, 'x')),
                   refused("503 Busy", ""),
                   say("HTTP/1.1 500 Bad\r\nContent-Length: 9\r\n\r\n{\"er"),
                   say(kStreamHead + "data: {\"error\": {\"message\": \"it broke\"}}\n\n")});
  const Seen seen = run(server.address(), 6);
  EXPECT_EQ(seen.endings[0].detail, "too long");
  EXPECT_THAT(seen.endings[1].detail, HasSubstr("no key (give the server's key with --api-key"));
  EXPECT_EQ(seen.endings[2].detail.substr(0, 7), "<html>x");
  EXPECT_LT(seen.endings[2].detail.size(), 1000U);
  EXPECT_EQ(seen.endings[3].detail, "");
  EXPECT_EQ(seen.endings[4].failure, "HTTP 500");
  EXPECT_EQ(seen.endings[5].failure, "error event");
  EXPECT_EQ(seen.endings[5].detail, "it broke");
}

TEST(Load, PutsWhatTheServerSaysOnOneShortLine) {
  const std::string letters = "a" + [] {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "\xC3\xA4";
    return text;
  }();
  const auto refused = [](std::string_view body) {
    return say(fmt::format("HTTP/1.1 503 No\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  };
  Answerer server({refused(R"({"error": "no\nhasten: all is well\u001b[31m"})"), refused(letters)});
  const Seen seen = run(server.address(), 2);
  EXPECT_EQ(seen.endings[0].detail, "no hasten: all is well [31m");
  EXPECT_EQ(seen.endings[1].detail, letters.substr(0, 299) + "...");
}

TEST(Load, DoesNotWaitForTheWordsOfAFailure) {
  std::atomic<bool> over = false;
  Answerer server({[&](tcp::socket& socket, const std::string&) {
    send(socket, "HTTP/1.1 503 Busy\r\nContent-Length: 9999\r\n\r\n");
    while (!over) {
      send(socket, "x");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }});
  ServerAddress address = server.address();
  address.error_timeout = std::chrono::milliseconds(100);
  const auto started = std::chrono::steady_clock::now();
  const Seen seen = run(address, 1);
  over = true;
  EXPECT_EQ(seen.endings[0].failure, "HTTP 503");
  EXPECT_THAT(seen.endings[0].detail, HasSubstr("x"));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(30));
}

TEST(Load, GivesUpWhatStallsOrNeverEnds) {
  std::atomic<bool> over = false;
  Answerer server({[&](tcp::socket& socket, const std::string&) {
                     send(socket, kStreamHead + kText);
                     boost::asio::streambuf rest;
                     boost::system::error_code ignored;
                     boost::asio::read_until(socket, rest, "never", ignored);  // until it leaves
                   },
                   [&](tcp::socket& socket, const std::string&) {
                     send(socket, kStreamHead);
                     while (!over) {
                       send(socket, ": ping\n\n");
                       std::this_thread::sleep_for(std::chrono::milliseconds(20));
                     }
                   }});
  ServerAddress address = server.address();
  address.request_timeout = std::chrono::milliseconds(600);
  const Seen seen = run(address, 2);
  over = true;
  EXPECT_EQ(seen.endings[0].failure, "stalled");
  EXPECT_EQ(seen.texts[0], 1);
  EXPECT_EQ(seen.endings[1].failure, "took too long");
}

TEST(Load, SendsAtTheTimesGiven) {
  const std::string answer = kStreamHead + kText + "data: [DONE]\n\n";
  Answerer server({say(answer), say(answer), say(answer)});
  std::vector<int64_t> sent;
  std::vector<int64_t> due;
  run_load(server.address(), {.num_requests = 3,
                              .times_us = {0, 30'000, 60'000},
                              .path = "/",
                              .body = [](size_t) { return std::string("{}"); },
                              .on_send =
                                  [&](size_t, int64_t due_us, int64_t now_us) {
                                    due.push_back(due_us);
                                    sent.push_back(now_us);
                                  },
                              .on_text = [](size_t, int64_t) {},
                              .on_end = [](size_t, int64_t, const Ending&) {}});
  ASSERT_EQ(sent.size(), 3);
  EXPECT_EQ(due[2] - due[0], 60'000);
  for (size_t i = 0; i < 3; ++i) EXPECT_GE(sent[i], due[i]);
}

TEST(Load, SendsWhatFollowsWhenThatHasEndedWell) {
  const std::string answer = kStreamHead + kText + "data: [DONE]\n\n";
  Answerer server({say(answer), say(answer), say("HTTP/1.1 500 Oh\r\n\r\n")});
  std::vector<size_t> order;
  std::vector<int64_t> sent(4, -1);
  std::vector<int64_t> ended(4, -1);
  run_load(server.address(),
           {.num_requests = 4,
            .times_us = {0, 0, 0, 0},
            .followers = {{{2, 30'000}}, {}, {{3, 0}}, {{1, 0}}},
            .path = "/",
            .body =
                [&](size_t i) {
                  order.push_back(i);
                  return std::string("{}");
                },
            .on_send = [&](size_t i, int64_t, int64_t now) { sent[i] = now; },
            .on_text = [](size_t, int64_t) {},
            .on_end = [&](size_t i, int64_t now, const Ending&) { ended[i] = now; }});
  EXPECT_EQ(order, (std::vector<size_t>{0, 2, 3}));  // 3 fails, so 1 does not come
  EXPECT_GE(sent[2], ended[0] + 30'000);
  EXPECT_GE(sent[3], ended[2]);
  EXPECT_EQ(sent[1], -1);
}

TEST(Load, SaysThatNobodyListens) {
  ServerAddress address;
  {
    Answerer gone({});
    address = gone.address();
  }
  const Seen seen = run(address, 1);
  EXPECT_THAT(seen.endings[0].failure, HasSubstr("no connection: Connection refused"));
  try {
    get(address, "/v1/models");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("/v1/models: no connection: Connection refused"));
  }
}

TEST(Load, LetsThroughWhatACallbackThrows) {
  Answerer server({say(kStreamHead + kText)});
  EXPECT_THROW(run_load(server.address(), {.num_requests = 1,
                                           .path = "/",
                                           .body = [](size_t) { return std::string("{}"); },
                                           .on_send = [](size_t, int64_t, int64_t) {},
                                           .on_text = [](size_t, int64_t) { throw 1; },
                                           .on_end = [](size_t, int64_t, const Ending&) {}}),
               int);
}

TEST(Get, ReturnsTheBody) {
  Answerer server({say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
                   say("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello")});
  EXPECT_EQ(get(server.address(), "/"), "hello");
  EXPECT_THROW(get(server.address(), "/"), Error);
}

}  // namespace
}  // namespace hasten::client
