#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a C++ file is not as clang-format would write it, or does not begin with its licence and a sentence."""
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
FOLDERS, SUFFIXES = ("src", "include", "tests", "bench"), {".h", ".cpp", ".inl", ".cu", ".cuh"}

files = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*")
               if p.suffix in SUFFIXES and "node_modules" not in p.parts)
errors = []
for file in files:
    lines = file.read_text().splitlines()[:2]
    if len(lines) < 2 or lines[0] != "// SPDX-License-Identifier: Apache-2.0" or not lines[1].startswith("// "):
        errors.append(f"{file.relative_to(ROOT)}: the first two lines must be the licence and what the file is")
if shutil.which("clang-format") is None:
    print("clang-format is not installed: layout not checked")
else:
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files)], capture_output=True,
                          text=True, check=False)
    errors += [line for line in done.stderr.splitlines() if "error:" in line]
print("\n".join(errors) if errors else f"{len(files)} files are in form")
sys.exit(bool(errors))
