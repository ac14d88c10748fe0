// SPDX-License-Identifier: Apache-2.0
// What the engine knows of a model: its sizes, its cache groups, and one forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "weights/checkpoint.h"

namespace hasten::models {

/// Layers that share one paged cache and one block table per sequence.
struct CacheGroup {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // tokens that a query can see, itself included; 0: all
};

/// The hyperparameters that others than the model itself need to know.
struct ModelInfo {
  std::string family;       // registry name: "llama", "qwen2", …
  std::string name;         // general.name or the folder's name; may be empty
  int64_t vocab_size = 0;   // rows of the output matrix; logits per token
  int64_t max_context = 0;  // tokens that the model was trained for, after its own scaling
  int64_t num_layers = 0;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;          // of all tensors in the checkpoint
  int64_t mapped_bytes = 0;          // of weights that every step reads from the mapped file
  int64_t bytes_per_token = 0;       // weights read to decode one token alone
  int64_t matmul_ops_per_token = 0;  // 2 * weights multiplied per token, output head included
  // The parts of them that only a token whose logits are wanted takes: of the output head, and of
  // the last layer but for its keys and values.
  int64_t output_ops_per_token = 0;
  int64_t last_layer_ops_per_token = 0;
  int64_t attention_ops_per_token_key = 0;  // operations per token and visible key, all layers
  std::string weight_types;                 // "q4_0 (84 %), q6_k (16 %)"
};

/// One step's tokens, sequence by sequence.
struct ForwardInput {
  std::span<const int32_t> token_ids;  // [num_tokens], each in [0, vocab_size)
  std::span<const int32_t> positions;  // [num_tokens]
  // One per cache group, in the order of cache_groups(), with the same tokens of each sequence.
  std::span<const ops::PagedBatch> batches;
  std::span<ops::KvCache* const> caches;  // likewise
  std::span<const int32_t> logit_rows;    // token indices whose logits are wanted, ascending
};

/// A loaded model: weights prepared for one backend. `forward` is called by one thread at a time.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  virtual const std::vector<CacheGroup>& cache_groups() const = 0;
  /// Allocates activations for steps of up to these sizes, here and in the backend, so that no
  /// step allocates, though the system may give the memory page by page, and fixes the RoPE
  /// scalings that depend on the length (dynamic NTK, LongRoPE) by max_context, the tokens that a
  /// sequence may reach. Called once, before the first forward.
  virtual void reserve(int64_t max_tokens, int64_t max_sequences, int64_t max_context) = 0;
  /// Has the system give what reserve took now rather than when steps first use it. Between reserve
  /// and the first forward.
  virtual void bring_in() = 0;
  /// Bytes that reserve would take.
  virtual int64_t activation_bytes(int64_t max_tokens, int64_t max_sequences) const = 0;
  /// Writes this step's keys and values and computes logits [num_logit_rows, vocab_size] f32 into
  /// `logits` on the host. Throws Error{internal} when the input breaks the reserved limits.
  virtual void forward(const ForwardInput& input, std::span<float> logits) = 0;
};

/// Called while loading with bytes done and bytes in all; any thread, one at a time.
using Progress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

struct LoadOptions {
  /// Tokens that a sequence may reach; 0: the model's own. Wider windows are none.
  int64_t context = 0;
  Progress progress = {};  // may be empty
};

/// Throws Error{unsupported}, with the list of known architectures, when load_model would for the
/// checkpoint's own; Error{invalid_data} when it names none. Needs no weights.
void check_supported(const weights::Checkpoint& checkpoint);

/// Builds the model of the checkpoint's family on `backend`. Both must outlive it.
/// Error{unsupported} for an unknown architecture, with the list of known ones;
/// Error{invalid_data} that names the tensor or hyperparameter that is missing or of a wrong shape.
std::unique_ptr<Model> load_model(const weights::Checkpoint& checkpoint, ops::Backend& backend,
                                  const LoadOptions& options = {});

}  // namespace hasten::models
