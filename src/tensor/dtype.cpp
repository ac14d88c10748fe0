// SPDX-License-Identifier: Apache-2.0
// The table of element types.
#include "tensor/dtype.h"

#include <array>
#include <cctype>
#include <string>

#include "base/error.h"

namespace hasten {
namespace {

// Block sizes and bytes as ggml-common.h lays them out; the codecs are in quant/.
constexpr std::array<DTypeInfo, 21> kTypes = {{
    {DType::f32, "f32", 1, 4, false},         {DType::f16, "f16", 1, 2, false},
    {DType::bf16, "bf16", 1, 2, false},       {DType::f64, "f64", 1, 8, false},
    {DType::i8, "i8", 1, 1, false},           {DType::i16, "i16", 1, 2, false},
    {DType::i32, "i32", 1, 4, false},         {DType::i64, "i64", 1, 8, false},
    {DType::q4_0, "q4_0", 32, 18, true},      {DType::q4_1, "q4_1", 32, 20, true},
    {DType::q5_0, "q5_0", 32, 22, true},      {DType::q5_1, "q5_1", 32, 24, true},
    {DType::q8_0, "q8_0", 32, 34, true},      {DType::q2_k, "q2_k", 256, 84, true},
    {DType::q3_k, "q3_k", 256, 110, true},    {DType::q4_k, "q4_k", 256, 144, true},
    {DType::q5_k, "q5_k", 256, 176, true},    {DType::q6_k, "q6_k", 256, 210, true},
    {DType::iq4_nl, "iq4_nl", 32, 18, true},  {DType::iq4_xs, "iq4_xs", 256, 136, true},
    {DType::f8_e4m3, "f8_e4m3", 1, 1, false},
}};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<size_t>(kTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_enum_order(), "kTypes is indexed by DType");

}  // namespace

std::span<const DTypeInfo> dtypes() { return kTypes; }

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  HASTEN_CHECK(index < kTypes.size());
  return kTypes[index];
}

std::optional<DType> dtype_from_name(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const DTypeInfo& type : kTypes) {
    if (type.name == lower) return type.dtype;
  }
  return std::nullopt;
}

int64_t row_bytes(DType dtype, int64_t num_elements) {
  const DTypeInfo& type = info(dtype);
  HASTEN_CHECK(num_elements >= 0 && num_elements % type.block_size == 0);
  return num_elements / type.block_size * type.block_bytes;
}

}  // namespace hasten
