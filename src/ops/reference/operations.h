// SPDX-License-Identifier: Apache-2.0
// The operations of the reference backend as free functions, one short file per group.
//
// All sums are double and rounded to float once. Shapes are checked with HASTEN_CHECK; ids outside
// a table are an Error{invalid_argument} before anything is written.
#pragma once

#include <span>

#include "ops/backend.h"

namespace hasten::ops::reference {

// matmul.cpp
void embed(const EmbedParams& params);
void matmul(const MatmulParams& params);

// elementwise.cpp
void rms_norm(const RmsNormParams& params);
void gated_activation(const GatedActivationParams& params);
void add(const Tensor& x, const Tensor& delta);
void take_rows(const Tensor& x, std::span<const int32_t> rows);
void soft_cap(const SoftCapParams& params);

// rope.cpp
void rope_angles(const RopeAnglesParams& params);
void rope(const RopeParams& params);

// attention.cpp; the cache is a reference::PagedKvCache
void kv_write(const KvWriteParams& params);
void attention(const AttentionParams& params);

}  // namespace hasten::ops::reference
