# SPDX-License-Identifier: Apache-2.0
# Kills a serving process with its cache on disk at random points, again and again: it always starts
# anew, every answer that comes is the one of a process that was never killed, and until it is killed
# an answer comes to everything.
# Usage: kill_test.py HASTEN; HASTEN_TEST_KILLS is how many times, HASTEN_TEST_SEED where to begin.
import atexit
import http.client
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
import urllib.error
import urllib.request

HASTEN = sys.argv[1]
KILLS = int(os.environ.get("HASTEN_TEST_KILLS", "10"))
SEED = int(os.environ.get("HASTEN_TEST_SEED", "1"))
TOKENS = 2560  # bytes of keys and values of a token of the model inside the program
NUM_WORKERS = 6
random.seed(SEED)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Fault(Exception):
    """What no server may do."""


class Server:
    def __init__(self, *args):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [HASTEN, "serve", "--port", self.url.rsplit(":", 1)[1], "--ctx", "512", "--threads", "1", *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        self.killed = False
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
        """The tokens' text; None when the server was killed. Raises Fault for whatever else comes."""
        body = {"model": "hasten-tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                answer = json.load(reply)
            return answer["choices"][0]["text"]
        except urllib.error.HTTPError as error:
            raise Fault(f"an answer with an error: {error.code} {read_rest(error)}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:  # refused, or cut off
            if self.killed:
                return None
            raise Fault(f"no answer of a server that was not killed: {error!r}") from error

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics", timeout=10).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def kill(self):
        ended = self.process.poll()
        self.killed = True
        self.process.kill()
        self.process.wait()
        if ended is not None:
            raise Fault(f"the server ended by itself with {ended}: {''.join(self.lines[-20:])}")


def read_rest(reply):
    try:
        return reply.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return repr(error)


def make_prompts():
    """Beginnings in common, and more than memory has room for."""
    stems = [[random.randrange(3, 2000) for _ in range(160)] for _ in range(4)]
    return [random.choice(stems)[:random.randrange(48, 160)] + [random.randrange(3, 2000) for _ in range(40)]
            for _ in range(32)]


class Life:
    """Asks a server from several threads until it was killed, or `stop` is called, or a fault came."""

    def __init__(self, server, prompts, expected):
        self.server, self.prompts, self.expected = server, prompts, expected
        self.num_answers = 0
        self.faults = []  # threads must not end the test themselves: Python would drop it
        self.end = threading.Event()
        seeds = [random.randrange(1 << 30) for _ in range(NUM_WORKERS)]
        self.threads = [threading.Thread(target=self.work, args=(seed,), daemon=True) for seed in seeds]
        for thread in self.threads:
            thread.start()

    def work(self, seed):
        order = random.Random(seed)
        try:
            while not self.end.is_set():
                index = order.randrange(len(self.prompts))
                text = self.server.ask(self.prompts[index])
                if text is None:
                    return
                if text != self.expected[index]:
                    raise Fault(f"prompt {index}: {text!r}, without a cache {self.expected[index]!r}")
                self.num_answers += 1
        except BaseException as error:  # whatever it is, the main thread fails by it
            self.faults.append(error)
            self.end.set()

    def stop(self):
        self.end.set()

    def join(self, num_kills):
        """Fails for what any thread has found."""
        for thread in self.threads:
            thread.join()
        if self.faults:
            sys.exit(f"after {num_kills} kills: {self.faults[0]!r}, and {len(self.faults) - 1} more")


def main():
    prompts = make_prompts()
    plain = Server("--no-prefix-cache")
    began = time.monotonic()
    expected = [plain.ask(prompt) for prompt in prompts]
    pace = (time.monotonic() - began) / len(prompts)  # seconds for an answer, such as under ASan
    plain.kill()
    folder = tempfile.mkdtemp(prefix="hasten-kill-")
    num_answers = 0
    tight = ("--kv-cache", str(600 * TOKENS), "--max-batch", "6", "--kv-disk", folder + "/store",
             "--kv-disk-bytes", "6MiB")
    try:
        for kill in range(KILLS):
            server = Server(*tight)
            life = Life(server, prompts, expected)
            time.sleep(random.uniform(0, 1) ** 2 * max(0.64, 40 * pace))
            server.kill()
            life.join(kill)
            num_answers += life.num_answers
        if num_answers < KILLS // 2:
            sys.exit(f"{num_answers} answers in {KILLS} lives: too few to tell anything")
        # The last one lives until it has answered, on a slow machine, too.
        server = Server(*tight)
        life = Life(server, prompts, expected)
        began = time.monotonic()
        limit = 60 + 4 * len(prompts) * pace
        while not life.end.is_set() and time.monotonic() - began < limit:
            time.sleep(0.1)
            if time.monotonic() - began > 3 and life.num_answers >= len(prompts):
                break
        life.stop()
        life.join(KILLS)
        if life.num_answers < len(prompts):
            sys.exit(f"after {KILLS} kills, {life.num_answers} answers in {limit:.0f} s")
        hits = server.metric("vllm:external_prefix_cache_hits_total")
        corrupt = server.metric('hasten:kv_disk_lost_blocks_total{model_name="hasten-tiny",reason="corrupt"')
        server.kill()
        print(f"{KILLS} kills, {num_answers} answers before and {life.num_answers} after the last, all right; "
              f"then {hits:.0f} tokens from disk, {corrupt:.0f} damaged blocks noticed")
        if hits == 0:
            sys.exit("nothing came from disk")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
