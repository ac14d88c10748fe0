// SPDX-License-Identifier: Apache-2.0
// Collects pieces into runs, and lets the encoder part the long ones.
#include "text/parted_text.h"

#include <algorithm>

namespace hasten::text {

PartedText::PartedText(const Tokenizer& tokenizer, std::string_view text,
                       const EncodeOptions& options, size_t num_parts)
    : tokenizer_(tokenizer),
      num_parts_(std::max<size_t>(num_parts, 1)),
      part_bytes_(text.size() / num_parts_ + 1),
      add_special_(options.add_special) {
  tokenizer.for_each_piece(
      text, options, &normalized_, [this](const Segment& segment) { add({.segment = segment}); },
      [this](int32_t token) { add({.token = token}); });
  for (size_t i = 0; i < runs_.size(); ++i) {
    const size_t num_jobs = runs_[i].split ? runs_[i].split->num_parts() : 1;
    for (size_t part = 0; part < num_jobs; ++part) jobs_.push_back({.run = i, .part = part});
  }
}

void PartedText::add(const Piece& piece) {
  const size_t bytes = piece.segment.text.size();
  // Shorter ones part by part would not keep a thread longer than its neighbours.
  if (bytes > part_bytes_ / 2) {
    const size_t parts = std::clamp<size_t>(2 * bytes / part_bytes_, 1, num_parts_);
    if (auto split = tokenizer_.encoder_->split(piece.segment, parts)) {
      runs_.push_back({.split = std::move(split)});
      return;
    }
  }
  if (runs_.empty() || runs_.back().split || runs_.back().bytes >= part_bytes_) {
    runs_.emplace_back();
  }
  runs_.back().pieces.push_back(piece);
  runs_.back().bytes += bytes;
}

void PartedText::do_job(size_t i) {
  Run& run = runs_[jobs_[i].run];
  if (run.split) return run.split->encode_part(jobs_[i].part);
  for (const Piece& piece : run.pieces) {
    if (piece.token >= 0) {
      run.tokens.push_back(piece.token);
    } else {
      tokenizer_.encoder_->encode(piece.segment, run.tokens);
    }
  }
}

std::vector<int32_t> PartedText::take_tokens() {
  std::vector<int32_t> tokens;
  if (add_special_) tokens = tokenizer_.tokens_before_;
  for (Run& run : runs_) {
    if (run.split) {
      run.split->append_to(tokens);
    } else {
      tokens.insert(tokens.end(), run.tokens.begin(), run.tokens.end());
    }
    run = {};
  }
  if (add_special_) {
    tokens.insert(tokens.end(), tokenizer_.tokens_after_.begin(), tokenizer_.tokens_after_.end());
  }
  return tokens;
}

}  // namespace hasten::text
