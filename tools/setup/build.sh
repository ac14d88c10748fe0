# SPDX-License-Identifier: Apache-2.0
# Configures and builds a preset into build/PRESET: one build of a preset at a time, whoever asks.

# lock_preset PRESET: waits until nobody else builds it. Held until unlock_preset or the end.
lock_preset() {
  mkdir -p "build/$1"
  exec {preset_lock}>"build/$1/lock"
  flock --nonblock "$preset_lock" && return 0
  echo "hasten: another ./run or ./test is building; waiting for it" >&2
  flock "$preset_lock"
}

unlock_preset() {
  exec {preset_lock}>&-
}

# run_quietly LOG COMMAND…: shows the folder of LOG and how far ninja's last line there says it is:
# one line that moves on a terminal, otherwise a line every half minute. Nothing for what ends within
# a second.
run_quietly() {
  local log=$1 where=${1%/*} began=$SECONDS waited=0 status=0 step
  shift
  "$@" >"$log" 2>&1 {preset_lock}>&- &
  local pid=$!
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  while kill -0 "$pid" 2>/dev/null; do
    if [ $((SECONDS - began)) -lt 1 ]; then
      sleep 0.05
      continue
    fi
    step=$(tail -n 1 "$log" | grep -o '^\[[0-9]*/[0-9]*\]' || true)
    if [ -t 2 ]; then
      printf '\r\033[Khasten: building %s %s' "$where" "$step" >&2
    elif [ $((SECONDS - began - waited)) -ge 30 ]; then
      waited=$((SECONDS - began))
      echo "hasten: building $where for $waited s $step" >&2
    fi
    sleep 0.5
  done
  trap - EXIT
  wait "$pid" || status=$?
  [ -t 2 ] && printf '\r\033[K' >&2
  return "$status"
}

# configure_preset PRESET [-DNAME=VALUE]: configures unless that was done here, with that value (or
# any, when none is asked for) and the presets as they are now: a rebuild alone would not see them.
configure_preset() {
  local preset=$1 setting=${2:-} mark
  for mark in "build/$preset/configured$setting"*; do
    [ "$mark" -nt CMakePresets.json ] && [ "$(cat "$mark")" = "$PWD" ] &&
      [ -f "build/$preset/build.ninja" ] && return 0
  done
  rm -rf "build/$preset/CMakeCache.txt" "build/$preset/CMakeFiles" "build/$preset"/configured*
  run_quietly "build/$preset/configure.log" cmake --preset "$preset" $setting || {
    tail -n 30 "build/$preset/configure.log" >&2
    echo "hasten: cmake failed; whole log: $PWD/build/$preset/configure.log" >&2
    return 1
  }
  printf '%s' "$PWD" >"build/$preset/configured$setting"
}

# build_preset PRESET TARGET…: builds what was configured.
build_preset() {
  local preset=$1
  shift
  run_quietly "build/$preset/build.log" ninja -C "build/$preset" "$@" || {
    tail -n 60 "build/$preset/build.log" >&2
    echo "hasten: the build failed; whole log: $PWD/build/$preset/build.log" >&2
    echo "hasten: if that is not the code's fault, 'rm -rf build/$preset' starts over" >&2
    return 1
  }
}
