// SPDX-License-Identifier: Apache-2.0
// What tells a model from all others.
#pragma once

#include <string>

#include "weights/checkpoint.h"

namespace hasten::api {

/// The same for models that compute the same keys and values, different for others: a hash of all
/// that describes the model, and of its tensors' names, types, shapes and bytes. Samples stand for
/// what a large tensor has, and when its file was written last stands for the rest.
std::string content_key(const weights::Checkpoint& checkpoint);

}  // namespace hasten::api
