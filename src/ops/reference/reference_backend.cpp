// SPDX-License-Identifier: Apache-2.0
// The Backend interface over host memory and the functions of operations.h.
#include "ops/reference/reference_backend.h"

#include <cstring>
#include <functional>

#include "base/error.h"
#include "ops/reference/operations.h"
#include "ops/reference/paged_kv_cache.h"
#include "quant/codec.h"

namespace hasten::ops {
namespace {

void copy(const Tensor& from, const Tensor& to) {
  HASTEN_CHECK(from.dtype() == to.dtype() && from.shape() == to.shape());
  if (from.num_bytes() > 0) std::memcpy(to.data(), from.data(), from.num_bytes());
}

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  Device device() const override { return {}; }

  DeviceTensor allocate(DType dtype, Shape shape) override {
    auto owned = std::make_shared<OwnedTensor>(dtype, shape);
    return {.view = owned->view, .owner = owned};
  }
  void upload(const Tensor& host, const Tensor& device) override { copy(host, device); }
  void download(const Tensor& device, const Tensor& host) override { copy(device, host); }
  void synchronize() override {}

  std::unique_ptr<Weight> prepare_weight(const Tensor& source) override {
    HASTEN_CHECK(source.shape().rank() == 2 && quant::has_codec(source.dtype()));
    return std::make_unique<Weight>(source);
  }
  std::unique_ptr<Weight> prepare_embedding(const Tensor& source) override {
    return prepare_weight(source);
  }
  void reserve(const StepLimits&) override {}

  std::unique_ptr<KvCache> make_kv_cache(const KvCacheSpec& spec) override {
    return std::make_unique<reference::PagedKvCache>(spec);
  }
  int64_t kv_cache_bytes(const KvCacheSpec& spec) const override {
    return reference::PagedKvCache::num_bytes(spec);
  }
  void bring_in(KvCache& cache, const std::function<void(double)>& progress) override {
    dynamic_cast<const reference::PagedKvCache&>(cache).bring_in();
    progress(1);
  }
  void copy_blocks(KvCache& cache, std::span<const std::pair<int32_t, int32_t>> pairs) override {
    auto& paged = dynamic_cast<reference::PagedKvCache&>(cache);
    for (const auto& [from, to] : pairs) paged.copy_block(from, to);
  }
  std::string kv_layout() const override { return name(); }
  void export_block(const KvCache& cache, int32_t block, std::span<std::byte> to) override {
    dynamic_cast<const reference::PagedKvCache&>(cache).export_block(block, to);
  }
  void import_block(KvCache& cache, int32_t block, std::span<const std::byte> from) override {
    dynamic_cast<reference::PagedKvCache&>(cache).import_block(block, from);
  }

  void embed(const EmbedParams& params) override { reference::embed(params); }
  void rms_norm(const RmsNormParams& params) override { reference::rms_norm(params); }
  void matmul(const MatmulParams& params) override { reference::matmul(params); }
  void gated_activation(const GatedActivationParams& params) override {
    reference::gated_activation(params);
  }
  void add(const Tensor& x, const Tensor& delta) override { reference::add(x, delta); }
  void take_rows(const Tensor& x, std::span<const int32_t> rows) override {
    reference::take_rows(x, rows);
  }
  void soft_cap(const SoftCapParams& params) override { reference::soft_cap(params); }
  void rope_angles(const RopeAnglesParams& params) override { reference::rope_angles(params); }
  void rope(const RopeParams& params) override { reference::rope(params); }
  void kv_write(const KvWriteParams& params) override { reference::kv_write(params); }
  void attention(const AttentionParams& params) override { reference::attention(params); }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace hasten::ops
