// SPDX-License-Identifier: Apache-2.0
// The Unicode Normalization Forms, which the tokenizers of some models ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hasten::text {

/// Whether `text` certainly is in NFC already: it holds no character that NFC could touch. Cheap,
/// and true of nearly all text.
[[nodiscard]] bool is_nfc_stable(std::string_view text);

/// The same for NFKC.
[[nodiscard]] bool is_nfkc_stable(std::string_view text);

/// `text` in NFC (Unicode Standard Annex #15). Malformed UTF-8 is kept as it is. Near-linear.
[[nodiscard]] std::string to_nfc(std::string_view text);

enum class NormalizationForm { nfc, nfd, nfkc, nfkd };

/// `text` in any form, as to_nfc. Where that is longer than `max_bytes`, it may lack its end.
[[nodiscard]] std::string to_normalization_form(std::string_view text, NormalizationForm form,
                                                size_t max_bytes = SIZE_MAX);

}  // namespace hasten::text
