// SPDX-License-Identifier: Apache-2.0
// What a simulation needs to know of a machine and of a model on it: from published peaks, from
// this machine's ceilings, or from steps measured here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "hasten/engine.h"
#include "hasten/machine.h"
#include "hasten/simulate.h"

namespace hasten::cli {

inline constexpr double kDefaultEfficiency = 0.6;

struct MachineModel {
  std::string machine;
  std::string basis = {};  // where its step costs come from, in words
  ModelInfo model;         // what the roofline reads of it
  Ceilings ceilings;
  SimulatorOptions options;  // costs, and the sizes that are usual there
};

/// A model on a machine by its peaks, and the flags that name them.
struct PeakMachine {
  std::string_view machine;                // "here", "a100" or "h200"
  std::string_view shape;                  // one of synth's
  std::string_view type;                   // of all its matrices
  double efficiency = kDefaultEfficiency;  // steps reach this fraction of the peaks
  std::string_view machine_flag = "--machine";
  std::string_view type_flag = "--type";
};

/// Throws Error{invalid_argument} that lists the known.
MachineModel peak_machine(const PeakMachine& peaks);

/// Throws Error{resource_exhausted} that says both sizes when keys and values of one sequence of
/// `tokens` do not fit the memory for them: `asked_bytes`, or if that is 0 the machine's. Says
/// `ways_out`, too.
void check_memory(const MachineModel& machine, int64_t tokens, int64_t asked_bytes,
                  std::string_view ways_out);

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
