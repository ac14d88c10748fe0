// SPDX-License-Identifier: Apache-2.0
// Fuzzes what load_model reads of a config.json, on a folder without tensors.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "hasten/error.h"
#include "models/model.h"
#include "ops/reference/reference_backend.h"

namespace {

class ConfigOnly final : public hasten::weights::Checkpoint {
 public:
  explicit ConfigOnly(hasten::json::Object config)
      : Checkpoint("fuzz"), config_(std::move(config)) {}
  Format format() const override { return Format::safetensors; }
  const hasten::json::Object* config() const override { return &config_; }

 private:
  hasten::json::Object config_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto backend = hasten::ops::make_reference_backend();
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const hasten::json::Value value = hasten::json::parse(text, "config.json");
    if (!value.is_object()) return 0;
    (void)hasten::models::load_model(ConfigOnly(value.get_object()), *backend);
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
