// SPDX-License-Identifier: Apache-2.0
// A text as jobs for several threads, and their tokens put together again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/segment_encoder.h"
#include "text/split_segment.h"
#include "text/tokenizer.h"

namespace hasten::text {

/// Tokens named in the text are found, and the rest is normalized, by the constructor; what takes
/// time is left to the jobs. Borrows the tokenizer and the text.
class PartedText {
 public:
  /// Long stretches become at most `num_parts` jobs each, short ones are put together. Throws as
  /// Tokenizer::encode.
  PartedText(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options,
             size_t num_parts);

  [[nodiscard]] size_t num_jobs() const { return jobs_.size(); }
  /// Each once, in any order, on any thread.
  void do_job(size_t i);
  /// The tokens of the text, after all jobs; the same as those of Tokenizer::encode.
  [[nodiscard]] std::vector<int32_t> take_tokens();

 private:
  struct Piece {
    Segment segment = {};
    int32_t token = -1;  // instead of a segment
  };
  // Pieces one after the other, or one long segment.
  struct Run {
    std::vector<Piece> pieces = {};
    size_t bytes = 0;
    std::vector<int32_t> tokens = {};
    std::unique_ptr<SplitSegment> split = {};  // instead of pieces
  };
  struct Job {
    size_t run;
    size_t part;  // of its split
  };
  void add(const Piece& piece);

  const Tokenizer& tokenizer_;
  size_t num_parts_;
  size_t part_bytes_;
  bool add_special_;
  std::deque<std::string> normalized_;  // what segments view, where that is not the text
  std::vector<Run> runs_;
  std::vector<Job> jobs_;
};

}  // namespace hasten::text
