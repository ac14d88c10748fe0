// SPDX-License-Identifier: Apache-2.0
// What becomes of a character that no piece covers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace hasten::text {

/// Byte tokens where the vocabulary has them for all bytes of a character, or else one unknown
/// token for a run of such characters. Lives for one text; borrows its arguments. One thread.
class UnknownFallback {
 public:
  UnknownFallback(const Vocabulary& vocabulary, int32_t unk, bool fuse, std::vector<int32_t>& out)
      : vocabulary_(vocabulary), unk_(unk), fuse_(fuse), out_(out) {}

  void append_token(int32_t id) {
    out_.push_back(id);
    after_unknown_ = false;
  }

  void append_unknown(std::string_view character) {
    const bool has_bytes = std::all_of(character.begin(), character.end(), [&](char c) {
      return vocabulary_.byte_token(static_cast<uint8_t>(c)) >= 0;
    });
    if (!has_bytes) return append_unknown_token();
    for (const char c : character) append_token(vocabulary_.byte_token(static_cast<uint8_t>(c)));
  }

  void append_unknown_token() {
    if (unk_ >= 0 && !(fuse_ && after_unknown_)) out_.push_back(unk_);
    after_unknown_ = true;
  }

 private:
  const Vocabulary& vocabulary_;
  int32_t unk_;  // -1: there is none, and such characters are left out
  bool fuse_;
  bool after_unknown_ = false;  // the last token is the unknown one
  std::vector<int32_t>& out_;
};

}  // namespace hasten::text
