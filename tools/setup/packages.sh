# SPDX-License-Identifier: Apache-2.0
# The Debian packages that hasten needs, and a function that installs those which are missing.

# To build and run.
build_packages=(
  g++ cmake ninja-build ccache mold
  libboost1.81-dev libboost-json1.81-dev libcli11-dev libfmt-dev libspdlog-dev
  libhwloc-dev libssl-dev prometheus-cpp-dev
)
# To test, besides those above: frameworks, oracles, and a browser.
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev clang-format
  libpcre2-dev libsentencepiece-dev sentencepiece python3 python3-jinja2 python3-numpy
  nodejs npm chromium curl
)

# A command that this machine has from elsewhere counts as its package.
provided_elsewhere() {
  case $1 in
    nodejs) command -v node >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    *) false ;;
  esac
}

# install_missing PACKAGE…: says what is missing and installs it; silent when nothing is.
install_missing() {
  local missing=() package
  for package in "$@"; do
    if [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" != "ii " ] &&
       ! provided_elsewhere "$package"; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "hasten: this is not Debian; install what provides: ${missing[*]}" >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "hasten: run as root, or install sudo: these Debian packages are missing: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "hasten: installing ${missing[*]}" >&2
  local log
  log=$(mktemp)
  if { "${as_root[@]}" apt-get update -q &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    echo "hasten: apt-get failed (whole log: $log); see the lines above, then try again" >&2
    return 1
  fi
}

# configure_preset PRESET [-DNAME=VALUE]: configures unless that was done with this very value.
configure_preset() {
  local preset=$1 setting=${2:-} done_mark="build/$1/configured${2:-}"
  [ -f "build/$preset/build.ninja" ] && [ -f "$done_mark" ] && return 0
  mkdir -p "build/$preset"
  cmake --preset "$preset" $setting >"build/$preset/configure.log" 2>&1 || {
    tail -n 30 "build/$preset/configure.log" >&2
    echo "hasten: cmake failed; whole log: $PWD/build/$preset/configure.log" >&2
    return 1
  }
  touch "$done_mark"
}

# build_preset PRESET TARGET…: builds what was configured; quiet unless something fails.
build_preset() {
  local preset=$1
  shift
  if [ -t 2 ]; then
    NINJA_STATUS='building hasten [%f/%t] ' ninja -C "build/$preset" "$@" >&2
  else
    ninja -C "build/$preset" "$@" >"build/$preset/build.log" 2>&1 || {
      tail -n 60 "build/$preset/build.log" >&2
      echo "hasten: the build failed; whole log: $PWD/build/$preset/build.log" >&2
      return 1
    }
  fi
}
