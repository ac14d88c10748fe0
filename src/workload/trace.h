// SPDX-License-Identifier: Apache-2.0
// Trace: the requests of a workload with their times and lengths, read from a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hasten::workload {

/// The last time that a workload may reach: 136 years, whose nanoseconds fit 64 bits.
inline constexpr int64_t kMaxSeconds = int64_t{1} << 32;

/// One request: when it comes and how long it is.
struct TraceRequest {
  int64_t line = 0;                  // of the file, from 1; 0: of none
  int64_t time_us = 0;               // since the first one
  int64_t prompt_tokens = 0;         // at least 1; 0: only `text` says
  int64_t output_tokens = 0;         // to generate, at least 1; 0: the trace does not say
  std::vector<int64_t> blocks = {};  // ids of the prompt's leading blocks of Trace::block_tokens
                                     // tokens; equal ids behind equal ids stand for equal tokens
  std::string text = {};             // of the prompt; empty: the trace gives only its length
  std::string tenant = {};           // whose it is
  int32_t priority = 0;              // larger is more urgent
  int64_t deadline_us = 0;           // from its coming to its end, to be of use; 0: any time
  std::string program_id = {};       // of whose calls it is one; empty: of none
  int32_t program_calls_left = -1;   // that are to come after it; -1: it does not say
  int64_t follows = -1;              // index of the request after whose end it comes; -1: none
  int64_t pause_us = 0;              // likewise, how long after
  bool ends_program = false;         // of a trace with programs: the last of its own in order
};

struct Trace {
  std::vector<TraceRequest> requests;  // in order of time
  int64_t block_tokens = 512;          // of TraceRequest::blocks
  bool has_times = false;              // or else all times are 0
  // What was ignored though it looks as if it were meant, in words, one for each name; not all of
  // many.
  std::vector<std::string> doubts;
};

/// What a file may ask for at most.
struct TraceLimits {
  int64_t requests = 10'000'000;
  int64_t tokens = 1 << 24;  // of one prompt or answer
  int64_t line_bytes = 4 << 20;
  int64_t total_blocks = 1 << 28;  // of all requests
};

/// Reads one of three formats, told apart by the first line:
///  - CSV with the columns TIMESTAMP, ContextTokens and GeneratedTokens (Azure's LLM inference
///    traces, 2023 and 2024; Patel et al., Splitwise, 2024);
///  - JSON lines with timestamp (ms), input_length, output_length and hash_ids of blocks of 512
///    tokens (Mooncake's traces; Qin et al., 2025);
///  - JSON lines of our own: time_s, prompt_tokens, output_tokens, blocks, prompt (or turns, of
///    which the first is taken), tenant, priority, deadline_ms, program_id, program_calls_left,
///    pause_ms; a prompt or prompt_tokens is needed, all else may be left out, but either every
///    line has time_s or none. One with pause_ms has no time: it comes so long after the end of the
///    line before it of the same tenant and program_id. A field that is none of these is an
///    error, but where there is a text, as in files of tasks, at most a doubt.
/// Throws Error{invalid_data} with `name`, the line and the value that is wrong.
Trace parse_trace(std::string_view text, std::string_view name, const TraceLimits& limits = {});

/// The same of a file. Error{not_found, io} when it cannot be read.
Trace read_trace(const std::filesystem::path& path, const TraceLimits& limits = {});

/// Keeps the first `count` requests.
void keep_first(Trace& trace, int64_t count);

/// Multiplies all lengths, rounded, at least 1; blocks shrink with the prompts, so that the same
/// fraction of each prompt is shared. `factor` in (0, 1024]. Throws Error{invalid_argument} for a
/// length beyond the limits.
void scale_lengths(Trace& trace, double factor, const TraceLimits& limits = {});

}  // namespace hasten::workload
