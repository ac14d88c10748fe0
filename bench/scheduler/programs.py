#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a workload of agents as JSON lines for 'hasten simulate', 'bench replay' and 'bench serve'.

An agent asks in calls, each of which has the prompt of the one before it, its answer, and what a
tool said; it comes when that tool has ended. How many calls an agent makes is heavy-tailed (Pareto,
shape 1.2, at least 2); a tool takes 0.2 s, 1 s or 10 s on average, exponentially, and each agent
uses mostly one of them. Agents of one of four kinds share a system prompt. A part of the programs
are no agents but people who ask once. Programs come by a Poisson process. The same arguments give
the same lines.
"""
import argparse
import json
import random

BLOCK = 512  # tokens of a block of the trace's format

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--programs", type=int, default=400)
parser.add_argument("--gap-ms", type=float, default=1000, help="between two arrivals of programs, on average")
parser.add_argument("--single", type=float, default=0.5, help="part of the programs that ask once")
parser.add_argument("--longest", type=int, default=60, help="calls of a program at most")
parser.add_argument("--calls-known", action="store_true", help="each call says how many are to come")
parser.add_argument("--seed", type=int, default=7)
arguments = parser.parse_args()

draw = random.Random(arguments.seed)
next_block = 4 * 4


def more_blocks(blocks, tokens):
    """Blocks up to so many tokens: those given, then new ones."""
    global next_block
    while len(blocks) * BLOCK < tokens:
        blocks.append(next_block)
        next_block += 1
    return blocks[: -(-tokens // BLOCK)]


time_s = 0.0
for index in range(arguments.programs):
    single = draw.random() < arguments.single
    calls = 1 if single else min(arguments.longest, int(2 / (1 - draw.random()) ** (1 / 1.2)))
    kind = draw.randrange(4)
    usual = draw.choice([0.2, 1, 10])
    blocks = [] if single else [4 * kind + i for i in range(4)]
    prompt = draw.randrange(200, 4000) if single else 4 * BLOCK + draw.randrange(200, 1500)
    for call in range(calls):
        output = draw.randrange(100, 600) if single else draw.randrange(30, 300)
        line = {"prompt_tokens": prompt, "output_tokens": output}
        if not single:
            line["program_id"] = str(index)
        if call == 0:
            line["time_s"] = round(time_s, 6)
        else:
            mean_s = usual if draw.random() < 0.8 else draw.choice([0.2, 1, 10])
            line["pause_ms"] = round(1000 * draw.expovariate(1 / mean_s), 3)
        line["blocks"] = more_blocks(blocks, prompt)
        if arguments.calls_known and not single:
            line["program_calls_left"] = calls - call - 1
        print(json.dumps(line))
        prompt += output + draw.randrange(50, 1200)
    time_s += draw.expovariate(1000 / arguments.gap_ms)
