#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Policies on one overload, in the engine and in the simulator.

    bench/policies.py build/release/src/cli/hasten MODEL [--requests 300] [--load 1.5] [--rounds 3]

A heavy-tailed workload (bench/scheduler/heavy_tailed.py: Pareto answers, deadlines, nine requests of ten
are of the tenant "a") comes faster than the machine can answer, which a first run with everything at once
measures. Then each policy runs in the engine and, with costs fitted to the steps of that run, in virtual time:
in an overload a machine that is 3 % slower than a minute ago has a queue that is 20 % longer. Both columns are
of the same requests at the same times, and medians of the rounds, each of which goes through all policies: a
deadline that is missed by a millisecond changes what comes after it. Times are of the requests that were answered: a policy that refuses some,
as edf does where a deadline cannot be met, has none of theirs, so read them beside how many were refused.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Predictors of length are not compared: the engine never expects more than max_tokens, which is an answer's length
# here and kept from the simulator's.
POLICIES = ("fcfs", "mlfq", "sjf", "srtf", "vtc", "edf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--load", type=float, default=1.5, help="how many times what the machine can answer")
    parser.add_argument("--max-batch", type=int, default=4)
    parser.add_argument("--longest", type=int, default=300, help="tokens of an answer at most")
    parser.add_argument("--rounds", type=int, default=1, help="how often all policies run; medians are shown")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")

    with tempfile.TemporaryDirectory() as folder:
        def workload(gap_ms, *flags):
            trace = Path(folder) / "trace.jsonl"
            made = subprocess.run([sys.executable, Path(__file__).parent / "scheduler" / "heavy_tailed.py",
                                   "--requests", str(options.requests), "--gap-ms", str(gap_ms), "--longest",
                                   str(options.longest), "--flood", "0.9", *map(str, flags)],
                                  stdout=subprocess.PIPE, check=True)
            trace.write_bytes(made.stdout)
            return trace

        def run(*arguments):
            done = subprocess.run([options.program, *map(str, arguments), "--max-batch", str(options.max_batch),
                                   "--json"], stdout=subprocess.PIPE, check=True)
            return json.loads(done.stdout)["result"]

        costs = Path(folder) / "costs.json"
        all_at_once = run("bench", "replay", options.model, "--trace", workload(0.001))
        alone_ms = 1000 * all_at_once["duration_seconds"] / options.requests
        token_ms = 1000 * all_at_once["duration_seconds"] / all_at_once["output_tokens"] * options.max_batch
        gap_ms = alone_ms / options.load
        trace = workload(gap_ms, "--deadline-base-ms", round(8 * alone_ms), "--deadline-token-ms", token_ms)
        print(f"{options.requests} requests, one every {gap_ms:.1f} ms; the machine answers one in {alone_ms:.1f} ms\n")
        print(f"{'':<14} {'mean, ms':>17} {'':>6} {'p99, ms':>17} {'of b, ms':>17} {'deadlines met':>15} {'refused':>15}")
        print(f"{'policy':<14}" + f" {'engine':>8} {'simul.':>8} {'':>6}" + f" {'engine':>8} {'simul.':>8}" * 2
              + f" {'engine':>7} {'simul.':>7}" * 2)
        results = {policy: [] for policy in POLICIES}  # pairs of the engine's and the simulator's
        for round_ in range(options.rounds):
            for policy in POLICIES:
                if sys.stderr.isatty():
                    print(f"round {round_ + 1} of {options.rounds}: {policy:<8}", end="\r", file=sys.stderr)
                real = run("bench", "replay", options.model, "--trace", trace, "--policy", policy,
                           "--calibrate", costs)
                results[policy].append((real, run("simulate", "--machine", costs, "--trace", trace,
                                                  "--policy", policy)))

        for policy, pairs in results.items():
            def medians(of):  # of the rounds in which there is such a number
                return [statistics.median([value for value in map(of, side) if not math.isnan(value)] or [math.nan])
                        for side in zip(*pairs)]

            def pair(of, width=8):
                return "".join(f" {value:>{width}.0f}" for value in medians(of))

            def mean(result):
                return result["e2e_ms"]["mean"]

            def mean_of_b(result):  # all of its requests may have been refused
                return result.get("tenants", {}).get("b", {"e2e_ms": {"mean": float("nan")}})["e2e_ms"]["mean"]

            real, virtual = medians(mean)
            print(f"{policy:<14}{pair(mean)} {100 * (virtual / real - 1):>+5.1f}%"
                  + pair(lambda result: result["e2e_ms"]["p99"])
                  + pair(mean_of_b)
                  + pair(lambda result: result["deadlines"]["met"], 7)
                  + pair(lambda result: result["failed"], 7))


if __name__ == "__main__":
    main()
