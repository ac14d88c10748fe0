// SPDX-License-Identifier: Apache-2.0
// Three ways to part a segment, each exact by the way it is made.
#include "text/split_segment.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hasten::text {
namespace {

class Steps final : public SplitSegment {
 public:
  Steps(std::string_view text, size_t num_parts, MakeEncodeStep make_step)
      : text_(text), make_step_(std::move(make_step)) {
    for (size_t i = 0; i < num_parts; ++i) {
      const size_t begin = i == 0 ? 0 : likely_place(text.size() / num_parts * i);
      if (parts_.empty() || begin > parts_.back().begin) parts_.push_back({.begin = begin});
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].end = i + 1 < parts_.size() ? parts_[i + 1].begin : text.size();
    }
  }

  [[nodiscard]] size_t num_parts() const override { return parts_.size(); }

  void encode_part(size_t i) override {
    Part& part = parts_[i];
    const EncodeStep step = make_step_();
    size_t at = part.begin;
    while (at < part.end) {
      if (part.places.size() < kMaxPlaces) part.places.push_back({at, part.tokens.size()});
      const size_t length = step(text_, at, part.end + kMaxReach, part.tokens);
      if (length == 0) break;
      at += length;
    }
    part.stop = at;
  }

  void append_to(std::vector<int32_t>& out) override {
    size_t total = 0;
    for (const Part& part : parts_) total += part.tokens.size();
    out.reserve(out.size() + total);
    size_t at = 0;  // all tokens before it are there
    EncodeStep step;
    for (Part& part : parts_) {
      auto place = part.places.begin();
      while (at < part.end) {
        place = std::find_if(place, part.places.end(), [&](const Place& p) { return p.at >= at; });
        if (place != part.places.end() && place->at == at) {
          out.insert(out.end(), part.tokens.begin() + static_cast<ptrdiff_t>(place->num_tokens),
                     part.tokens.end());
          at = part.stop;
          break;
        }
        if (!step) step = make_step_();
        at += step(text_, at, text_.size(), out);
      }
      part = {};
    }
  }

 private:
  // A place that a part went through, and the tokens before it.
  struct Place {
    size_t at;
    size_t num_tokens;
  };
  struct Part {
    size_t begin = 0;
    size_t end = 0;   // where the next begins
    size_t stop = 0;  // where its last step ended; before `end` if the next reaches too far
    std::vector<Place> places = {};
    std::vector<int32_t> tokens = {};
  };
  // Ways that have not met by then, which text of people does not have, are gone alone.
  static constexpr size_t kMaxPlaces = 4096;
  // Bytes beyond its end. Parts that begin inside one long word would all encode the rest of it.
  static constexpr size_t kMaxReach = 4096;

  // Near `at`, where words of most languages begin: the fewer steps are made in vain.
  size_t likely_place(size_t at) const {
    constexpr size_t kFar = 256;
    const size_t found = text_.substr(at, kFar).find_first_of("\n ");
    return found == std::string_view::npos ? at : at + found;
  }

  std::string_view text_;
  MakeEncodeStep make_step_;
  std::vector<Part> parts_;
};

// Parts that have nothing to do with each other.
class Independent : public SplitSegment {
 public:
  [[nodiscard]] size_t num_parts() const override { return tokens_.size(); }

  void append_to(std::vector<int32_t>& out) override {
    for (std::vector<int32_t>& part : tokens_) {
      out.insert(out.end(), part.begin(), part.end());
      part = {};
    }
  }

 protected:
  std::vector<std::vector<int32_t>> tokens_;  // [num_parts]
};

class Words final : public Independent {
 public:
  Words(const PreTokenizerChain& chain, std::string_view text, bool starts_text, size_t num_parts,
        EncodeWords encode)
      : encode_(std::move(encode)) {
    chain.cut(text, starts_text, cut_);
    const size_t part_bytes = cut_.text.size() / num_parts + 1;
    ends_.push_back(0);
    for (size_t i = 0; i < cut_.words.size(); ++i) {
      if (cut_.words[i].end >= part_bytes * ends_.size()) ends_.push_back(i + 1);
    }
    if (ends_.back() < cut_.words.size()) ends_.push_back(cut_.words.size());
    tokens_.resize(ends_.size() - 1);
  }

  void encode_part(size_t i) override { encode_(cut_, ends_[i], ends_[i + 1], tokens_[i]); }

 private:
  PreTokenizerChain::Words cut_;
  std::vector<size_t> ends_;  // of the parts, in words; 0 first
  EncodeWords encode_;
};

class Joints final : public Independent {
 public:
  Joints(std::string text, size_t num_parts,
         const std::function<bool(std::string_view, size_t)>& is_joint, EncodeText encode)
      : text_(std::move(text)), encode_(std::move(encode)) {
    const size_t part_bytes = text_.size() / num_parts + 1;
    ends_.push_back(0);
    for (size_t at = part_bytes; at < text_.size(); ++at) {
      if (!is_joint(text_, at)) continue;
      ends_.push_back(at);
      at += part_bytes - 1;
    }
    ends_.push_back(text_.size());
    tokens_.resize(ends_.size() - 1);
  }

  void encode_part(size_t i) override {
    encode_(std::string_view(text_).substr(ends_[i], ends_[i + 1] - ends_[i]), tokens_[i]);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;  // of the parts, in bytes; 0 first
  EncodeText encode_;
};

}  // namespace

std::unique_ptr<SplitSegment> split_at_steps(std::string_view text, size_t num_parts,
                                             MakeEncodeStep make_step) {
  return std::make_unique<Steps>(text, num_parts, std::move(make_step));
}

std::unique_ptr<SplitSegment> split_at_words(const PreTokenizerChain& chain, std::string_view text,
                                             bool starts_text, size_t num_parts,
                                             EncodeWords encode) {
  return std::make_unique<Words>(chain, text, starts_text, num_parts, std::move(encode));
}

std::unique_ptr<SplitSegment> split_at_joints(
    std::string text, size_t num_parts,
    const std::function<bool(std::string_view, size_t)>& is_joint, EncodeText encode) {
  return std::make_unique<Joints>(std::move(text), num_parts, is_joint, std::move(encode));
}

}  // namespace hasten::text
