#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the layering of a copy of the tree in each way, and checks that check_layers.py sees it."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(sys.argv[1])


def check(tree):
    done = subprocess.run([sys.executable, root / "tools/check_layers.py", tree],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def break_with(name, path, text, expected):
    """Adds `text` to the file at `path` of a fresh copy; the check must fail and say `expected`."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(root / "src", tree / "src")
        file = tree / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + text)
        status, output = check(tree)
        if status == 0 or expected not in output:
            sys.exit(f"{name}: check_layers.py said (status {status}): {output}\nwanted: {expected}")
        print(f"{name}: seen")


status, output = check(root)
if status != 0:
    sys.exit(f"the tree itself breaks its layers: {output}")
break_with("an upward include", "base/error.cpp", '#include "tensor/tensor.h"\n',
           "base may not include tensor")
break_with("a sideways include", "text/utf8.cpp", '#include "weights/checkpoint.h"\n',
           "text may not include weights")
break_with("a cycle", "base/CMakeLists.txt", "add_layer(base DEPS tensor)\n", "DEPS cycle")
break_with("a long file", "base/error.cpp", "\n" * 801, "the limit is 800")
break_with("a device macro", "base/error.cpp", "#ifdef __AVX2__\n#endif\n", "device macro")
break_with("a homeless file", "nowhere/file.cpp", "\n", "in no declared layer")
