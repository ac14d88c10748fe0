# SPDX-License-Identifier: Apache-2.0
# The Debian packages that hasten needs, and a function that installs those which are missing.

# To build and run.
build_packages=(
  g++ cmake ninja-build ccache mold
  libboost1.81-dev libboost-json1.81-dev libcli11-dev libfmt-dev libspdlog-dev
  libhwloc-dev prometheus-cpp-dev
)
# To test, besides those above: frameworks, oracles, and a browser.
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy
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
    # The first letter is what is wanted of it (install, hold), the second what it is.
    case "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" in
      ?i*) ;;
      *) provided_elsewhere "$package" || missing+=("$package") ;;
    esac
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
  # A fresh machine may be installing its updates: wait for that rather than fail.
  local wait=(-o DPkg::Lock::Timeout=300)
  if { "${as_root[@]}" apt-get "${wait[@]}" update -q &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get "${wait[@]}" install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    echo "hasten: apt-get failed (whole log: $log); see the lines above, then try again" >&2
    return 1
  fi
}
