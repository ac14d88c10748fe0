// SPDX-License-Identifier: Apache-2.0
// What people are told of a tokenizer.
#pragma once

#include "hasten/tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace hasten::api {

/// What the description says; the rest is filled in by describe.
TokenizerInfo describe(const text::TokenizerSpec& spec);
/// Adds to it what only the tokenizer knows that was made of the description.
void describe(const text::Tokenizer& tokenizer, TokenizerInfo& info);

}  // namespace hasten::api
