# SPDX-License-Identifier: Apache-2.0
# Kills a serving process with its cache on disk at random points, again and again: it always starts
# anew, and every answer that comes is the one of a process that was never killed.
# Usage: kill_test.py HASTEN; HASTEN_TEST_KILLS is how many times, HASTEN_TEST_SEED where to begin.
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HASTEN = sys.argv[1]
KILLS = int(os.environ.get("HASTEN_TEST_KILLS", "10"))
SEED = int(os.environ.get("HASTEN_TEST_SEED", "1"))
TOKENS = 2560  # bytes of keys and values of a token of the model inside the program
random.seed(SEED)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, *args):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [HASTEN, "serve", "--port", self.url.rsplit(":", 1)[1], "--ctx", "512", "--threads", "1", *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = []
        threading.Thread(target=self.read_log, daemon=True).start()
        for _ in range(1200):
            if self.process.poll() is not None:
                time.sleep(0.2)
                sys.exit(f"the server did not start: {''.join(self.lines)}")
            try:
                urllib.request.urlopen(self.url + "/health/ready", timeout=5).read()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("the server was not ready after a minute")

    def read_log(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def ask(self, prompt):
        """The tokens' text and how many of the prompt were cached; None when the server has gone."""
        body = {"model": "hasten-tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                answer = json.load(reply)
        except (OSError, ValueError, EOFError) as error:
            if hasattr(error, "code"):
                sys.exit(f"an answer with an error: {error.code} {error.read()}")
            return None
        except Exception as error:  # a reply that was cut off
            if type(error).__module__ == "http.client":
                return None
            raise
        return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics", timeout=10).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def kill(self):
        self.process.kill()
        self.process.wait()


def make_prompts():
    """Beginnings in common, and more than memory has room for."""
    stems = [[random.randrange(3, 2000) for _ in range(160)] for _ in range(4)]
    return [random.choice(stems)[:random.randrange(48, 160)] + [random.randrange(3, 2000) for _ in range(40)]
            for _ in range(32)]


def run_until(server, prompts, expected, end, counts):
    """Asks from several threads until the server has gone or `end` was set."""
    wrong = []

    def work(seed):
        order = random.Random(seed)
        while not end.is_set():
            index = order.randrange(len(prompts))
            answer = server.ask(prompts[index])
            if answer is None:
                return
            counts["answers"] += 1
            if answer[0] != expected[index]:
                wrong.append((index, answer[0], expected[index]))

    threads = [threading.Thread(target=work, args=(random.randrange(1 << 30),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    return threads, wrong


def main():
    prompts = make_prompts()
    plain = Server("--no-prefix-cache")
    expected = [plain.ask(prompt)[0] for prompt in prompts]
    plain.kill()
    folder = tempfile.mkdtemp(prefix="hasten-kill-")
    counts = {"answers": 0}
    hits = corrupt = 0
    tight = ("--kv-cache", str(600 * TOKENS), "--max-batch", "6", "--kv-disk", folder + "/store",
             "--kv-disk-bytes", "6MiB")
    try:
        for kill in range(KILLS + 1):
            server = Server(*tight)
            end = threading.Event()
            threads, wrong = run_until(server, prompts, expected, end, counts)
            if kill < KILLS:
                time.sleep(random.uniform(0, 0.8) ** 2)
                server.kill()
            else:
                time.sleep(3)
                end.set()
            for thread in threads:
                thread.join()
            if wrong:
                sys.exit(f"after {kill} kills: {wrong[0]}")
            if kill == KILLS:
                hits = server.metric("vllm:external_prefix_cache_hits_total")
                corrupt = server.metric('hasten:kv_disk_lost_blocks_total{model_name="hasten-tiny",reason="corrupt"')
                server.kill()
        print(f"{KILLS} kills, {counts['answers']} answers, all right; then {hits:.0f} tokens from disk, "
              f"{corrupt:.0f} damaged blocks noticed")
        if hits == 0:
            sys.exit("nothing came from disk")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
