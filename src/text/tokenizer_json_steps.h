// SPDX-License-Identifier: Apache-2.0
// The normalisers and decoders of a tokenizer.json as plain data.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/decoder_steps.h"
#include "text/normalizer_steps.h"

namespace hasten::text {

/// The components of one that may be absent, single, or a Sequence (of Sequences), in order.
std::vector<const json::Object*> json_components(const json::Value& value, std::string_view name,
                                                 std::string_view list_name);

/// Throw Error{invalid_data}, and Error{unsupported} for a component that is not known.
NormalizerSteps read_normalizers(const json::Value& normalizer);
DecoderSteps read_decoders(const json::Value& decoder);

/// Throws Error{unsupported} for a decoder of a type that is not known, and Error{invalid_data}.
void check_decoders(const json::Value& decoder);

}  // namespace hasten::text
