#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a heavy-tailed workload as JSON lines for 'hasten simulate' and 'hasten bench replay'.

Answers have Pareto lengths (shape 1.2), as those of services do; prompts 1 to 60 tokens; arrivals
are Poisson. Each request has a deadline of a base and so many milliseconds for each token of its
answer, and belongs to one of two tenants, `a` and `b`, in turn or, with --flood, to `a` that often.
The same arguments give the same lines.
"""
import argparse
import json
import random

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--requests", type=int, default=600)
parser.add_argument("--gap-ms", type=float, default=20, help="between two arrivals, on average")
parser.add_argument("--deadline-base-ms", type=int, default=0, help="0: no deadlines")
parser.add_argument("--deadline-token-ms", type=float, default=0)
parser.add_argument("--longest", type=int, default=1000, help="tokens of an answer at most")
parser.add_argument("--flood", type=float, default=0, help="fraction of the requests that are of tenant a")
parser.add_argument("--seed", type=int, default=7)
arguments = parser.parse_args()

draw = random.Random(arguments.seed)
time_s = 0.0
for index in range(arguments.requests):
    length = min(arguments.longest, int(5 / (1 - draw.random()) ** (1 / 1.2)))
    line = {"time_s": round(time_s, 6), "prompt_tokens": 1 + draw.randrange(60), "output_tokens": length,
            "tenant": "ab"[index % 2]}
    if arguments.flood > 0:
        line["tenant"] = "a" if draw.random() < arguments.flood else "b"
    slack = draw.choice([2, 3, 4, 5])
    if arguments.deadline_base_ms > 0:
        line["deadline_ms"] = int(arguments.deadline_base_ms + slack * arguments.deadline_token_ms * length)
    print(json.dumps(line))
    time_s += draw.expovariate(1000 / arguments.gap_ms)
