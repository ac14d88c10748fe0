// SPDX-License-Identifier: Apache-2.0
// What the normaliser, pre-tokenizer and post-processor of a tokenizer.json amount to.
#pragma once

#include "base/json.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

/// Sets kind, pre_steps, normalize_nfc, space_prefix and single_space_prefix of `spec` from
/// "normalizer" and "pre_tokenizer". Throws Error{invalid_data, unsupported}.
void read_segmentation(const json::Object& root, TokenizerSpec& spec);

/// Sets bos, eos, add_bos and add_eos of `spec` from "post_processor", when it puts tokens around a
/// text. Throws Error{invalid_data, unsupported}.
void read_post_processor(const json::Object& root, TokenizerSpec& spec);

}  // namespace hasten::text
