// SPDX-License-Identifier: Apache-2.0
// The type numbers of GGUF.
#include "weights/gguf_format.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace hasten::weights {
namespace {

struct TypeNumber {
  DType dtype;
  uint32_t number;
};
// enum ggml_type of ggml.h.
constexpr std::array<TypeNumber, 20> kTypeNumbers = {{
    {DType::f32, 0},     {DType::f16, 1},     {DType::q4_0, 2},  {DType::q4_1, 3},
    {DType::q5_0, 6},    {DType::q5_1, 7},    {DType::q8_0, 8},  {DType::q2_k, 10},
    {DType::q3_k, 11},   {DType::q4_k, 12},   {DType::q5_k, 13}, {DType::q6_k, 14},
    {DType::iq4_nl, 20}, {DType::iq4_xs, 23}, {DType::i8, 24},   {DType::i16, 25},
    {DType::i32, 26},    {DType::i64, 27},    {DType::f64, 28},  {DType::bf16, 30},
}};

struct UnreadType {
  uint32_t number;
  std::string_view name;
};
// The same enum's, of published files.
constexpr UnreadType kUnreadTypes[] = {
    {16, "iq2_xxs"}, {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"}, {21, "iq3_s"},
    {22, "iq2_s"},   {29, "iq1_m"},  {34, "tq1_0"},   {35, "tq2_0"}, {39, "mxfp4"},
};

}  // namespace

uint32_t ggml_type(DType dtype) {
  for (const TypeNumber& entry : kTypeNumbers) {
    if (entry.dtype == dtype) return entry.number;
  }
  HASTEN_CHECK(false);
  return 0;
}

std::optional<DType> dtype_of_ggml_type(uint32_t number) {
  for (const TypeNumber& entry : kTypeNumbers) {
    if (entry.number == number) return entry.dtype;
  }
  return std::nullopt;
}

std::string unread_ggml_type(uint32_t number) {
  for (const UnreadType& entry : kUnreadTypes) {
    if (entry.number == number) return fmt::format("{} ({})", number, entry.name);
  }
  return std::to_string(number);
}

std::string known_ggml_types() {
  std::string list;
  for (const TypeNumber& entry : kTypeNumbers) {
    list +=
        fmt::format("{}{} ({})", list.empty() ? "" : ", ", info(entry.dtype).name, entry.number);
  }
  return list;
}

}  // namespace hasten::weights
