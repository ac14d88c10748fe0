// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between float and the 8-bit E4M3 of the Open Compute Project's OFP8
// specification (2023): no infinity, one NaN of each sign, 448 the largest number.
#pragma once

#include <bit>
#include <cstdint>

namespace hasten {

/// Exact, subnormals included.
[[nodiscard]] constexpr float f8_e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80U} << 24;
  const uint32_t magnitude = bits & 0x7fU;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000U);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
  // Subnormal or zero: magnitude * 2^-9.
  const float number = static_cast<float>(magnitude) * 0x1p-9F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(number) | sign);
}

/// Round to nearest even; what is too large saturates, NaN stays NaN.
[[nodiscard]] constexpr uint8_t f32_to_f8_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint8_t>(sign | 0x7fU);
  if (magnitude >= 0x43e00000U) return static_cast<uint8_t>(sign | 0x7eU);  // 448 and more
  if (magnitude < 0x3c800000U) {                                            // below 2^-6: subnormal
    // Adding 2^14 aligns the value so that the hardware rounds at bit 2^-9.
    const float aligned = std::bit_cast<float>(magnitude) + 0x1p14F;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x46800000U));
  }
  const uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
  return static_cast<uint8_t>(sign | ((rounded - (120U << 23)) >> 20));
}

}  // namespace hasten
