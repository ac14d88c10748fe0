#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_compatibility.cpp from Python's unicodedata:
`tools/unicode/make_compatibility_tables.py > FILE`.

Each character whose full compatibility decomposition is not its canonical one, with the former.
"""
import unicodedata

print("// SPDX-License-Identifier: Apache-2.0")
print(f"// Unicode {unicodedata.unidata_version} compatibility decompositions; by "
      "tools/unicode/make_compatibility_tables.py.")
print('#include "text/unicode_tables.h"\n')
print("// clang-format off\nnamespace hasten::text::tables {\n")
print("const CompatibilityDecomposition kCompatibilityDecompositions[] = {")
row = []
for code in range(0x110000):
    if 0xD800 <= code < 0xE000:
        continue
    full = unicodedata.normalize("NFKD", chr(code))
    if full != unicodedata.normalize("NFD", chr(code)):
        row.append(f'{{{code:#x}, "' + "".join(f"\\x{byte:02x}" for byte in full.encode()) + '"}')
for start in range(0, len(row), 8):
    print("    " + ", ".join(row[start:start + 8]) + ",")
print("};")
print("const size_t kNumCompatibilityDecompositions = std::size(kCompatibilityDecompositions);\n")
print("}  // namespace hasten::text::tables")
