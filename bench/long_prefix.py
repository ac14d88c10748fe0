#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a long prefix costs: computed, from the prefix cache, and from disk after a restart.

    bench/long_prefix.py build/release/src/cli/hasten MODEL [--prompt 8192] [--repeat 5]

Starts `hasten serve` with a folder for blocks, asks for one token behind a long prompt, then again with other
last words; stops the server, starts it anew and asks once more. Times are from sending to the whole answer.
"""
import argparse
import json
import random
import re
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=8192, help="tokens in common")
    parser.add_argument("--repeat", type=int, default=5, help="requests from the prefix cache")
    options = parser.parse_args()
    draw = random.Random(1)
    prefix = [draw.randrange(1, 1000) for _ in range(options.prompt)]
    computed_s = None

    def ask(url, what):
        nonlocal computed_s
        body = {"prompt": prefix + [draw.randrange(1, 1000) for _ in range(4)], "max_tokens": 1, "ignore_eos": True}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=3600) as response:
            usage = json.load(response)["usage"]
        took = time.monotonic() - began
        computed_s = computed_s or took
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        print(f"{what:<24} {cached:>6} of {usage['prompt_tokens']} tokens cached  {took:>9.3f} s  "
              f"{computed_s / took:>7.1f} times as fast", flush=True)
        return took

    with tempfile.TemporaryDirectory() as folder:
        def serve(asks):
            server = subprocess.Popen([options.program, "serve", options.model, "--port", "0", "--max-batch", "2", "--ctx",
                                       str(options.prompt + 64), "--kv-disk", folder, "--kv-disk-bytes", "16GiB"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                url = None
                for line in server.stdout:
                    url = url or re.search(r"http://127\.0\.0\.1:\d+", line)
                    if "Ctrl-C" in line:
                        break
                return asks(url.group(0))
            finally:
                server.send_signal(signal.SIGTERM)  # writes what memory still holds
                server.wait()

        def first(url):
            ask(url, "computed")
            hot = [ask(url, "from the prefix cache") for _ in range(options.repeat)]
            print(f"{'':<24} median {statistics.median(hot):.3f} s: {computed_s / statistics.median(hot):.0f} times as fast")

        serve(first)
        serve(lambda url: ask(url, "from disk, restarted"))


if __name__ == "__main__":
    main()
