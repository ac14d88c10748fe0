#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/performance.md on this machine: each line of work beside its limit and its aim.

    bench/speed.py [--models DIR] [--only REGEX] [--repeat 5] [--program FILE] [--kernels FILE]

Makes the models that it needs with `hasten synth` in DIR (12 GB and some minutes for all lines; a model is kept
for the next run), and takes about 20 minutes on two cores. It runs `hasten bench` and, for attention alone,
kernel_bench, and prints a row of Markdown as soon as it is measured. Fractions are of the limits that the same run
measured around each round, medians of the rounds. A line whose kernel_bench is not built, or whose model does not
fit in the memory, is named with its reason.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# 240 tokens of prompt and 32 generated ones are decoded at a context of 256 on average; 144 and 32 at 160.
PREFILL = ["--prompt", "512", "--gen", "2"]
DECODE = ["--prompt", "240", "--gen", "32"]
USERS = ["--prompt", "144", "--gen", "32", "--batch", "8,32"]
# (shape, type of the weights): [(arguments of bench, {(test, users): aim in %})].
MODELS = {
    ("llama-3.2-1b", "q4_0"): [(PREFILL, {("prefill", 1): 70}), (DECODE, {("decode", 1): 88}),
                               (USERS, {("decode", 8): 50, ("decode", 32): 60})],
    ("llama-3.2-1b", "q8_0"): [(PREFILL, {("prefill", 1): 70}), (DECODE, {("decode", 1): 88})],
    ("llama-3.2-1b", "q4_k"): [(PREFILL, {("prefill", 1): 60}), (DECODE, {("decode", 1): 88})],
    ("llama-3.2-1b", "q6_k"): [(PREFILL, {("prefill", 1): 60}), (DECODE, {("decode", 1): None})],
    ("llama-3.2-1b", "bf16"): [(PREFILL, {("prefill", 1): 75}), (DECODE, {("decode", 1): 88})],
    ("qwen3-0.6b", "q8_0"): [(DECODE, {("decode", 1): 80})],
    ("llama-3.1-8b", "q4_k"): [(PREFILL, {("prefill", 1): 60}), (DECODE, {("decode", 1): 88})],
}
# Attention of one layer: (name, filter of kernel_bench, aim in %).
KERNELS = [
    ("attention, 256 queries at 8,192, bf16", "attention/bf16/sequences:1/queries:256/context:8192/shared:0/", 55),
    ("attention, 1 query at 8,192, bf16", "attention/bf16/sequences:1/queries:1/context:8192/shared:0/", 75),
    ("attention, 1 query at 8,192 of each of 8, bf16", "attention/bf16/sequences:8/queries:1/context:8192/shared:0/",
     75),
    ("attention, 1 query at 8,192, q8_0", "attention/q8_0/sequences:1/queries:1/context:8192/shared:0/", None),
]


def row(work, value, limit, fraction, bound, aim):
    print(f"| {work} | {value} | {limit} | {100 * fraction:.0f} % | {'' if aim is None else f'{aim} %'} | {bound} |",
          flush=True)


def line_name(shape, weights, arguments, test, users):
    """As printed: decodes by the context that they have on average."""
    prompt, gen = int(arguments[1]), int(arguments[3])
    if test == "prefill":
        return f"{shape}, {weights}, prefill {prompt}"
    return f"{shape}, {weights}, decode at {prompt + gen // 2}, {users} user{'s' if users > 1 else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "models", help="where models are kept")
    parser.add_argument("--only", default="", metavar="REGEX", help="lines whose names match, such as '^llama.*q4_k'")
    parser.add_argument("--repeat", type=int, default=5, help="rounds, of which the medians are shown")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/src/cli/hasten")
    parser.add_argument("--kernels", type=Path, default=ROOT / "build/release/bench/kernels/kernel_bench")
    options = parser.parse_args()
    only = re.compile(options.only)
    names = [line_name(*model, arguments, *key) for model, series in MODELS.items()
             for arguments, tests in series for key in tests] + [work for work, _, _ in KERNELS]
    if not any(map(only.search, names)):
        parser.error(f"no line matches --only {options.only}; there are\n  " + "\n  ".join(names))

    def hasten(*arguments):
        done = subprocess.run([options.program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print(f"skipped: {' '.join(map(str, arguments))}: exit status {done.returncode}", file=sys.stderr)
            return None
        return done.stdout

    print(f"```\n{hasten('bench', 'machine') or sys.exit(1)}```\n")
    print("| work | measured | limit | fraction | aim | bound by |")
    print("|---|---|---|---|---|---|", flush=True)

    for (shape, weights), series in MODELS.items():
        lines = [(arguments, {key: (line_name(shape, weights, arguments, *key), aim) for key, aim in tests.items()})
                 for arguments, tests in series]
        wanted = [(arguments, tests) for arguments, tests in lines
                  if any(only.search(work) for work, _ in tests.values())]
        if not wanted:
            continue
        options.models.mkdir(parents=True, exist_ok=True)
        file = options.models / f"{shape}-{weights}.gguf"
        if not file.exists() and hasten("synth", "--shape", shape, "--type", weights, file) is None:
            continue
        for arguments, tests in wanted:
            output = hasten("bench", file, *arguments, "--repeat", options.repeat, "--json")
            if output is None:
                continue
            for result in json.loads(output)["results"]:
                work, aim = tests.get((result["test"], result["batch"]), (None, None))
                if work is not None and only.search(work):
                    row(work, f"{result['tokens_per_second']:.1f} tokens/s",
                        f"{result['limit_tokens_per_second']:.1f}", result["fraction"], result["bound"], aim)

    for work, chosen, aim in KERNELS:
        if not only.search(work):
            continue
        if not options.kernels.exists():
            print(f"skipped: {work}: no {options.kernels}; docs/performance.md says how it is built", file=sys.stderr)
            continue
        done = subprocess.run([options.kernels, f"--benchmark_filter=^{chosen}", "--benchmark_format=json",
                               f"--benchmark_repetitions={options.repeat}"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True)
        runs = [run for run in json.loads(done.stdout[done.stdout.index("{"):])["benchmarks"]
                if run["run_type"] == "iteration"]
        middle = sorted(runs, key=lambda run: run["fraction"])[len(runs) // 2]
        limit, bound = re.match(r"limit ([\d.]+) us \((\w+)\)", middle["label"]).groups()
        row(work, f"{middle['real_time'] / 1e3:.3g} ms", f"{float(limit) / 1e3:.3g}", middle["fraction"], bound, aim)


if __name__ == "__main__":
    main()
