// SPDX-License-Identifier: Apache-2.0
// Reading numbers by key from a model's description, each within stated bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/layers/hyperparameters.h"

namespace hasten::models {

// Bounds of what models choose, wide enough for all published ones, narrow enough that formulas
// over them stay finite.
inline constexpr double kMinEpsilon = 1e-30;
inline constexpr double kMaxEpsilon = 1.0;
inline constexpr double kMinRopeBase = 2.0;
inline constexpr double kMaxRopeBase = 1e15;
inline constexpr double kMaxRopeFactor = 1e6;
inline constexpr double kMaxSoftCap = 1e6;

/// One flat set of keys and values from outside. The checked readers below leave `field` alone when
/// the key is absent or null, and throw Error{invalid_data} when what `field` holds in the end is
/// out of bounds: so a default outside the bounds makes a key required.
class ConfigReader {
 public:
  explicit ConfigReader(std::string file) : file_(std::move(file)) {}
  virtual ~ConfigReader() = default;

  void read(std::string_view key, int64_t& field, int64_t min, int64_t max) const;
  void read(std::string_view key, double& field, double min, double max) const;
  void read(std::string_view key, bool& field) const;
  /// Every number between min and max, as many as `count`.
  void read(std::string_view key, std::vector<double>& field, int64_t count, double min,
            double max) const;

  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  [[nodiscard]] virtual std::optional<std::string> text(std::string_view key) const = 0;
  [[nodiscard]] const std::string& file() const { return file_; }

 protected:
  [[nodiscard]] virtual int64_t integer(std::string_view key) const = 0;  // has(key) holds
  [[nodiscard]] virtual double number(std::string_view key) const = 0;
  [[nodiscard]] virtual bool flag(std::string_view key) const = 0;
  [[nodiscard]] virtual std::vector<double> numbers(std::string_view key) const = 0;
  /// The key as errors show it, with the prefix that the file gives it.
  [[nodiscard]] virtual std::string shown(std::string_view key) const { return std::string(key); }

 private:
  std::string file_;
};

/// read_hyperparameters of each format, before what is common to both.
[[nodiscard]] Hyperparameters read_gguf(const weights::Checkpoint& checkpoint, Hyperparameters h);
[[nodiscard]] Hyperparameters read_hugging_face(const weights::Checkpoint& checkpoint,
                                                Hyperparameters h);

/// The kind of that name ("default" and "none" are none, "su" is longrope). Error{unsupported}.
[[nodiscard]] RopeScaling::Kind rope_scaling_kind(std::string_view name, const std::string& file);

/// The context that the scaling stretches the original one to; at least max_context.
[[nodiscard]] int64_t stretched_context(const Hyperparameters& h);

}  // namespace hasten::models
