// SPDX-License-Identifier: Apache-2.0
// Counters and histograms for Prometheus, under vLLM's names, which dashboards look for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hasten/engine.h"

namespace hasten::server {

/// All members are safe from any thread.
class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// From a request's arrival to its first token.
  void first_token(int64_t us);
  /// `tokens` more tokens of one answer, `us` after the ones before.
  void more_tokens(int64_t us, int64_t tokens);
  /// A generation has ended by itself, `us` after its request's arrival.
  void finished(int64_t us, const Usage& usage);
  /// A request or connection was refused or cut. `reason`: one of a fixed set of words.
  void rejected(std::string_view reason);
  /// An answer was begun. `route`: its route_name.
  void answered(std::string_view route, int status);

  /// Everything in Prometheus' text format 0.0.4.
  std::string text(const Stats& stats) const;

 private:
  struct Families;
  std::string model_name_;
  std::unique_ptr<Families> families_;
};

}  // namespace hasten::server
