// SPDX-License-Identifier: Apache-2.0
// What a failed HASTEN_CHECK says.
#include "base/error.h"

namespace hasten::internal {

void check_failed(const char* condition, const char* file, int line) {
  fail(ErrorCode::internal, "internal error: {} does not hold at {}:{}; please report this",
       condition, file, line);
}

}  // namespace hasten::internal
