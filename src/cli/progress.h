// SPDX-License-Identifier: Apache-2.0
// A progress bar on standard error, for people only: nothing is drawn when that is not a terminal.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace hasten::cli {

/// Draws "loading weights  [#####     ]  48 %" in place, at most ten times a second, and erases
/// itself at the end. Work under a second never shows one. Any thread.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// `fraction` in [0, 1]; 1 erases the bar.
  void show(std::string_view stage, double fraction);

 private:
  void erase();

  std::mutex mutex_;
  const bool terminal_;
  const int64_t start_us_;
  int64_t drawn_us_ = 0;  // 0: nothing is on the screen
};

}  // namespace hasten::cli
