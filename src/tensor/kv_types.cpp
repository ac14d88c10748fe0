// SPDX-License-Identifier: Apache-2.0
// Names of the types of keys and values.
#include "tensor/kv_types.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"

namespace hasten {
namespace {

DType kv_type_from_name(std::string_view name, std::string_view given, DType automatic,
                        std::string_view flag) {
  if (name == "auto") return automatic;
  const auto type = dtype_from_name(name == "fp8" ? "f8_e4m3" : name);
  if (!type || !is_kv_type(*type)) {
    fail_param("kv_type",
               "{} {} is unknown; known: auto, f32, f16, bf16, fp8, q8_0, q4_0, or one for "
               "keys and one for values as in q8_0/q4_0",
               flag, printable(given));
  }
  return *type;
}

}  // namespace

bool is_kv_type(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8_e4m3:
    case DType::q8_0:
    case DType::q4_0:
      return true;
    default:
      return false;
  }
}

std::pair<DType, DType> kv_types_from_name(std::string_view names, DType automatic,
                                           std::string_view flag) {
  const size_t slash = std::min(names.find('/'), names.size());
  const std::string_view values = names.substr(slash == names.size() ? 0 : slash + 1);
  return {kv_type_from_name(names.substr(0, slash), names, automatic, flag),
          kv_type_from_name(values, names, automatic, flag)};
}

}  // namespace hasten
