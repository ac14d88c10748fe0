// SPDX-License-Identifier: Apache-2.0
// Draws the progress bar.
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"

namespace hasten::cli {
namespace {

constexpr int kWidth = 30;               // characters of the bar
constexpr int64_t kPatienceUs = 700000;  // shorter work needs no bar
constexpr int64_t kRedrawBarUs = 100000;

}  // namespace

ProgressBar::ProgressBar() : terminal_(::isatty(STDERR_FILENO) == 1), start_us_(monotonic_us()) {}

ProgressBar::~ProgressBar() { erase(); }

void ProgressBar::show(std::string_view stage, double fraction) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  const int64_t now = monotonic_us();
  if (fraction >= 1.0) {
    erase();
    return;
  }
  if (now - start_us_ < kPatienceUs || now - drawn_us_ < kRedrawBarUs) return;
  drawn_us_ = now;
  const int filled = std::clamp(static_cast<int>(fraction * kWidth), 0, kWidth);
  fmt::print(stderr, "\r\x1b[K{}  [{:#<{}}{: <{}}] {:3.0f} %", stage, "", filled, "",
             kWidth - filled, fraction * 100);
  std::fflush(stderr);
}

void ProgressBar::erase() {
  if (drawn_us_ == 0) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_us_ = 0;
}

}  // namespace hasten::cli
