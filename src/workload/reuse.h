// SPDX-License-Identifier: Apache-2.0
// How much of a trace's prompts a prefix cache without bounds would have.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/trace.h"

namespace hasten::workload {

/// Of each request the leading tokens that a request before it in the trace has, too, at most all
/// but the last: what a cache has of them that keeps everything, when each request has been
/// answered before the next one comes. Tenants share nothing. Those that `answered` says no of
/// leave nothing and have nothing; empty: all were answered.
std::vector<int64_t> reusable_tokens(const Trace& trace, const std::vector<bool>& answered = {});

/// The fraction of all prompt tokens of the answered requests that these are.
double reusable_fraction(const Trace& trace, const std::vector<bool>& answered = {});

}  // namespace hasten::workload
