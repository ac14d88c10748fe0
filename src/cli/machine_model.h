// SPDX-License-Identifier: Apache-2.0
// What a simulation needs to know of a machine and of a model on it: from published peaks, from
// this machine's ceilings, or from steps measured here.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "hasten/engine.h"
#include "hasten/machine.h"
#include "hasten/simulate.h"

namespace hasten::cli {

struct MachineModel {
  std::string machine;
  std::string basis = {};  // where its step costs come from, in words
  ModelInfo model;         // what the roofline reads of it
  Ceilings ceilings;
  SimulatorOptions options;  // costs, and the sizes that are usual there
};

/// "here", "a100" or "h200" with one of synth's shapes, whose matrices all have that type; its
/// steps reach the fraction `efficiency` of the peaks. Throws Error{invalid_argument} that lists
/// the known.
MachineModel peak_machine(std::string_view machine, std::string_view shape, std::string_view type,
                          double efficiency);

/// Fits costs to measured steps of an engine and writes them down with what it was. Returns the
/// fit. Throws Error{io} when the file cannot be written.
StepCostFit write_calibration(const std::filesystem::path& path, const MachineModel& measured,
                              std::span<const StepRecord> steps);
/// Throws Error{io} when write_calibration could not write there; to be asked before a long run.
void check_writable(const std::filesystem::path& path);
/// Reads what write_calibration wrote; every number within bounds, or the error says which. Throws
/// Error{not_found, io, invalid_data}.
MachineModel read_calibration(const std::filesystem::path& path);

/// The sizes of an engine as a simulator takes them.
SimulatorOptions simulated_sizes(const ModelInfo& model, int32_t block_size);

}  // namespace hasten::cli
