// SPDX-License-Identifier: Apache-2.0
// The characters that HTML has names for.
#pragma once

#include <span>
#include <string_view>

namespace hasten::text::jinja {

struct HtmlEntity {
  std::string_view name;  // as behind "&": "amp;", and "amp", which old pages write
  std::string_view to;    // UTF-8
};

/// In the order of their names.
extern const std::span<const HtmlEntity> kHtmlEntities;

}  // namespace hasten::text::jinja
