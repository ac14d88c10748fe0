// SPDX-License-Identifier: Apache-2.0
// Python's two ways of formatting: '%s' % value and '{}'.format(value).
#pragma once

#include "text/jinja/runtime.h"

namespace hasten::text::jinja {

/// format % values, where a tuple gives several and a dict gives named ones.
Value format_percent(Runtime& rt, const Text& format, const Value& values);

/// format.format(*positional, **named).
Value format_braces(Runtime& rt, const Text& format, const Arguments& arguments);

}  // namespace hasten::text::jinja
