// SPDX-License-Identifier: Apache-2.0
// What all handlers share.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hasten/engine.h"
#include "server/access.h"
#include "server/metrics.h"
#include "server/openai_request.h"
#include "server/server.h"

namespace hasten::server {

/// One per server. Const but for atomics and what locks itself, so any strand may use it.
struct Context {
  Context(Engine& engine, const ServerOptions& options);

  Engine& engine;
  const ServerOptions& options;
  const Access access;
  const std::vector<std::string> model_names;  // at least one; the first is the one shown
  const int64_t started_s;                     // Unix time
  Metrics metrics;
  Stats stats_at_start;  // of the engine, before the first client
  std::atomic<bool> draining = false;
  std::atomic<int64_t> generations = 0;  // being answered now
  std::atomic<int64_t> body_bytes = 0;   // held by BodyShares

  /// The name to show for a request that asked for `model`. Throws Error{not_found} for one that is
  /// not served.
  const std::string& served_name(const std::string& model) const;
  RequestBounds bounds() const;
};

/// A place among the requests for the engine that may run or wait at once; given back when it is
/// destroyed.
class GenerationSlot {
 public:
  /// Throws Error{unavailable} while draining, Error{resource_exhausted} when all are taken.
  explicit GenerationSlot(Context& context);
  ~GenerationSlot();
  GenerationSlot(const GenerationSlot&) = delete;
  GenerationSlot& operator=(const GenerationSlot&) = delete;

 private:
  Context& context_;
};

/// A part of the memory that all bodies on their way share; given back when it is destroyed.
class BodyShare {
 public:
  explicit BodyShare(Context& context) : context_(context) {}
  ~BodyShare();
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  /// Takes `bytes` in all. Throws Error{resource_exhausted} when that is more than others leave.
  void grow_to(int64_t bytes);

 private:
  Context& context_;
  int64_t bytes_ = 0;
};

}  // namespace hasten::server
