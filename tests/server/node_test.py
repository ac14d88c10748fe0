#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Node test in a folder against a server program: node_test.py FOLDER BUILD_FOLDER PROGRAM.

Installs the folder's locked packages into BUILD_FOLDER first. Exit status 77: skipped, it says why.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHROMIUM = "/usr/bin/chromium"  # Debian's; Playwright's own download is not used


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def main():
    source, build, program = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if source.name == "page" and not Path(CHROMIUM).exists():
        skip(f"{CHROMIUM} is not installed")
    if not program.exists():
        skip(f"{program} is not built")

    lock = (source / "package-lock.json").read_bytes()
    installed = build / "installed-lock.json"
    build.mkdir(parents=True, exist_ok=True)
    for file in (*source.iterdir(), source.parent / "server_process.mjs"):
        if file.is_file():
            shutil.copy(file, build)
    if not installed.exists() or installed.read_bytes() != lock:
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=build, text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            skip("npm ci failed (is there no network?):\n" + done.stderr)
        installed.write_bytes(lock)
    environment = {**os.environ, "HASTEN_BIN": str(program), "HASTEN_CHROMIUM": CHROMIUM}
    sys.exit(subprocess.run(["node", "--test", "--test-reporter=spec", "test.mjs"], cwd=build, env=environment,
                            check=False).returncode)


main()
