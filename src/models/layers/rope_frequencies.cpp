// SPDX-License-Identifier: Apache-2.0
// One function per kind of RoPE scaling, each from inverse frequencies to inverse frequencies.
#include "models/layers/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace hasten::models {
namespace {

using Frequencies = std::vector<double>;  // inverse, [rotary_dim / 2]
constexpr double kTurn = 2.0 * std::numbers::pi;

Frequencies geometric(double base, int64_t rotary_dim) {
  Frequencies inv_freq;
  for (int64_t j = 0; j < rotary_dim; j += 2)
    inv_freq.push_back(std::pow(base, -static_cast<double>(j) / static_cast<double>(rotary_dim)));
  return inv_freq;
}

RopeFrequencies rounded(const Frequencies& inv_freq, double magnitude) {
  return {{inv_freq.begin(), inv_freq.end()}, static_cast<float>(magnitude)};
}

/// NTK-aware: a larger base, such that the lowest frequency just spans the longer context.
double dynamic_base(const Hyperparameters& h, double context) {
  const double original = static_cast<double>(h.rope_scaling.original_context);
  const double factor = h.rope_scaling.factor;
  const double dim = static_cast<double>(h.rotary_dim);
  if (context <= original || h.rotary_dim <= 2) return h.rope_base;
  return h.rope_base * std::pow(factor * context / original - (factor - 1.0), dim / (dim - 2.0));
}

/// "NTK by parts": frequencies that turn often within the original context stay, those that turn
/// less than once are divided by the factor, and a ramp over the dimensions lies between.
void apply_yarn(const Hyperparameters& h, Frequencies& inv_freq) {
  const RopeScaling& scaling = h.rope_scaling;
  const double dim = static_cast<double>(h.rotary_dim);
  const auto dimension_of = [&](double rotations) {
    const double wavelength = static_cast<double>(scaling.original_context) / rotations;
    return dim * std::log(wavelength / kTurn) / (2.0 * std::log(h.rope_base));
  };
  double low = dimension_of(scaling.beta_fast);
  double high = dimension_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // as the published code does, so that the ramp has a slope
  for (size_t j = 0; j < inv_freq.size(); ++j) {
    const double stretched = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    inv_freq[j] *= (1.0 - stretched) + stretched / scaling.factor;
  }
}

double yarn_magnitude(const RopeScaling& scaling) {
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  const auto magnitude = [&](double mscale) {
    return 0.1 * mscale * std::log(scaling.factor) + 1.0;
  };
  if (scaling.mscale > 0 && scaling.mscale_all_dim > 0)
    return magnitude(scaling.mscale) / magnitude(scaling.mscale_all_dim);
  return magnitude(1.0);
}

void apply_llama3(const RopeScaling& scaling, Frequencies& inv_freq) {
  const double original = static_cast<double>(scaling.original_context);
  for (double& f : inv_freq) {
    const double rotations = original * f / kTurn;  // within the original context
    const double kept = std::clamp((rotations - scaling.low_freq_factor) /
                                       (scaling.high_freq_factor - scaling.low_freq_factor),
                                   0.0, 1.0);
    f *= kept + (1.0 - kept) / scaling.factor;
  }
}

double longrope_magnitude(const RopeScaling& scaling) {
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  if (scaling.factor <= 1.0 || scaling.original_context <= 1) return 1.0;
  return std::sqrt(1.0 + std::log(scaling.factor) /
                             std::log(static_cast<double>(scaling.original_context)));
}

void divide(Frequencies& inv_freq, const auto& divisors) {
  HASTEN_CHECK(divisors.size() == inv_freq.size());
  for (size_t j = 0; j < inv_freq.size(); ++j) inv_freq[j] /= static_cast<double>(divisors[j]);
}

}  // namespace

RopeFrequencies plain_rope(double base, int64_t rotary_dim) {
  return rounded(geometric(base, rotary_dim), 1.0);
}

RopeFrequencies stretched_rope(const Hyperparameters& h, int64_t context) {
  using Kind = RopeScaling::Kind;
  const RopeScaling& scaling = h.rope_scaling;
  const double base =
      scaling.kind == Kind::dynamic ? dynamic_base(h, static_cast<double>(context)) : h.rope_base;
  Frequencies inv_freq = geometric(base, h.rotary_dim);
  double magnitude = 1.0;
  switch (scaling.kind) {
    case Kind::none:
    case Kind::dynamic:
      break;
    case Kind::linear:
      for (double& f : inv_freq) f /= scaling.factor;
      break;
    case Kind::yarn:
      apply_yarn(h, inv_freq);
      magnitude = yarn_magnitude(scaling);
      break;
    case Kind::llama3:
      apply_llama3(scaling, inv_freq);
      break;
    case Kind::longrope:
      divide(inv_freq,
             context > scaling.original_context ? scaling.long_factors : scaling.short_factors);
      magnitude = longrope_magnitude(scaling);
      break;
  }
  if (!h.rope_divisors.empty()) divide(inv_freq, h.rope_divisors);
  return rounded(inv_freq, magnitude);
}

}  // namespace hasten::models
