// SPDX-License-Identifier: Apache-2.0
// Which options no engine can be made with.
#pragma once

#include "engine/engine.h"

namespace hasten::engine {

/// Throws Error{invalid_argument} that names the option, its value and what it may be.
void check_options(const CoreOptions& options);

}  // namespace hasten::engine
