#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time between the tokens of eight answers while a long prompt is read beside them.

    bench/long_prompt.py build/release/src/cli/hasten MODEL [--prompt 16384] [--target-tbt-ms MS]

Four runs of `hasten bench replay`: the answers alone; with the prompt, in chunks that hold a stated time
(1.5 times the 99th percentile of the answers alone unless given); in chunks of the default size; and whole.
The prompt comes when all eight decode, and they end before it has been read, so that every time but the
first few is one beside it, and the 99th percentile is that of ten steps of a thousand. Whole, the prompt
makes one gap in each answer, which the longest time shows.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

USERS, ANSWER = 8, 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=16384, help="tokens of the long prompt")
    parser.add_argument("--target-tbt-ms", type=int, default=0)
    parser.add_argument("--only", choices=("target", "chunks", "whole"), help="one run beside the answers alone")
    options = parser.parse_args()
    context = options.prompt + 64

    with tempfile.TemporaryDirectory() as folder:
        def replay(with_prompt, *flags):
            lines = [{"time_s": 0, "prompt_tokens": 32, "output_tokens": ANSWER} for _ in range(USERS)]
            if with_prompt:
                lines.append({"time_s": 0.3, "prompt_tokens": options.prompt, "output_tokens": 1})
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            done = subprocess.run([options.program, "bench", "replay", options.model, "--trace", str(trace), "--ctx",
                                   str(context), "--json", *map(str, flags)], stdout=subprocess.PIPE, check=True)
            return json.loads(done.stdout)["result"]

        alone = replay(False)
        base = alone["tbt_ms"]["p99"]
        target = options.target_tbt_ms or max(1, round(1.5 * base))
        print(f"{'':<26} {'TBT p50':>9} {'p99':>9} {'max':>9}  p99 over alone   prompt read in")

        def show(name, result):
            tbt, ttft = result["tbt_ms"], result["ttft_ms"]["max"] / 1000
            print(f"{name:<26} {tbt['p50']:>6.1f} ms {tbt['p99']:>6.1f} ms {tbt['max']:>6.0f} ms "
                  f"{tbt['p99'] / base:>13.2f}x  {ttft:>12.1f} s", flush=True)

        show("alone", alone)
        for name, title, flags in (("target", f"--target-tbt-ms {target}", ("--target-tbt-ms", target)),
                                   ("chunks", "chunks of 512", ()),
                                   ("whole", "whole", ("--no-chunked-prefill",))):
            if options.only in (None, name):
                show(title, replay(True, *flags))


if __name__ == "__main__":
    main()
