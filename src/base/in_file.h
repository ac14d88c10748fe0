// SPDX-License-Identifier: Apache-2.0
// Errors of what reads a file begin with the name of the file.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace hasten {

/// The result of `read`, whose errors begin with the name of the file that it reads.
template <class Read>
auto in_file(std::string_view file, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(file) + ": " + error.what());
  }
}

}  // namespace hasten
