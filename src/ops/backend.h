// SPDX-License-Identifier: Apache-2.0
// The interface between models and devices: every operation that a model graph is written with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "ops/row_scan.h"
#include "tensor/tensor.h"

namespace hasten::ops {

/// Owns memory on a backend's device; `view` is valid as long as a copy of it lives.
struct DeviceTensor {
  Tensor view;
  std::shared_ptr<void> owner;
};

/// A matrix [out_features, in_features] as its backend keeps it: repacked for its kernels, or the
/// mapped file itself. Opaque outside the backend that made it; const, so any thread may read it.
class Weight {
 public:
  explicit Weight(Tensor source) : source_(source) {}
  virtual ~Weight() = default;
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  /// The matrix as the file has it, [out_features, in_features]; embedding rows are read from here.
  const Tensor& source() const { return source_; }
  int64_t out_features() const { return source_.dim(0); }
  int64_t in_features() const { return source_.dim(1); }
  /// False: products read the source itself.
  virtual bool is_packed() const { return false; }

 private:
  Tensor source_;
};

/// How keys and how values are kept; see kv_row.h.
struct KvTypes {
  DType keys = DType::bf16;
  DType values = DType::bf16;
};

/// Shape of the paged key/value storage of one cache group.
struct KvCacheSpec {
  int64_t num_layers = 0;
  int64_t num_blocks = 0;
  int64_t block_size = 16;  // tokens in a block
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  KvTypes types = {};
};

/// Keys and values of one cache group, in blocks. The layout inside a block is the backend's own.
class KvCache {
 public:
  explicit KvCache(const KvCacheSpec& spec) : spec_(spec) {}
  virtual ~KvCache() = default;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  const KvCacheSpec& spec() const { return spec_; }

 private:
  KvCacheSpec spec_;
};

/// Which tokens of a step belong to which sequence, and where their keys lie. The tokens of a step
/// lie one after another, sequence by sequence; the new tokens of a sequence, which may be none,
/// are its last ones, so query i of sequence s has position context_len[s] - query_len(s) + i.
struct PagedBatch {
  std::span<const int32_t> query_start;  // [num_sequences + 1], token index where each one begins
  std::span<const int32_t> context_len;  // [num_sequences], tokens in the cache, this step included
  std::span<const int32_t> block_tables;  // [num_sequences, block_table_stride], block ids
  int64_t block_table_stride = 0;         // entries; those outside a window may be -1
  std::span<const int32_t>
      slots;  // [num_tokens], block id * block_size + offset for each new token

  int64_t num_sequences() const { return static_cast<int64_t>(context_len.size()); }
  int64_t num_tokens() const { return static_cast<int64_t>(slots.size()); }
};

struct EmbedParams {
  const Weight& table;           // [vocab_size, dim]
  std::span<const int32_t> ids;  // [num_tokens], each in [0, vocab_size)
  float scale = 1.0F;            // multiplies each row (Gemma: sqrt(dim))
  Tensor out;                    // [num_tokens, dim] f32
};

struct RmsNormParams {
  Tensor x;       // [num_rows, dim] f32
  Tensor weight;  // [dim] f32
  float epsilon = 1e-5F;
  Tensor out;  // [num_rows, dim] f32; may be x
};

/// x += delta, then out = rms_norm(x) * weight.
struct AddRmsNormParams {
  Tensor x;      // [num_rows, dim] f32, updated
  Tensor delta;  // [num_rows, dim] f32, or undefined: nothing is added
  Tensor weight;
  float epsilon = 1e-5F;
  Tensor out;  // [num_rows, dim] f32; not x
};

/// out[i, :] = weight * x[rows[i], :] (+ bias). `rows` empty: every row of x in order.
struct MatmulParams {
  const Weight& weight;  // [n, k]
  Tensor x;              // [num_x_rows, k] f32
  Tensor out;            // [m, n] f32; not x
  Tensor bias = {};      // [n] f32, or undefined
  std::span<const int32_t> rows = {};
};

enum class Activation { silu, gelu_tanh };

/// out = activation(gate) * up, elementwise.
struct GatedActivationParams {
  Activation activation = Activation::silu;
  Tensor gate;  // [num_tokens, dim] f32
  Tensor up;    // [num_tokens, dim] f32
  Tensor out;   // [num_tokens, dim] f32; may be gate or up
};

/// out = activation(gate x) * up x, of two matmuls of the same x and rows.
struct GatedMatmulParams {
  MatmulParams gate;  // what its and up's outputs hold afterwards is not told
  MatmulParams up;    // of the same shape
  Activation activation = Activation::silu;
  Tensor out;  // as theirs; may be the output of gate or up
};

/// Angles for rotary embedding (Su et al., 2021), once per step:
/// out[t, 0, j] = magnitude * cos(position[t] * inv_freq[j]), out[t, 1, j] = magnitude * sin(...).
/// Every variant of scaling is a choice of inv_freq and magnitude that the model makes at load.
struct RopeAnglesParams {
  std::span<const int32_t> positions;  // [num_tokens]
  Tensor inv_freq;                     // [rotary_dim / 2] f32
  float magnitude = 1.0F;
  Tensor out;  // [num_tokens, 2, rotary_dim / 2] f32
};

/// Which two elements of a head make a rotated pair.
enum class RopeLayout {
  halves,      // (j, j + rotary_dim / 2): GPT-NeoX, Hugging Face checkpoints
  interleaved  // (2j, 2j + 1): the original Llama, and GGUF files of the llama family
};

/// Rotates the first rotary_dim elements of each head in place.
struct RopeParams {
  Tensor x;       // [num_tokens, num_heads, head_dim] f32
  Tensor angles;  // [num_tokens, 2, rotary_dim / 2] f32
  RopeLayout layout = RopeLayout::halves;
};

/// Stores the keys and values of this step's tokens at batch.slots.
struct KvWriteParams {
  KvCache& cache;
  int64_t layer = 0;  // within the cache group
  Tensor k;           // [num_tokens, num_kv_heads, head_dim] f32
  Tensor v;           // [num_tokens, num_kv_heads, head_dim] f32
  const PagedBatch& batch;
};

/// Causal attention of this step's queries over the paged cache (keys of this step included).
/// score = scale * q·k; with soft_cap c > 0: c * tanh(score / c); with window w > 0 a query at
/// position p sees keys p - w + 1 .. p only. Query head h reads KV head h /
/// (num_heads/num_kv_heads). The sum over keys runs over tiles aligned to absolute positions, so
/// that a token's result does not depend on the batch or on how the prompt was chunked.
struct AttentionParams {
  Tensor q;  // [num_tokens, num_heads, head_dim] f32
  const KvCache& cache;
  int64_t layer = 0;
  const PagedBatch& batch;
  float scale = 1.0F;
  float soft_cap = 0.0F;
  int64_t window = 0;
  Tensor out;  // [num_tokens, num_heads, head_dim] f32; not q
};

/// x = cap * tanh(x / cap), elementwise (Gemma 2).
struct SoftCapParams {
  Tensor x;  // f32
  float cap = 0.0F;
};

/// Looks through rows of logits that lie on the host.
struct ScanRowsParams {
  std::span<const float> values;  // [num_rows, stride]
  int64_t stride = 0;
  int64_t columns = 0;     // of a row that are looked at, from the first one on
  std::span<RowScan> out;  // [num_rows]

  void check() const;  // that the sizes agree
  int64_t num_rows() const { return static_cast<int64_t>(out.size()); }
  std::span<const float> row(int64_t index) const {
    return values.subspan(static_cast<size_t>(index * stride), static_cast<size_t>(columns));
  }
};

/// The largest step that a backend must be ready for, so that it can allocate before serving.
struct StepLimits {
  int64_t max_tokens = 0;
  int64_t max_sequences = 0;
  int64_t max_features = 0;  // largest in_features of any weight
  int64_t max_context = 0;   // tokens of one sequence
  int64_t max_heads = 0;     // query heads
  int64_t max_head_dim = 0;
};

/// One device. Operations are called by one thread at a time and are complete on return on the
/// CPU, or in order of call on an accelerator (`synchronize` waits); weights belong to the backend
/// that prepared them. Shapes are the caller's duty
/// and are checked with HASTEN_CHECK; tokens outside their range are an Error before any work.
/// Each output element is summed in one order that depends on nothing but its own operands'
/// shapes: never on the number of rows, on neighbours, or on the number of threads.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu (avx512, 2 threads)"
  virtual Device device() const = 0;

  /// Zeroed memory for activations and small weights. Error{resource_exhausted}.
  virtual DeviceTensor allocate(DType dtype, Shape shape) = 0;
  virtual void upload(const Tensor& host, const Tensor& device) = 0;    // same dtype and shape
  virtual void download(const Tensor& device, const Tensor& host) = 0;  // waits
  virtual void synchronize() = 0;

  /// Announces matrices that prepare_weight may be called for next, with `source` as there, so that
  /// this thread does what can be done before, until `stop`. A hint. Nothing else is called
  /// meanwhile.
  virtual void expect_weights(std::span<const Tensor> /*sources*/,
                              const std::stop_token& /*stop*/) {}
  /// Makes the matrix `source` [n, k], any DType of floats or blocks, ready for matmul. `source`
  /// must outlive the weight. The work may be put off, on the CPU too, to be done for many weights
  /// at a time: until `synchronize`, or an operation that takes one of them. Error{unsupported} for
  /// a type that this backend cannot multiply.
  virtual std::unique_ptr<Weight> prepare_weight(const Tensor& source) = 0;
  /// A table that is only read row by row (an embedding that is not tied to the output).
  virtual std::unique_ptr<Weight> prepare_embedding(const Tensor& source) = 0;
  /// Allocates what steps up to `limits` need, so that no step allocates. The system may give it
  /// page by page as steps use it.
  virtual void reserve(const StepLimits& limits) = 0;

  virtual std::unique_ptr<KvCache> make_kv_cache(const KvCacheSpec& spec) = 0;
  virtual int64_t kv_cache_bytes(const KvCacheSpec& spec) const = 0;
  /// Has the system give all memory of a cache that was not written to yet, where it otherwise does
  /// so when a block is first written; calls progress(fraction) meanwhile.
  virtual void bring_in(KvCache& cache, const std::function<void(double fraction)>& progress);
  /// Likewise of memory of `allocate`, or of the host, whose contents nobody needs.
  virtual void bring_in_memory(const Tensor& unused);
  /// Likewise of what `reserve` took.
  virtual void bring_in_reserved() {}
  /// Copies whole blocks, all layers: (from, to) pairs.
  virtual void copy_blocks(KvCache& cache, std::span<const std::pair<int32_t, int32_t>> pairs) = 0;

  // Moving blocks out of the device's memory and back, if it can. A block, all layers, has as many
  // bytes as a cache of one block: what was written to one moves to another block of any cache of
  // the same shape, and reads there as it did.

  /// What the bytes of a block depend on beside the model and the spec: layout and arithmetic.
  /// Empty: this backend cannot move blocks.
  virtual std::string kv_layout() const { return {}; }
  /// Complete on return. Error{unsupported} where kv_layout is empty.
  virtual void export_block(const KvCache& cache, int32_t block, std::span<std::byte> to);
  virtual void import_block(KvCache& cache, int32_t block, std::span<const std::byte> from);

  virtual void embed(const EmbedParams& params) = 0;
  virtual void rms_norm(const RmsNormParams& params) = 0;
  virtual void matmul(const MatmulParams& params) = 0;
  virtual void gated_activation(const GatedActivationParams& params) = 0;
  virtual void add(const Tensor& x, const Tensor& delta) = 0;  // x += delta, f32, same shape
  /// Row i of x [num_rows, dim] f32 becomes what row rows[i] was; rows ascend, so that one after
  /// the other can be moved. What the rows behind them then hold is not told.
  virtual void take_rows(const Tensor& x, std::span<const int32_t> rows) = 0;
  virtual void soft_cap(const SoftCapParams& params) = 0;
  virtual void rope_angles(const RopeAnglesParams& params) = 0;
  virtual void rope(const RopeParams& params) = 0;
  virtual void kv_write(const KvWriteParams& params) = 0;
  virtual void attention(const AttentionParams& params) = 0;

  // Operations that fused.cpp has for backends without their own: fused ones, of the ones above,
  // and one over memory of the host.

  /// Several matmuls of the same x and rows (Q, K and V).
  virtual void matmul_group(std::span<const MatmulParams> group);
  /// The first half of a gated feed-forward block.
  virtual void gated_matmul(const GatedMatmulParams& params);
  virtual void add_rms_norm(const AddRmsNormParams& params);
  /// A norm and the only operation that takes what it makes: x of the matmuls, all of its rows, is
  /// the norm's out, of which is not told what it holds afterwards.
  virtual void norm_matmul_group(const AddRmsNormParams& norm, std::span<const MatmulParams> group);
  /// A gated feed-forward block: x of gate and up, all of its rows, is the norm's out, and x of
  /// `down`, all of its rows, is the out of `gated`. Nothing else takes either; what they hold
  /// afterwards is not told.
  virtual void norm_gated_mlp(const AddRmsNormParams& norm, const GatedMatmulParams& gated,
                              const MatmulParams& down);

  /// Here on the calling thread; a backend that has threads shares them.
  virtual void scan_rows(const ScanRowsParams& params);
};

}  // namespace hasten::ops
