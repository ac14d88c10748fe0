#!/usr/bin/env python3
"""Fails when an #include in src/ breaks the layering declared by the CMakeLists (DEPS), or a file is too long."""
import re, sys
from itertools import takewhile
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SRC, MAX_LINES, SUFFIXES = ROOT / "src", 800, {".h", ".cpp", ".inl", ".cu", ".cuh"}
DEVICE_MACRO = re.compile(r"^\s*#\s*(?:el)?if.*\b(__AVX|__ARM_|__CUDA|__HIP|WITH_CUDA|WITH_HIP)")


def declared_deps():
    """{folder: DEPS} from each src/**/CMakeLists.txt: add_layer(<folder> DEPS a b ...)."""
    deps = {}
    for cmake in SRC.rglob("CMakeLists.txt"):
        for body in re.findall(r"add_layer\(([^)]*)\)", cmake.read_text()):
            words = body.split()
            deps[words[0]] = set(takewhile(lambda w: w != "LINK", words[words.index("DEPS") + 1:])) if "DEPS" in words else set()
    return deps


def layer_of(path, deps):
    """The longest declared folder that is a prefix of path, or None."""
    return max((d for d in deps if path.startswith(d + "/")), key=len, default=None)


def cycle(deps):
    done, open_ = set(), []
    def visit(layer):
        if layer in open_:
            return open_[open_.index(layer):] + [layer]
        if layer in done:
            return None
        open_.append(layer)
        found = next((c for d in sorted(deps.get(layer, ())) if (c := visit(d))), None)
        open_.pop(); done.add(layer)
        return found
    return next((c for layer in sorted(deps) if (c := visit(layer))), None)


def main():
    deps, errors = declared_deps(), []
    if loop := cycle(deps):
        errors.append("DEPS cycle: " + " -> ".join(loop))
    for file in sorted(p for p in SRC.rglob("*") if p.suffix in SUFFIXES):
        name, lines = file.relative_to(SRC).as_posix(), file.read_text().splitlines()
        layer = layer_of(name, deps)
        if layer is None:
            errors.append(f"{name}: in no declared layer"); continue
        if len(lines) > MAX_LINES:
            errors.append(f"{name}: {len(lines)} lines, the limit is {MAX_LINES}")
        for number, line in enumerate(lines, 1):
            if DEVICE_MACRO.match(line) and not layer.startswith("backends"):
                errors.append(f"{name}:{number}: device macro outside backends/")
            include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            target = include and layer_of(include[1], deps)
            if target and target != layer and target not in deps[layer]:
                errors.append(f"{name}:{number}: {layer} may not include {target}")
    print("\n".join(errors))
    return bool(errors)


sys.exit(main())
