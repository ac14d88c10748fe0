// SPDX-License-Identifier: Apache-2.0
// A bounded reader of the protobuf wire format: one message's fields, in order.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace hasten::text {

/// Walks the fields of one serialized message (protobuf.dev, "Encoding"). Borrows the bytes; copies
/// and allocates nothing. Each method throws Error{invalid_data} at a field that is cut short.
class ProtobufReader {
 public:
  /// `name` says in errors what is read.
  ProtobufReader(std::string_view message, std::string_view name) : rest_(message), name_(name) {}

  /// Moves to the next field; false at the end of the message.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = take_varint();
    field_ = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        value_ = take_varint();
        bytes_ = {};
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(take_varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        fail(ErrorCode::invalid_data,
             "{} is not what its name says, or damaged: a field of wire type {}, where 0, 1, 2 and "
             "5 are known; fetch it again",
             name_, tag & 7);
    }
    return true;
  }

  uint32_t field() const { return field_; }
  /// The value of a varint field; 0 for others.
  uint64_t varint() const { return bytes_.data() == nullptr ? value_ : 0; }
  /// The content of a string, message or fixed-size field; empty for others.
  std::string_view bytes() const { return bytes_; }
  /// The value of a float field; 0 for others.
  float float32() const {
    float value = 0;
    if (bytes_.size() == sizeof(value)) std::memcpy(&value, bytes_.data(), sizeof(value));
    return value;
  }

 private:
  uint64_t take_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    fail(ErrorCode::invalid_data,
         "{} is cut short or damaged: a number in it does not end; fetch it again", name_);
  }

  std::string_view take(uint64_t size) {
    if (size > rest_.size()) {
      fail(ErrorCode::invalid_data,
           "{} is cut short: a field of {} bytes, {} are left; fetch it again", name_, size,
           rest_.size());
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  std::string_view name_;
  uint32_t field_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;  // of the current field; data() is null for a varint
};

}  // namespace hasten::text
