# SPDX-License-Identifier: Apache-2.0
# Prints golden_blocks.inl: known bytes of every block format and what they decode to, computed from
# the layout of each format as whole-array bit operations of numpy, independently of the C++ codecs.
import numpy as np

F = np.float32
LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F)


def f16(data, at):
    return F(np.frombuffer(data[at:at + 2].tobytes(), "<f2")[0])


def bits(data):
    """[len * 8]: bit k of the byte string, least significant first."""
    return np.unpackbits(data, bitorder="little")


def nibbles(data):
    """All low nibbles, then all high nibbles."""
    return np.concatenate([data & 15, data >> 4]).astype(np.int32)


def k_scales(data):
    """The packed 6-bit scales and offsets of q4_k and q5_k: 8 and 8."""
    a, b, c = data[0:4].astype(np.int32), data[4:8].astype(np.int32), data[8:12].astype(np.int32)
    scales = np.concatenate([a & 63, (c & 15) + 16 * (a >> 6)])
    offsets = np.concatenate([b & 63, (c >> 4) + 16 * (b >> 6)])
    return scales.astype(F), offsets.astype(F)


def q4_0(b):
    return f16(b, 0) * (nibbles(b[2:18]) - 8).astype(F)


def q4_1(b):
    return f16(b, 0) * nibbles(b[4:20]).astype(F) + f16(b, 2)


def q5_0(b):
    return f16(b, 0) * (nibbles(b[6:22]) + 16 * bits(b[2:6]).astype(np.int32) - 16).astype(F)


def q5_1(b):
    return f16(b, 0) * (nibbles(b[8:24]) + 16 * bits(b[4:8]).astype(np.int32)).astype(F) + f16(b, 2)


def q8_0(b):
    return f16(b, 0) * b[2:34].view(np.int8).astype(F)


def two_bits(data):
    """[256] from 64 bytes: per 32 bytes, the four bit pairs one after another."""
    d = data.reshape(2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 4, 1)
    return (d & 3).reshape(256).astype(np.int32)


def q2_k(b):
    scale = np.repeat(f16(b, 80) * (b[0:16] & 15).astype(F), 16)
    offset = np.repeat(f16(b, 82) * (b[0:16] >> 4).astype(F), 16)
    return scale * two_bits(b[16:80]).astype(F) - offset


def q3_k(b):
    high = (b[0:32].reshape(1, 32) >> np.arange(8, dtype=np.uint8).reshape(8, 1)) & 1
    q = two_bits(b[32:96]) + 4 * high.reshape(256).astype(np.int32) - 4
    top = (b[104:108].reshape(1, 4) >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)) & 3
    scales = nibbles(b[96:104]) + 16 * top.reshape(16).astype(np.int32) - 32
    return np.repeat(f16(b, 108) * scales.astype(F), 16) * q.astype(F)


def nibble_pairs(data):
    """[256] from 128 bytes: per 32 bytes, low nibbles then high nibbles."""
    return np.concatenate([nibbles(part) for part in data.reshape(4, 32)])


def q4_k(b):
    scales, offsets = k_scales(b[4:16])
    return (np.repeat(f16(b, 0) * scales, 32) * nibble_pairs(b[16:144]).astype(F)
            - np.repeat(f16(b, 2) * offsets, 32))


def q5_k(b):
    scales, offsets = k_scales(b[4:16])
    high = (b[16:48].reshape(1, 32) >> np.arange(8, dtype=np.uint8).reshape(8, 1)) & 1
    q = nibble_pairs(b[48:176]) + 16 * high.reshape(256).astype(np.int32)
    return np.repeat(f16(b, 0) * scales, 32) * q.astype(F) - np.repeat(f16(b, 2) * offsets, 32)


def q6_k(b):
    low = np.concatenate([nibbles(half) for half in b[0:128].reshape(2, 64)])
    q = low + 16 * two_bits(b[128:192]) - 32
    return np.repeat(f16(b, 208) * b[192:208].view(np.int8).astype(F), 16) * q.astype(F)


def iq4_nl(b):
    return f16(b, 0) * LEVELS[nibbles(b[2:18])]


def iq4_xs(b):
    high = np.frombuffer(b[2:4].tobytes(), "<u2").astype(np.int32)[0] >> np.arange(0, 16, 2) & 3
    low = np.stack([b[4:8] & 15, b[4:8] >> 4], axis=1).reshape(8).astype(np.int32)
    q = np.concatenate([nibbles(group) for group in b[8:136].reshape(8, 16)])
    return np.repeat(f16(b, 0) * (low + 16 * high - 32).astype(F), 32) * LEVELS[q]


# name, block bytes, where its binary16 numbers lie, decoder
FORMATS = [("q4_0", 18, [0], q4_0), ("q4_1", 20, [0, 2], q4_1), ("q5_0", 22, [0], q5_0),
           ("q5_1", 24, [0, 2], q5_1), ("q8_0", 34, [0], q8_0), ("q2_k", 84, [80, 82], q2_k),
           ("q3_k", 110, [108], q3_k), ("q4_k", 144, [0, 2], q4_k), ("q5_k", 176, [0, 2], q5_k),
           ("q6_k", 210, [208], q6_k), ("iq4_nl", 18, [0], iq4_nl), ("iq4_xs", 136, [0], iq4_xs)]

print("// SPDX-License-Identifier: Apache-2.0")
print("// Printed by golden_blocks.py: format, offsets of the binary16 numbers, first and last decoded")
print("// element, sum of elements, sum of element i times i + 1.")
for name, size, halves, decode in FORMATS:
    block = np.array([(i * 73 + 41) & 255 for i in range(size)], np.uint8)
    for at, value in zip(halves, (0.0371, -0.219)):
        block[at:at + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)
    out = decode(block)
    assert out.dtype == F
    total = weighted = 0.0
    for i, value in enumerate(out):
        total += float(value)
        weighted += float(value) * (i + 1)
    second = halves[1] if len(halves) > 1 else -1
    print(f"{{DType::{name}, {halves[0]}, {second}, {float(out[0]).hex()}, {float(out[-1]).hex()},")
    print(f" {total.hex()}, {weighted.hex()}}},")
