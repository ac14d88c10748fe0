// SPDX-License-Identifier: Apache-2.0
// Bytes in text, as tokenizer files write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hasten::text {

/// The bytes of Base64 with its padding (RFC 4648, section 4); nullopt for anything else, and for
/// nothing.
std::optional<std::string> decode_base64(std::string_view encoded);
/// The same into `bytes`, whose memory serves again; false, and they are anything, for what is
/// none.
[[nodiscard]] bool decode_base64(std::string_view encoded, std::string& bytes);

}  // namespace hasten::text
