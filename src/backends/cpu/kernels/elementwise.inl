// SPDX-License-Identifier: Apache-2.0
// Operations on one row or one token at a time: exponentials, norms, activations, rotation.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// f(i) for whole vectors from element i, g(i, n) for the n < 16 elements left at i.
template <class Whole, class Rest>
HASTEN_INLINE inline void for_lanes(int64_t count, Whole&& f, Rest&& g) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) f(i);
  if (i < count) g(i, count - i);
}

/// e^x within 2 ulp for x in [-87, 88.3]; below it falls to zero, above it is infinite. NaN stays
/// NaN. x = n ln 2 + r, and the series of e^r to r^7 / 7!, whose error is below 1e-8.
inline F32x16 exponential(F32x16 x) {
  x = min(set1(89.0F), max(set1(-104.0F), x));
  // max again, so that a NaN gives some integer; it comes back with r.
  const I32x16 n = to_int(mul(max(x, set1(-104.0F)), set1(1.44269504F)));
  const F32x16 steps = to_float(n);
  // ln 2 in two parts; the first has 9 bits, so that its product with n is exact.
  F32x16 r = fma(steps, set1(-0.693359375F), x);
  r = fma(steps, set1(2.12194440e-4F), r);
  F32x16 e = set1(1.0F / 5040);
  e = fma(e, r, set1(1.0F / 720));
  e = fma(e, r, set1(1.0F / 120));
  e = fma(e, r, set1(1.0F / 24));
  e = fma(e, r, set1(1.0F / 6));
  e = fma(e, r, set1(0.5F));
  e = fma(e, r, set1(1.0F));
  e = fma(e, r, set1(1.0F));
  return mul(e, power_of_two(n));
}

/// tanh(x): its continued fraction to x^7 near zero, where 1 - 2 / (e^2x + 1) would cancel.
inline F32x16 hyperbolic_tangent(F32x16 x) {
  const F32x16 far = sub(set1(1.0F), div(set1(2.0F), add(exponential(add(x, x)), set1(1.0F))));
  const F32x16 y = mul(x, x);
  F32x16 above = add(y, set1(378.0F));
  above = fma(above, y, set1(17325.0F));
  above = mul(fma(above, y, set1(135135.0F)), x);
  F32x16 below = fma(set1(28.0F), y, set1(3150.0F));
  below = fma(below, y, set1(62370.0F));
  below = fma(below, y, set1(135135.0F));
  return select_less(abs(x), set1(1.0F), div(above, below), far);
}

inline F32x16 sigmoid(F32x16 x) {
  return div(set1(1.0F), add(set1(1.0F), exponential(sub(zero(), x))));
}

inline void exp_row(const float* x, float* out, int64_t count) {
  for_lanes(
      count, [&](int64_t i) { store(out + i, exponential(load(x + i))); },
      [&](int64_t i, int64_t n) { store_first(out + i, exponential(load_first(x + i, n)), n); });
}

inline void add_row(float* x, const float* delta, int64_t count) {
  for_lanes(
      count, [&](int64_t i) { store(x + i, add(load(x + i), load(delta + i))); },
      [&](int64_t i, int64_t n) {
        store_first(x + i, add(load_first(x + i, n), load_first(delta + i, n)), n);
      });
}

inline void soft_cap_row(float* x, int64_t count, float cap) {
  const auto capped = [&](F32x16 v) {
    return mul(set1(cap), hyperbolic_tangent(div(v, set1(cap))));
  };
  for_lanes(
      count, [&](int64_t i) { store(x + i, capped(load(x + i))); },
      [&](int64_t i, int64_t n) { store_first(x + i, capped(load_first(x + i, n)), n); });
}

/// A block after the other, of which the one with the largest value is looked through in the end.
inline RowScanResult scan_row(const float* x, int64_t count) {
  constexpr int kVectors = 4;  // at a time: each maximum waits for the one before
  constexpr int64_t kStep = 16 * kVectors;
  constexpr int64_t kBlock = 1024;
  const float infinity = __builtin_inff();
  RowScanResult scan{.likeliest = 0, .most = -infinity, .num_not_finite = 0};
  int64_t best_block = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = count - begin < kBlock ? count : begin + kBlock;
    F32x16 most[kVectors];
    F32x16 bad[kVectors];  // counts, exact
    for (int v = 0; v < kVectors; ++v) {
      most[v] = set1(-infinity);
      bad[v] = zero();
    }
    int64_t i = begin;
    for (; i + kStep <= end; i += kStep) {
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        const F32x16 values = load(x + i + 16 * v.value);
        most[v.value] = max(values, most[v.value]);  // the second one where the first is NaN
        bad[v.value] = add(bad[v.value], select_less(values, set1(infinity), zero(), set1(1.0F)));
      });
    }
    float most_here = reduce_max(max(max(most[0], most[1]), max(most[2], most[3])));
    scan.num_not_finite +=
        static_cast<int64_t>(reduce_add(add(add(bad[0], bad[1]), add(bad[2], bad[3]))));
    for (; i < end; ++i) {
      if (x[i] > most_here) most_here = x[i];
      if (!(x[i] < infinity)) ++scan.num_not_finite;
    }
    if (most_here > scan.most) {
      scan.most = most_here;
      best_block = begin;
    }
  }
  if (scan.most == -infinity) return scan;
  scan.likeliest = best_block;
  while (x[scan.likeliest] != scan.most) ++scan.likeliest;
  return scan;
}

/// silu(x) = x sigmoid(x); gelu's tanh form is x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3).
template <GateKind kKind>
inline void gate_rows(const GateTask& task) {
  const auto gated = [](F32x16 x, F32x16 up) HASTEN_INLINE {
    if constexpr (kKind == GateKind::silu) return mul(mul(x, sigmoid(x)), up);
    const F32x16 cube = mul(mul(x, x), x);
    return mul(mul(x, sigmoid(mul(set1(1.59576912F), fma(cube, set1(0.044715F), x)))), up);
  };
  for (int64_t row = 0; row < task.rows; ++row) {
    const float* gate = task.gate + row * task.stride;
    const float* up = task.up + row * task.stride;
    float* out = task.out + row * task.out_stride;
    for_lanes(
        task.columns,
        [&](int64_t i) HASTEN_INLINE { store(out + i, gated(load(gate + i), load(up + i))); },
        [&](int64_t i, int64_t n) HASTEN_INLINE {
          store_first(out + i, gated(load_first(gate + i, n), load_first(up + i, n)), n);
        });
  }
}

inline void gate(const GateTask& task) {
  if (task.kind == GateKind::silu) return gate_rows<GateKind::silu>(task);
  gate_rows<GateKind::gelu_tanh>(task);
}

inline void rms_norm_row(const RmsNormRowTask& task) {
  F32x16 squares = zero();
  const auto take = [&](F32x16 v) { squares = fma(v, v, squares); };
  for_lanes(
      task.dim,
      [&](int64_t i) {
        F32x16 v = load(task.x + i);
        if (task.delta != nullptr) {
          v = add(v, load(task.delta + i));
          store(task.x + i, v);
        }
        take(v);
      },
      [&](int64_t i, int64_t n) {
        F32x16 v = load_first(task.x + i, n);
        if (task.delta != nullptr) {
          v = add(v, load_first(task.delta + i, n));
          store_first(task.x + i, v, n);
        }
        take(v);
      });
  const float mean = reduce_add(squares) / static_cast<float>(task.dim);
  const F32x16 factor = set1(1.0F / __builtin_sqrtf(mean + task.epsilon));
  for_lanes(
      task.dim,
      [&](int64_t i) {
        store(task.out + i, mul(mul(load(task.x + i), factor), load(task.weight + i)));
      },
      [&](int64_t i, int64_t n) {
        const F32x16 v = mul(load_first(task.x + i, n), factor);
        store_first(task.out + i, mul(v, load_first(task.weight + i, n)), n);
      });
}

inline void rope_token(const RopeTokenTask& task) {
  for (int64_t h = 0; h < task.num_heads; ++h) {
    float* head = task.x + h * task.head_dim;
    if (task.interleaved) {
      for (int64_t j = 0; j < task.half; ++j) {
        const float a = head[2 * j];
        const float b = head[2 * j + 1];
        head[2 * j] = a * task.cos[j] - b * task.sin[j];
        head[2 * j + 1] = b * task.cos[j] + a * task.sin[j];
      }
      continue;
    }
    for (int64_t j = 0; j < task.half; ++j) {
      const float a = head[j];
      const float b = head[j + task.half];
      head[j] = a * task.cos[j] - b * task.sin[j];
      head[j + task.half] = b * task.cos[j] + a * task.sin[j];
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
