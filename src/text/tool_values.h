// SPDX-License-Identifier: Apache-2.0
// The JSON of an argument that a model did not write as JSON.
#pragma once

#include <string>
#include <string_view>

#include "text/tool_schemas.h"

namespace hasten::text {

/// The string that a JSON string literal stands for; empty if it is none.
std::string unquoted(std::string_view literal);

/// Whether `text` is JSON of something else than a string.
bool is_other_json(std::string_view text);

/// The JSON of an argument that stands as plain text: of a type other than string where `types`
/// allow it and the text is JSON of it. Where nothing that fits is a string, other JSON goes
/// through as it is, and Python's literals, which templates print, become JSON of a type that fits.
/// The rest is a string.
std::string json_of_text(std::string_view text, ValueTypes types);

}  // namespace hasten::text
