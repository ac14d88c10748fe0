// SPDX-License-Identifier: Apache-2.0
// What tells a model from all others.
#pragma once

#include <string>

#include "weights/checkpoint.h"

namespace hasten::api {

/// Different for models that compute different keys and values, the same each time that the same
/// files are opened: a hash of all that describes the model, of its tensors' names, types and
/// shapes, of samples of their bytes, and of its files' stamps, which stand for the other bytes. So
/// a model that was copied, moved or given other rights counts as another one.
std::string content_key(const weights::Checkpoint& checkpoint);

}  // namespace hasten::api
