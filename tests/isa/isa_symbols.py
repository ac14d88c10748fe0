#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that files compiled for one instruction set give no function to the rest of the program.

Of an inline function or a template that several files define, the linker keeps one. If that is the one of a
file for AVX-512, every caller has it, and a processor without AVX-512 stops there. So all that these files
define for others are functions of hasten::cpu that make tables of kernels or measure, and that have an
instruction set in their name.
"""
import re
import subprocess
import sys
from pathlib import Path

USAGE = "usage: isa_symbols.py NM libhasten_backends_cpu.a FOLDER of the files, one for each instruction set"
OWN = re.compile(r"hasten::cpu::(make|add|peak)_(generic|avx2|avx512|amx)\w*\(")
# A pointer to the personality routine, and clang's way to std::terminate: the same for all processors.
HARMLESS = {"DW.ref.__gxx_personality_v0", "__clang_call_terminate"}
BROKEN = """
avx2.cpp.o:
0000000000000000 W void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)
0000000000000010 T hasten::cpu::add_rows(int)
0000000000000020 t hasten::cpu::(anonymous namespace)::add(float*)
0000000000000030 T hasten::cpu::add_avx2_products(hasten::cpu::KernelTable&)
"""


def strangers(listing, members):
    """(member, symbol) of all that others could be linked with, and the members seen."""
    found, seen, member = [], set(), ""
    for line in listing.splitlines():
        if line.endswith(":"):
            member = line[:-1]
            seen.add(member)
        elif member in members and line:
            _, kind, symbol = line.split(maxsplit=2)
            # Lower case: the file's own. But u, v, w and i: one of several, or chosen as the program starts.
            is_own = symbol in HARMLESS or (kind == "T" and OWN.match(symbol))
            if (kind.isupper() or kind in "uvwi") and not is_own:
                found.append((member, symbol))
    return found, seen


def main():
    if len(sys.argv) != 4:
        sys.exit(USAGE)
    nm, library, folder = sys.argv[1:]
    if len(strangers(BROKEN, {"avx2.cpp.o"})[0]) != 2:
        sys.exit("a listing with two functions for others has to be found wrong")
    members = {f"{path.name}.o" for path in Path(folder).glob("*.cpp")}
    listing = subprocess.run([nm, "--defined-only", "--demangle", library], capture_output=True, text=True,
                             check=True).stdout
    found, seen = strangers(listing, members)
    if not members <= seen:
        sys.exit(f"{library} has nothing of {', '.join(sorted(members - seen))}")
    for member, symbol in found:
        print(f"{member} defines {symbol}: other code may be linked with it. "
              "Kernels take nothing but types from the standard library; make it static or always_inline")
    print(f"{len(members)} files checked")
    sys.exit(bool(found))


main()
