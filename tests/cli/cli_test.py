#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every subcommand of the real program as a person would, and checks what it prints and returns."""
import contextlib
import http.server
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

PROGRAM, ROOT = sys.argv[1], Path(sys.argv[2])
MODEL = ROOT / "assets/hasten-tiny-bf16.gguf"
SHARED = Path(os.environ.get("HASTEN_SHARED", ROOT.parent / "shared"))


def hasten(*arguments, stdin=""):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=300, check=False)


class Help(unittest.TestCase):
    COMMANDS = "serve run bench perplexity tokenize detokenize inspect synth simulate doctor".split()

    def test_help_names_every_command_and_each_explains_itself(self):
        top = hasten("--help")
        self.assertEqual(top.returncode, 0)
        for command in self.COMMANDS:
            self.assertIn(command, top.stdout)
            done = hasten(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertGreater(len(done.stdout), 200, command)

    def test_help_of_no_command_is_an_error(self):
        for arguments, said in ((("sevre", "--help"), "the nearest is serve"), (("--help", "sevre"), "the nearest is serve"),
                                (("frobnicate", "-h"), "the commands are serve"), (("sevre", "--version"), "the nearest")):
            done = hasten(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(said, done.stderr)
        for arguments in (("--help",), ("--frob", "--help"), ("bench", "x.gguf", "--help")):
            self.assertEqual(hasten(*arguments).returncode, 0, arguments)

    def test_version(self):
        self.assertRegex(hasten("--version").stdout, r"^hasten \d+\.\d+\.\d+\n$")
        self.assertEqual(hasten("version").stdout, hasten("--version").stdout)

    def test_wrong_usage_is_status_2_and_one_line(self):
        for arguments in ((), ("dance",), ("run", "--no-such-flag"), ("run", "--threads", "many"),
                          ("bench", "--batch", "0"), ("serve", "--port", "99999999"), ("serve", "--max-queue", "-1"),
                          ("run", "--raw", "--system", "x", "-p", "x")):
            done = hasten(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertLess(len(done.stderr), 160, done.stderr)

    def test_wrong_usage_says_what_is_wanted(self):
        for arguments, wanted in (
                (("sevre",), "there is no command sevre; the nearest is serve; see 'hasten --help'"),
                (("frobnicate",), "frobnicate; the commands are serve run bench"),
                (("serve", "--port", "99999"), "--port: 99999 is no whole number from 0 to 65535; see 'hasten serve"),
                (("serve", "--port", "abc"), "--port: abc is no whole number from 0 to 65535"),
                (("run", "-n", "0", "-p", "x"), "--max-tokens: 0 is no whole number from 1 on"),
                (("serve", "--tenant-cache-share", "0"), "--tenant-cache-share: 0 is no number from 0.01 to 1"),
                (("run", "--temperature", "hot"), "--temperature: hot is no number; see 'hasten run --help'")):
            done = hasten(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(wanted, done.stderr)

    def test_help_shows_defaults_in_words_and_its_example_once(self):
        text = hasten("serve", "--help").stdout
        self.assertRegex(text, r"--port N +Port to listen on; 0: any free one \(default: 8080\)")
        self.assertNotIn("INT in", text)
        self.assertNotIn("hasten COMMAND --help", text)
        self.assertIn("hasten COMMAND --help", hasten("--help").stdout)

        self.assertRegex(hasten("bench", "--help").stdout, r"--batch LIST .*\(default: 1\)")
        self.assertRegex(hasten("synth", "--help").stdout, r"--shape NAME .*\(required\)")
        self.assertIn("hasten tokenize [OPTIONS] [MODEL] [TEXT]\n", hasten("tokenize", "--help").stdout)
        self.assertIn("hasten run [OPTIONS] [MODEL]\n", hasten("run", "--help").stdout)

    def test_value_that_no_option_takes_is_status_2_and_named(self):
        for arguments, named in (
                (("run", "-p", "x", "--temperature", "-1"), "temperature"),
                (("run", "-p", "x", "--devices", "abacus"), '--devices "abacus" is unknown; this build knows: auto, cpu'),
                (("run", "-p", "x", "--policy", "whim"), '--policy "whim" is unknown; known: fcfs, priority'),
                (("run", "-p", "x", "--length-predictor", "guess"), '--length-predictor "guess" is unknown; known: limit'),
                (("serve", "--host", "nowhere"), "nowhere"),
                (("serve", "--api-key", ""), "API key"),
                (("bench", "--batch", "8", "--max-batch", "4"), "--max-batch"),
                (("synth", "--shape", "tiny-llama", "--type", "q9", "/tmp/x.gguf"), "--type q9 is unknown; known: f32 f16"),
                (("simulate", "--type", "q9"), "--type q9 is unknown; known: f32 f16 bf16 q4_0"),
                (("run", "-p", "x", "--kv-type", "q9"), '--kv-type "q9" is unknown; known: auto, f32'),
                (("run", "-p", "x", "--kv-type", "q8_0/"), '--kv-type "q8_0/" is unknown; known: auto, f32'),
                (("synth", "--shape", "llama-9000b", "--type", "q4_0", "/tmp/x.gguf"), "llama-9000b")):
            done = hasten(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (arguments, done.stderr))
            self.assertIn(named, done.stderr.splitlines()[-1])

    def test_failure_is_status_1_and_one_line_that_names_the_thing(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as broken:
            broken.write(MODEL.read_bytes()[:5000])
            broken.flush()
            for arguments, named in (
                    (("run", "/no/such/model.gguf", "-p", "x"), "/no/such/model.gguf"),
                    (("run", broken.name, "-p", "x"), os.path.basename(broken.name)),
                    (("run", "-p", "x" * 9000), "context"),
                    (("perplexity", "--file", "/no/such/text"), "/no/such/text")):
                done = hasten(*arguments)
                self.assertEqual(done.returncode, 1, (arguments, done.stderr))
                self.assertEqual(done.stdout, "", arguments)
                lines = done.stderr.strip().splitlines()
                self.assertTrue(lines and lines[-1].startswith("hasten: "), done.stderr)
                self.assertIn(named, lines[-1])


    def test_what_is_no_model_says_what_is(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "text"
            text.write_text("Hello")
            files = Path(folder) / "files"
            files.mkdir()
            pointer, empty = files / "pointer.gguf", files / "empty.gguf"
            pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
            empty.touch()
            for command in ("run", "inspect", "tokenize"):
                folder_says = "without a config.json" if command != "tokenize" else "looked for tokenizer.json"
                for model, said in ((folder, folder_says), (text, "is not a GGUF file"),
                                    (pointer, "git lfs pull fetches it"), (empty, "is empty"),
                                    (Path(folder) / "none", "there is no ")):
                    done = hasten(command, model, stdin="Hi")
                    self.assertEqual(done.returncode, 1, (command, model))
                    self.assertIn(said, done.stderr)
                    self.assertIn(str(model), done.stderr)
            (Path(folder) / "config.json").write_text('{"architectures": ["MambaForCausalLM"]}')
            done = hasten("run", folder, "-p", "x")
            self.assertEqual(done.returncode, 1)
            self.assertIn('architecture "MambaForCausalLM" is not supported', done.stderr)
            (Path(folder) / "config.json").unlink()
            (Path(folder) / "a.gguf").touch()
            self.assertIn("such as " + folder + "/a.gguf", hasten("run", folder, "-p", "x").stderr)
        away = hasten("serve", "--host", "192.0.2.1")  # of the block for documentation
        self.assertIn("choose an address of this machine", away.stderr)
        self.assertIn("hasten tokenize \"\" 'Hello fox'", hasten("tokenize", "Hello fox").stderr)
        self.assertIn("there is no folder /no/such", hasten("synth", "--shape", "tiny-llama", "/no/such/x.gguf").stderr)

    def test_output_that_cannot_be_written_is_status_1(self):
        for arguments in (("run", "-p", "x", "-n", "2"), ("run", "-p", "x", "-n", "2", "--json"), ("inspect", MODEL)):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=300, check=False)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("standard output", done.stderr)


    def test_errors_show_names_as_text(self):
        for arguments in (("run", "\x1b[31mred.gguf"), ("run", "--\x1b[31mred")):
            done = hasten(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("\ufffd[31mred", done.stderr)
            self.assertNotIn("\x1b", done.stderr)

    def test_an_unknown_flag_is_named_with_the_nearest_one(self):
        for arguments, said in ((("--foo",), "there is no flag --foo; see 'hasten --help'"),
                                (("--quite",), "no flag --quite; the nearest is --quiet; see 'hasten --help'"),
                                (("run", "--temprature", "1"), "no flag --temprature; the nearest is --temperature"),
                                (("run", "--kv-cashe=1GiB"), "no flag --kv-cashe; the nearest is --kv-cache"),
                                (("serve", "--xyz"), "there is no flag --xyz; see 'hasten serve --help'"),
                                (("sreve", "--port", "80"), "there is no command sreve; the nearest is serve"),
                                (("-q", "sreve", "--xyz"), "there is no command sreve; the nearest is serve"),
                                (("--port", "80"), "a command is missing before --port, such as serve; the commands"),
                                (("--port=80",), "a command is missing before --port, such as serve; the commands"),
                                (("-p", "x"), "a command is missing before -p, such as run; the commands are serve"),
                                (("--port", "80", "serve"), "--port stands before its command: write hasten serve --p"),
                                (("run", "--port", "80"), "--port is a flag of serve, not of run; see 'hasten run -"),
                                (("serve", "--model-name", ""), "--model-name: an empty name is none; leave it out"),
                                (("tokenize", "", "a", "--file", "b"), "takes a TEXT or --file, not both"),
                                (("detokenize", "", "1", "--file", "b"), "takes IDS or --file, not both")):
            done = hasten(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr)

    def test_sizes_have_units_that_fit(self):
        done = hasten("run", "-p", "x", "--kv-cache", "1KiB")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"the cache has 1.0 KiB, less than one block of keys and values, which is of 16 tokens and "
                                      r"takes [\d.]+ KiB \(a --kv-cache without a unit is in bytes\)")
        self.assertRegex(done.stderr, r"a context of \d+ tokens takes [\d.]+ MiB, the model's whole one; raise --kv-cache")
        self.assertIn("9.0 TiB are asked for", hasten("run", "-p", "x", "--kv-cache", "9TiB").stderr)
        cut = hasten("run", "-p", "x", "-n", "1", "--kv-cache", "100KiB")
        self.assertRegex(cut.stderr, r"--kv-cache 100.0 KiB holds a context of \d+ tokens; the model has one of \d+\n")
        much = hasten("run", "-p", "x", "-n", "1", "--kv-cache", "512MiB")
        self.assertRegex(much.stderr, r"--kv-cache 512.0 MiB: only \S+ MiB of it are used, as 1 sequence of ")
        for size in ("0", "2048"):
            self.assertIn(f"--block-size: {size} is no whole number from 1 to 1024", hasten("run", "--block-size", size).stderr)
        self.assertIn("from 1 to 1024", hasten("run", "-p", "x", "--block-size", "3").stderr)
        for wrong in ("4XB", "GiB", "1.2.3", "-1", "1e3", "4KiBB", "4i", "4 G i B", " 4GiB"):
            done = hasten("run", "-p", "x", "--kv-cache=" + wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn(wrong + " is no size: write a number of bytes, or one with B, KiB", done.stderr)
        self.assertIn("too large", hasten("run", "-p", "x", "--kv-cache", "9999999TiB").stderr)
        for less in ("0.5", "0.0001KiB"):
            done = hasten("run", "-p", "x", "--kv-cache", less)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--kv-cache: {less} is less than a byte; see", done.stderr)
        for right in ("1.5MiB", "2 mb", "1M", "1572864", "2048k"):
            done = hasten("run", "-p", "x", "-n", "1", "--ctx", "32", "--kv-cache", right)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("KiB, MiB, GiB or TiB", " ".join(hasten("run", "--help").stdout.split()))

    def test_a_flag_that_another_leaves_without_effect_is_refused(self):
        for flags, said in (
                (("--kv-disk-bytes", "1GiB"), "add --kv-disk DIR, or leave it out"),
                (("--kv-disk", ""), "--kv-disk: an empty name is none"),
                (("--target-tbt-ms", "50", "--no-chunked-prefill"), "--no-chunked-prefill turns off: leave out one"),
                (("--batch-wait-ms", "5"), "--batch-wait-ms is of dynamic batches: add --batching dynamic"),
                (("--batch-wait-ms", "100"), "--batch-wait-ms is of dynamic batches: add --batching dynamic"),
                (("--policy", "fcfs", "--length-predictor", "online"), "--policy fcfs does not: choose one of sjf, srtf, edf"),
                (("--policy", "vtc", "--aging", "3"), "in --policy vtc it does not: choose one of priority"),
                (("--policy", "srtf", "--held-share", "0.5"), "--policy srtf does: choose one of fcfs, sjf"),
                (("--no-prefix-cache", "--held-share", "0.5"), "--held-share is of the prefix cache, which --no-prefix"),
                (("--no-prefix-cache", "--tenant-cache-share", "0.2"), "--tenant-cache-share is of the prefix cache"),
                (("--preferred-batch", "1", "--batching", "static"), "--preferred-batch is of dynamic batches")):
            for command in (("run", "-p", "x"), ("simulate", "--machine", "a100")):
                if "--kv-disk" in flags[0] and command[0] == "simulate":
                    continue
                done = hasten(*command, *flags)
                self.assertEqual((done.returncode, done.stdout), (2, ""), (command, flags))
                self.assertIn(said, done.stderr)
        for right in (("--batching", "dynamic", "--batch-wait-ms", "5"), ("--policy", "edf", "--length-predictor", "online"),
                      ("--policy", "mlfq", "--aging", "3"), ("--policy", "program", "--held-share", "0.5")):
            done = hasten("run", "-p", "x", "-n", "1", *right)
            self.assertEqual(done.returncode, 0, done.stderr)
        for flags, said in ((("--api-key", "K", "--no-prefix-cache"), "which --no-prefix-cache turns off: leave out one"),
                            ((), "--share-prefixes is of servers with keys, as without them all share: add --api-key")):
            done = hasten("serve", "--port", "0", "--share-prefixes", *flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""), flags)
            self.assertIn(said, done.stderr)
        done = hasten("simulate", "--machine", "a100", "--trace", "x.csv", "--prompt", "40")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--trace excludes --prompt", done.stderr)

    def test_limits_that_do_not_fit_together_are_an_error(self):
        done = hasten("run", "-p", "x", "--max-batch", "64", "--step-tokens", "16")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--max-batch is 64", done.stderr)
        self.assertIn("16", done.stderr)


class Run(unittest.TestCase):
    def test_prints_the_answer_and_nothing_else(self):
        done = hasten("run", "-p", "What is the capital of France?", "--temperature", "0")
        self.assertEqual((done.returncode, done.stdout), (0, "The capital of France is Paris.\n"))

    def test_model_from_a_file_is_the_same(self):
        done = hasten("run", MODEL, "-p", "What is the capital of France?", "--temperature", "0")
        self.assertEqual(done.stdout, "The capital of France is Paris.\n")

    def test_every_instruction_set_answers(self):
        for isa in json.loads(hasten("doctor", "--json").stdout)["isas"]:
            done = subprocess.run([PROGRAM, "run", "-p", "What is 23 + 48?", "--temperature", "0"],
                                  env={**os.environ, "HASTEN_CPU_ISA": isa}, capture_output=True, text=True,
                                  timeout=300, check=False)
            self.assertEqual(done.stdout, "23 + 48 = 71.\n", isa)

    def test_prompt_from_standard_input(self):
        done = hasten("run", "--temperature", "0", stdin="What is the capital of France?")
        self.assertEqual(done.stdout, "The capital of France is Paris.\n")
        done = hasten("run", "--raw", "-p", "", stdin="An empty prompt is one, too.")
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_a_prompt_that_is_not_utf8_is_for_raw(self):
        latin = os.fsdecode(b"caf\xe9")
        for arguments in (("-p", latin), ("-p", "x", "--system", latin)):
            done = hasten("run", *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"prompt is not UTF-8: byte \\xe9 at 3; convert it, or .*--raw")
        self.assertEqual(hasten("run", "--raw", "-n", "1", "-p", latin).returncode, 0)

    def test_empty_standard_input_is_an_error(self):
        done = hasten("run")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("standard input is empty", done.stderr)

    def test_chat_in_a_terminal_knows_its_commands(self):
        terminal, child = os.openpty()
        with subprocess.Popen([PROGRAM, "run", "--temperature", "0"], stdin=child, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL) as process:
            os.write(terminal, b"/help\nWhat is the capital of France?\n/clear\n/exit\n")
            try:
                text = process.communicate(timeout=60)[0]
            finally:
                process.kill()
            self.assertEqual(process.returncode, 0)
        os.close(child)
        os.close(terminal)
        self.assertRegex(text, r"(?s)> /clear begins .*> The capital of France is Paris\.\s+> Forgotten.*> $")

    def test_takes_another_chat_template(self):
        source = hasten("inspect", "--chat-template").stdout
        with tempfile.TemporaryDirectory() as folder:
            def run(name, text, *arguments):
                file = Path(folder) / name
                file.write_text(text)
                return hasten("run", "--chat-template", file, "-p", "France", "--temperature", "0", *arguments)
            capital = source.replace("message.content", "'What is the capital of ' + message.content + '?'")
            self.assertNotEqual(capital, source)
            self.assertEqual(run("capital.jinja", capital).stdout, "The capital of France is Paris.\n")
            self.assertEqual(run("capital.jinja", capital, MODEL).stdout, "The capital of France is Paris.\n")
            for name, text, said in (("broken.jinja", "{% if %}", r"the chat template of hasten-tiny \(broken.jinja\) does"
                                                                  " not parse: line 1"),
                                     ("empty.jinja", "", "empty.jinja is empty"),
                                     ("tokenizer_config.json", '{"chat_template": "x"}', "is JSON and no template: save")):
                done = run(name, text)
                self.assertEqual((done.returncode, done.stdout), (1, ""), name)
                self.assertRegex(done.stderr, said)
            done = hasten("run", "--chat-template", Path(folder) / "none.jinja", "-p", "x")
            self.assertRegex(done.stderr, "cannot open .*none.jinja.: No such file")
            self.assertEqual(done.returncode, 1)

    def test_stop_takes_one_value_each_and_leaves_the_model(self):
        done = hasten("run", "--stop", "x", "--stop", " of ", MODEL, "-p", "What is the capital of France?",
                      "--temperature", "0")
        self.assertEqual(done.stdout, "The capital\n")
        self.assertIn("there is no none", hasten("run", "-p", "x", "--stop", "x", "none").stderr)

    def test_seed_repeats_the_text(self):
        def story(seed):
            return hasten("run", "-p", "Tell me a story.", "--seed", seed, "--temperature", "1").stdout
        self.assertEqual(story(7), story(7))
        self.assertNotEqual(story(7), story(8))

    def test_special_tokens_of_a_raw_prompt_are_text_unless_asked_for(self):
        base = ("run", "--raw", "-p", "<|im_start|>user\nHi<|im_end|>\n", "-n", 1, "--json")
        inert, special = (json.loads(hasten(*base, *flags).stdout)["prompt_tokens"] for flags in ((), ("--special",)))
        ids = [json.loads(hasten("tokenize", "", base[3], "--json", *flags).stdout) for flags in ((), ("--special",))]
        self.assertEqual((inert, special), (len(ids[0]), len(ids[1])))
        self.assertLess(special, inert)
        done = hasten("run", "-p", "x", "--special")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--special requires --raw", done.stderr)

    def test_a_chat_in_a_terminal_is_not_raw(self):
        terminal, child = os.openpty()
        done = subprocess.run([PROGRAM, "run", "--raw", "--special"], stdin=child, capture_output=True, text=True,
                              timeout=60, check=False)
        os.close(child)
        os.close(terminal)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("for --raw, give a prompt with -p or on standard input", done.stderr)

    def test_json(self):
        answer = json.loads(hasten("run", "-p", "Tell me a story.", "--json", "-n", "5").stdout)
        self.assertEqual((answer["completion_tokens"], answer["cached_tokens"], answer["finish"]), (5, 0, "length"))
        self.assertNotRegex(hasten("bench", "machine", "--json").stdout, r"\dE\d")


class Text(unittest.TestCase):
    def test_tokenize(self):
        ids = json.loads(hasten("tokenize", MODEL, "Once upon a time", "--json").stdout)
        self.assertEqual(ids, [721, 674, 257, 469])
        self.assertEqual(json.loads(hasten("tokenize", "--json", stdin="Once upon a time").stdout), ids)

    def test_tokenize_needs_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
            (Path(folder) / "merges.txt").write_text("#version: 0.2\na b\n")
            self.assertEqual(json.loads(hasten("tokenize", folder, "aba", "--json").stdout), [2, 0])
            (Path(folder) / "model.gguf").touch()
            self.assertEqual(json.loads(hasten("tokenize", folder, "aba", "--json").stdout), [2, 0])
            (Path(folder) / "merges.txt").write_text("ab\n")
            self.assertIn("merge 0", hasten("tokenize", folder, "aba").stderr)

    def test_tokenize_takes_the_tokenizer_beside_a_gguf(self):
        for name in ("tokenizer.json", "tekken.json", "tokenizer.model", "vocab.json", "vocab.txt", "a.tiktoken",
                     "tiktoken.model", "rwkv_vocab_v1.txt"):
            with tempfile.TemporaryDirectory() as folder:
                for file in ("model.gguf", "README.md", "LICENSE.txt"):
                    (Path(folder) / file).touch()
                self.assertIn("is a folder of GGUF files", hasten("tokenize", folder, "x").stderr)
                (Path(folder) / name).touch()  # what is wrong with it comes to light when it is read
                self.assertNotIn("folder of GGUF files", hasten("tokenize", folder, "x").stderr, name)
                self.assertIn("is a folder of GGUF files", hasten("run", folder, "-p", "x").stderr)

    def test_tokenize_files(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = Path(folder) / "one", Path(folder) / "two"
            one.write_text("Once upon a time")
            two.write_text("Once upon a time " * 200_000)
            done = hasten("tokenize", MODEL, "--file", one, "--file", two, "--json")
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(lines[0], [721, 674, 257, 469])
            alone = hasten("tokenize", MODEL, "--file", two, "--json", "--threads", 1).stdout
            self.assertEqual(lines[1], json.loads(alone))
            counted = hasten("tokenize", "--file", one, "--file", two).stdout.splitlines()
            self.assertEqual(counted[0], f"{one}: 4 tokens, 16 bytes")
            self.assertEqual(counted[1], f"{two}: {len(lines[1])} tokens, 3400000 bytes")
            self.assertEqual(hasten("tokenize", "--file", one, MODEL).stdout, f"{one}: 4 tokens, 16 bytes\n")
            red = one.rename(Path(folder) / "\x1b[31mred")
            self.assertEqual(hasten("tokenize", "--file", red).stdout, f"{folder}/\ufffd[31mred: 4 tokens, 16 bytes\n")
        for name in ("none", ""):
            self.assertIn(f"cannot open '{name}': No such file", hasten("tokenize", "--file", name).stderr)
        self.assertIn("not both", hasten("tokenize", MODEL, "text", "--file", "x").stderr)
        done = hasten("tokenize", MODEL, "text", "--threads", 3)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "hasten: --threads requires --file; see 'hasten tokenize --help'\n")

    def test_special_tokens_are_text_unless_asked_for(self):
        inert = json.loads(hasten("tokenize", MODEL, "<|im_end|>", "--json").stdout)
        special = json.loads(hasten("tokenize", MODEL, "<|im_end|>", "--json", "--special").stdout)
        self.assertGreater(len(inert), 1)
        self.assertEqual(len(special), 1)

    def test_perplexity(self):
        done = hasten("perplexity", "--file", ROOT / "tests/golden/synthetic-heldout.txt", "--tokens", 8193,
                      "--json")
        result = json.loads(done.stdout)
        self.assertEqual(result["tokens"], 8192)
        self.assertAlmostEqual(result["perplexity"], 1.32147, delta=0.0132)

    def test_perplexity_fits_its_windows_into_the_context(self):
        heldout = ROOT / "tests/golden/synthetic-heldout.txt"
        done = hasten("perplexity", "--file", heldout, "--tokens", 300, "--ctx", 128, "--json")
        self.assertEqual(json.loads(done.stdout)["tokens"], 299)
        done = hasten("perplexity", "--file", heldout, "--ctx", 128, "--window", 127)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ctx is 128: a window of 127 predicted tokens takes 129 tokens", done.stderr)

    def test_perplexity_of_what_is_no_utf8_warns(self):
        with tempfile.NamedTemporaryFile() as text:
            text.write(b"Once upon a time in the Stra\xdfe")
            text.flush()
            done = hasten("perplexity", "--file", text.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is not UTF-8 from byte 28 on", done.stderr)


class Models(unittest.TestCase):
    def test_inspect(self):
        result = json.loads(hasten("inspect", MODEL, "--json").stdout)
        self.assertEqual((result["architecture"], result["vocabulary"], result["tensors"]), ("llama", 2048, 47))
        self.assertIn("tools", result["template_capabilities"])
        self.assertIn("token_embd.weight", hasten("inspect", MODEL, "--tensors").stdout)
        self.assertEqual([result[key] for key in ("layers", "width", "heads", "kv_heads")], [5, 256, 4, 2])
        self.assertRegex(hasten("inspect", MODEL).stdout, r"context +\d+ tokens\nlayers +\d+\nwidth +256\nheads +\d+\n")
        built_in = json.loads(hasten("inspect", "--json").stdout)
        tokenizer = {**result["tokenizer"], "file": "hasten-tiny"}
        self.assertEqual({**result, "path": "hasten-tiny", "tokenizer": tokenizer}, built_in)
        self.assertIn("llama.rope.freq_base = 10000\n", hasten("inspect", "--metadata").stdout)

    def test_inspect_shows_no_control_characters_of_a_file(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as odd:
            odd.write(MODEL.read_bytes().replace(b"output_norm.weight", b"output\x1b[2J\xc2\x9b\xff.weig", 1)
                      .replace(b"general.license", b"general\x1b]0;\xffee\x07", 1))
            odd.flush()
            for arguments in (("--tensors", "--metadata"), ("--json",)):
                done = subprocess.run([PROGRAM, "inspect", odd.name, *arguments], capture_output=True, timeout=300,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                text = done.stdout.decode()  # which throws for what is no UTF-8
                self.assertIn("output\ufffd[2J\ufffd\ufffd.weig", text)
                self.assertIn("general\ufffd]0;\ufffdee\ufffd", text)
                self.assertFalse(set(text) & {"\x1b", "\x07", "\x9b"})

    def test_synth_then_use_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tiny.gguf"
            done = hasten("synth", "--shape", "tiny-llama", "--type", "q4_0", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(hasten("run", path, "-p", "x", "--json", "-n", "4").stdout)
            self.assertGreaterEqual(answer["completion_tokens"], 1)
            asked = ("--raw", "-p", "x", "-n", "32", "--temperature", "0", "--kv-cache", "1MiB")
            self.assertEqual(hasten("run", path, *asked, "--no-repack").stdout, hasten("run", path, *asked).stdout)
            self.assertEqual(hasten("synth", "--shape", "tiny-qwen3", path).returncode, 0)

    def test_synth_overwrites_no_other_file(self):
        with tempfile.TemporaryDirectory() as folder:
            thesis = Path(folder) / "thesis.txt"
            for text in ("The work of a year.", "abc"):
                thesis.write_text(text)
                done = hasten("synth", "--shape", "tiny-llama", thesis)
                self.assertEqual((done.returncode, thesis.read_text()), (1, text))
                self.assertIn(f"{thesis} is there and is not a GGUF file", done.stderr)
            thesis.write_text("")
            self.assertEqual(hasten("synth", "--shape", "tiny-llama", thesis).returncode, 0)


class Measure(unittest.TestCase):
    def test_bench_prints_limits_and_fractions(self):
        done = hasten("bench", "--prompt", "64", "--gen", "4", "--batch", "1,2", "--repeat", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual([(r["test"], r["batch"]) for r in report["results"]],
                         [("prefill", 1), ("decode", 1), ("decode", 2)])
        for result in report["results"]:
            self.assertGreater(result["tokens_per_second"], 0)
            self.assertAlmostEqual(result["fraction"],
                                   result["tokens_per_second"] / result["limit_tokens_per_second"])
            self.assertEqual(result["fractions"], [result["fraction"]])
            self.assertIn(result["bound"], ("memory", "compute"))
        self.assertGreater(report["machine"]["read_bytes_per_second"], 1e8)
        self.assertGreaterEqual(report["machine"]["best_read_bytes_per_second"],
                                report["machine"]["read_bytes_per_second"])

    def test_bench_reports_the_median_of_the_rounds_fractions(self):
        for rounds in (2, 3):
            done = hasten("bench", "--prompt", "16", "--gen", "4", "--repeat", rounds, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            for result in json.loads(done.stdout)["results"]:
                self.assertEqual(len(result["fractions"]), rounds)
                self.assertAlmostEqual(result["fraction"], statistics.median(result["fractions"]))

    def test_bench_reads_memory_while_it_decodes(self):
        done = hasten("bench", "--prompt", "16", "--gen", "700", "--repeat", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        prefill, decode = json.loads(done.stdout)["results"]
        self.assertEqual(prefill["memory_readings"], 0)
        # One every 40 ms of its own time.
        expected = 700 / decode["tokens_per_second"] / 0.04
        self.assertGreater(decode["memory_readings"], 0)
        self.assertLessEqual(decode["memory_readings"], expected + 1)  # fewer where steps are long

    def test_bench_takes_a_model_behind_the_batches(self):
        self.assertIn("there is no none", hasten("bench", "--batch", "1,4", "none").stderr)

    def test_what_may_be_repeated_takes_one_value_each_and_leaves_the_model(self):
        for flag in ("--model-name", "--api-key", "--cors-origin", "--allowed-host"):
            done = hasten("serve", flag, "x", flag, "y", "none")
            self.assertIn("there is no none", done.stderr, flag)
            self.assertEqual(done.returncode, 1, flag)

    def test_bench_replay_answers_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(
                f'{{"timestamp": {20 * i}, "input_length": {100 + i}, "output_length": {1 + i}, "hash_ids": [0]}}\n'
                for i in range(8)) + '{"timestamp": 200, "input_length": 9000, "output_length": 1}\n')
            done = hasten("bench", "replay", "--trace", trace, "--ctx", "256", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            result = report["result"]
            self.assertEqual((result["requests"], result["finished"]), (9, 8))
            self.assertEqual(result["failures"], {"longer than the context of 256 tokens": 1})
            self.assertEqual(result["output_tokens"], sum(range(1, 9)))
            self.assertEqual(result["prompt_tokens"], sum(range(100, 108)))
            self.assertEqual(result["tpot_ms"]["count"], 7)
            self.assertEqual(result["tbt_ms"]["count"], result["output_tokens"] - 8)
            self.assertGreaterEqual(result["duration_seconds"], 0.2)
            self.assertLessEqual(result["ttft_ms"]["p50"], result["ttft_ms"]["max"])
            self.assertGreater(result["limits"]["output_tokens_per_second"], 0)
            text = hasten("bench", "replay", "--users", "2", "--requests", "4", "--prompt", "20", "--gen", "5").stdout
            self.assertIn("4 requests of 20 + 5 tokens, closed loop of 2 users", text)
            self.assertIn("4 requests answered", text)
            self.assertRegex(text, r"TTFT( +[\d.]+){6}\n")
            self.assertRegex(text, r"output tokens/s \(limit of output tokens for this work [\d.]+: \d+ %\)\n")
            text = hasten("bench", "replay", "--rate", "50", "--requests", "4", "--prompt", "20", "--gen", "5").stdout
            self.assertRegex(text, r"\d %; an open loop answers no more than arrives\)\n")

    def test_simulate_answers_from_peaks_and_from_a_calibration(self):
        with tempfile.TemporaryDirectory() as folder:
            costs = Path(folder) / "costs.json"
            workload = ("--users", "4", "--requests", "12", "--prompt", "40", "--gen", "10")
            replayed = hasten("bench", "replay", *workload, "--calibrate", costs, "--json")
            self.assertEqual(replayed.returncode, 0, replayed.stderr)
            simulated = hasten("simulate", "--machine", costs, *workload, "--json")
            self.assertEqual(simulated.returncode, 0, simulated.stderr)
            for report in map(json.loads, (replayed.stdout, simulated.stdout)):
                self.assertEqual(report["result"]["finished"], 12)
                self.assertEqual(report["result"]["output_tokens"], 120)
            self.assertIn("fitted to measured steps", report["basis"])
            whole = costs.read_text()
            for part, field, value, said in (
                    ("sizes", "block_size", 0, "sizes.block_size is 0; it must be from 1 to 65536"),
                    ("sizes", "num_kv_blocks", 1 << 31, "sizes.num_kv_blocks is 2147483648; it must be from 1 to"),
                    ("model", "kv_bytes_per_token", 1 << 62, "model.kv_bytes_per_token is 4.6"),
                    ("costs", "base_us", 1e17, "costs.base_us is 1e+17; it must be from 0 to 1000000000"),
                    ("costs", "us_per_token", "2", "costs.us_per_token is no number"),
                    ("costs", "base_us", None, "costs.base_us is missing")):
                calibration = json.loads(whole)
                calibration[part][field] = value
                if value is None:
                    del calibration[part][field]
                costs.write_text(json.dumps(calibration))
                broken = hasten("simulate", "--machine", costs, "--kv-cache", "1G")
                self.assertEqual((broken.returncode, broken.stdout), (1, ""), broken.stderr)
                self.assertIn(said, broken.stderr)
            # One of before int4 was measured is still good.
            older = json.loads(whole)
            del older["ceilings"]["int4_ops_per_second"]
            costs.write_text(json.dumps(older))
            known = hasten("simulate", "--machine", costs, "--kv-cache", "1G", "--requests", "4")
            self.assertEqual(known.returncode, 0, known.stderr)
            trace = Path(folder) / "texts.jsonl"
            trace.write_text('{"prompt": "a", "prompt_tokens": 1}\n\n{"prompt": "b"}\n')
            untold = hasten("simulate", "--machine", costs, "--trace", trace)
            self.assertIn("line 3 of the trace has a prompt without prompt_tokens: a simulation has", untold.stderr)
            for error, warns in ((0.57, True), (0.19, False)):
                costs.write_text(json.dumps({**json.loads(whole), "mean_error": error}))
                known = hasten("simulate", "--machine", costs, "--kv-cache", "1G", "--requests", "4")
                self.assertEqual("error is 57 %, and what it predicts will be as far off" in known.stderr, warns, known.stderr)
            costs.write_text(whole)
            none = hasten("simulate", "--machine", costs, "--prompt", 1 << 24, "--requests", "1000")
            self.assertEqual(none.returncode, 1, none.stderr)
            self.assertIn("1000 failed: longer than the context of ", none.stdout)
            for table in ("TTFT", "tokens/s", "steps of", "requests an hour"):
                self.assertNotIn(table, none.stdout)
            for flag in (("--shape", "llama-3.1-8b"), ("--type", "q4_0"), ("--efficiency", "0.6")):
                measured = hasten("simulate", "--machine", costs, *flag)
                self.assertEqual((measured.returncode, measured.stdout), (2, ""), measured.stderr)
                self.assertIn(f"{flag[0]} is of machines by their peaks", measured.stderr)
            # Too few steps for a fit: the results are there all the same, and so is the old file.
            few = hasten("bench", "replay", "--requests", "1", "--gen", "2", "--calibrate", costs)
            self.assertEqual(few.returncode, 1, few.stderr)
            self.assertIn("1 request answered", few.stdout)
            self.assertIn("a fit takes at least 16", few.stderr)
            self.assertEqual(costs.read_text(), whole)
            costs.unlink()
            hasten("bench", "replay", "--requests", "1", "--gen", "2", "--calibrate", costs)
            self.assertFalse(costs.exists(), "an empty file is no calibration")
            nowhere = hasten("bench", "replay", "--calibrate", Path(folder) / "no" / "folder")
            self.assertEqual((nowhere.returncode, nowhere.stdout), (1, ""))
            self.assertIn("cannot write", nowhere.stderr)
        card = ("simulate", "--machine", "h200", "--shape", "llama-3.1-8b", "--type", "bf16", "--users", "1",
                "--requests", "1", "--gen", "2")
        result = json.loads(hasten(*card, "--efficiency", "1", "--json").stdout)["result"]
        # 7.5 G of weights in 16 bits, at 4.8 TB/s.
        self.assertAlmostEqual(result["tbt_ms"]["max"], 3.15, delta=0.05)
        self.assertIn("SIMULATED: llama-3.1-8b, bf16 on H200-like", hasten(*card).stdout)
        for flags, said in ((("--machine", "abacus"), "neither here, a100, h200 nor a file"),
                            (("--machine", "a100", "--shape", "x"), "--shape x is unknown"),
                            (("--machine", "a100", "--max-batch", "9", "--step-tokens", "8"), "--max-batch is 9")):
            done = hasten("simulate", *flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(said, done.stderr)

    def test_simulate_checks_its_memory_before_it_runs(self):
        for flags, said in (
                (("--kv-cache", "1MiB"), "of 576 tokens take 18.0 MiB, but the cache has 1.0 MiB, enough for 32 tokens: raise --kv-cache"),
                (("--kv-cache", "1KiB"), "but the cache has 1.0 KiB, enough for 0 tokens"),
                (("--kv-cache", "32MiB", "--ctx", "4096"), "of 4096 tokens take 128.0 MiB, but the cache has 32.0 MiB, enough for "
                                                           "1024 tokens: lower --ctx or raise --kv-cache")):
            done = hasten("simulate", "--machine", "a100", *flags)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn(said, done.stderr)

    def test_replay_without_an_answer_prints_no_table(self):
        done = hasten("bench", "replay", "--ctx", "64", "--requests", "3", "--prompt", "100")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("3 failed: longer than the context of 64 tokens", done.stdout)
        for table in ("TTFT", "tokens/s", "steps,"):
            self.assertNotIn(table, done.stdout)

    AGENTS = ("bench/scheduler/programs.py", "--gap-ms", "2000", "--longest", "30", "--calls-known")

    def test_programs_wait_for_their_calls(self):
        """Replayed and simulated; one fails with all that was to follow it."""
        lines = [{"time_s": 0, "prompt_tokens": 40, "output_tokens": 5, "program_id": "a", "blocks": [1]},
                 {"pause_ms": 300, "prompt_tokens": 60, "output_tokens": 5, "program_id": "a", "blocks": [1]},
                 {"time_s": 0.1, "prompt_tokens": 30, "output_tokens": 5},
                 {"time_s": 0.2, "prompt_tokens": 900, "output_tokens": 5, "program_id": "b"},
                 {"pause_ms": 3, "prompt_tokens": 60, "output_tokens": 5, "program_id": "b"}]
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            flags = ("--trace", trace, "--ctx", "256", "--policy", "program", "--json")
            for command in (("bench", "replay"), ("simulate", "--machine", "a100")):
                done = hasten(*command, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                result = json.loads(done.stdout)["result"]
                self.assertEqual(result["failures"], {"longer than the context of 256 tokens": 1, "the call before it failed": 1})
                self.assertEqual(result["programs"]["finished"], 2)
                self.assertGreaterEqual(result["programs"]["ms"]["max"], 300)
                self.assertEqual(result["cached_tokens"], 32)
            self.assertIn("leave it out", hasten("bench", "replay", "--users", "2", *flags).stderr)

    def test_calls_that_have_times_of_their_own_are_one_program(self):
        lines = [{"time_s": 0.1 * i, "prompt_tokens": 9, "output_tokens": 3, "program_id": "a"} for i in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            for command in (("bench", "replay"), ("simulate", "--machine", "a100")):
                programs = json.loads(hasten(*command, "--trace", trace, "--json").stdout)["result"]["programs"]
                self.assertEqual(programs["finished"], 1)
                self.assertGreaterEqual(programs["ms"]["max"], 300)

    def test_programs_are_served_sooner(self):
        """Agents with little memory: as docs/performance.md says."""
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "agents.jsonl"
            with trace.open("w") as file:
                subprocess.run([sys.executable, ROOT / self.AGENTS[0], *self.AGENTS[1:]], stdout=file, check=True)
            mean = {}
            for policy, share in (("fcfs", 0), ("fcfs", 0.25), ("program", 0), ("program", 0.25)):
                report = json.loads(hasten(
                    "simulate", "--machine", "a100", "--shape", "llama-3.1-8b", "--type", "bf16", "--trace", trace,
                    "--kv-cache", "8GiB", "--ctx", "65536", "--max-batch", "64", "--policy", policy,
                    "--held-share", share, "--json").stdout)
                mean[policy, share] = report["result"]["programs"]["ms"]["mean"]
            self.assertLess(mean["program", 0], 0.6 * mean["fcfs", 0])
            self.assertLess(mean["fcfs", 0.25], 0.9 * mean["fcfs", 0])
            self.assertLess(mean["program", 0.25], 0.9 * mean["program", 0])

    def test_policies_are_compared_with_what_they_refuse(self):
        done = subprocess.run([sys.executable, ROOT / "bench/policies.py", PROGRAM, MODEL, "--requests", "30"],
                              capture_output=True, text=True, timeout=300, check=True)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[2], " of b, ms +deadlines met +refused$")
        row = lines[-1].split()
        self.assertEqual((row[0], len(row)), ("edf", 12))
        for deadlines_met, refused in (row[8::2], row[9::2]):
            self.assertLessEqual(int(deadlines_met) + int(refused), 30)

    def test_a_flood_of_one_tenant_leaves_what_others_have_cached(self):
        """Replayed and simulated, in a cache of 64 blocks, of which each prompt takes 13."""
        asked = [("quiet", 0), *(("flood", i) for i in range(1, 11)), ("quiet", 0)]
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps(
                {"time_s": 0, "prompt_tokens": 200, "output_tokens": 2, "tenant": tenant, "blocks": [block]}) + "\n"
                for tenant, block in asked))
            flags = ("--trace", trace, "--ctx", "256", "--max-batch", "1", "--json")
            for command in (("bench", "replay"), ("simulate", "--machine", "a100", "--shape", "llama-3.1-8b", "--type",
                                                  "bf16", "--kv-cache", "128MiB")):
                for share, cached in (((), 192), (("--tenant-cache-share", "1"), 0)):
                    done = hasten(*command, *flags, *share)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertAlmostEqual(json.loads(done.stdout)["result"]["cached_tokens"], cached, delta=7)

    def test_simulated_cache_has_what_one_without_bounds_has(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            # Conversations of five turns; each begins with one of three system prompts.
            lines = [{"timestamp": 3000 * (20 * turn + user), "input_length": 600 * (turn + 2), "output_length": 9,
                      "hash_ids": [user % 3] + [100 * user + block for block in range(1, turn + 3)]}
                     for turn in range(5) for user in range(20)]
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            report = json.loads(hasten("simulate", "--machine", "a100", "--trace", trace, "--json").stdout)
            self.assertGreater(report["reusable_fraction"], 0.5)
            self.assertAlmostEqual(report["cached_fraction"], report["reusable_fraction"], delta=0.02)
            # Beginnings that are no whole blocks, and requests that are too long for any answer.
            lines = [{"timestamp": 9000 * i, "input_length": 512 * blocks - 300, "output_length": 60,
                      "hash_ids": [i % 2] + [100 * i + block for block in range(1, blocks)]}
                     for i in range(60) for blocks in (2 if i % 3 else 18,)]
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            report = json.loads(hasten("simulate", "--machine", "a100", "--trace", trace, "--scale-lengths", "0.033",
                                       "--ctx", "128", "--json").stdout)
            self.assertEqual(report["result"]["finished"], 40)
            self.assertLessEqual(report["cached_fraction"], report["reusable_fraction"])
            self.assertAlmostEqual(report["cached_fraction"], report["reusable_fraction"], delta=0.05)  # of the last block
        mooncake = SHARED / "data/traces/mooncake/conversation_trace.jsonl"
        if not mooncake.exists():
            self.skipTest(f"{mooncake} is not there")
        report = json.loads(hasten("simulate", "--machine", "h200", "--trace", mooncake, "--requests", 1500,
                                   "--ctx", 131072, "--kv-cache", "8TiB", "--json").stdout)
        self.assertAlmostEqual(report["cached_fraction"], report["reusable_fraction"], delta=0.02)

    def test_ladder_climbs(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            lines = [{"prompt_tokens": 30 + 7 * i % 40, "output_tokens": 2 + 11 * i % 50} for i in range(24)]
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            done = hasten("bench", "ladder", "--quantized", MODEL, "--trace", trace, "--users", 24, "--rounds", 3,
                          "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            rungs = report["rungs"]
            self.assertEqual(len(rungs), 7)
            for rung in rungs:
                self.assertEqual(rung["result"]["finished"], 24)
                self.assertGreater(rung["predicted_gain"], 0)
                speeds = rung["tokens_per_second_of_rounds"]
                self.assertEqual(len(speeds), 3)
                self.assertAlmostEqual(speeds[1], rung["result"]["output_tokens_per_second"], places=3)
            self.assertGreater(rungs[0]["kv_unused_fraction"], 0.3)
            self.assertLess(rungs[2]["kv_unused_fraction"], 0.3)
            self.assertGreater(rungs[1]["predicted_gain"], 1.1)
            self.assertGreater(rungs[2]["sequences_at_a_time"], rungs[1]["sequences_at_a_time"])
            table = hasten("bench", "ladder", "--simulate", "a100", "--kv-cache", "1GiB", "--trace", trace,
                           "--rounds", 3).stdout
            self.assertIn("of 3 rounds, for each rung the one with the median", table)
            self.assertIn("SIMULATED: llama-3.1-8b, A100-like", table)
            for name in ("static, contiguous", "+ paging", "+ quantised weights", "speculation", "not there yet"):
                self.assertIn(name, table)

    def test_ladder_promises_the_longest_request_of_the_whole_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            lengths = [(60, 4), (80, 6), (70, 4), (3000, 1000)]
            trace.write_text("".join(json.dumps({"prompt_tokens": p, "output_tokens": o}) + "\n" for p, o in lengths))
            report = json.loads(hasten("bench", "ladder", "--simulate", "h200", "--kv-cache", "64GiB", "--trace", trace,
                                       "--requests", 3, "--scale-lengths", 0.5, "--json").stdout)
            self.assertEqual(report["workload"]["requests"], 3)
            self.assertRegex(report["rungs"][0]["reason"], "^memory for .* sequences of 2001 tokens$")

    def test_ladder_has_memory_for_as_many_contexts_as_asked(self):
        for contexts in (1, 3):
            for flags in ((), ("--simulate", "h200")):
                done = hasten("bench", "ladder", "--kv-contexts", contexts, "--requests", 4, "--prompt", 20, "--gen", 4,
                              "--ctx", 100, *flags, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                rungs = json.loads(done.stdout)["rungs"]
                self.assertEqual([rung["sequences_at_a_time"] for rung in rungs[:2]], [contexts] * 2, (contexts, flags))

    def test_ladder_leaves_the_step_of_warm_up_out(self):
        done = hasten("bench", "ladder", "--requests", 1, "--prompt", 63, "--gen", 1, "--ctx", 64, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rungs = json.loads(done.stdout)["rungs"]
        self.assertLess(rungs[0]["kv_unused_fraction"], 0.02)  # a single step has all but a token of the context

    def test_ladder_says_how_many_failed_on_each_rung(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps({"prompt_tokens": prompt, "output_tokens": 4}) + "\n"
                                     for prompt in (20, 90, 20, 80)))
            for flags, num_rungs in (((), 6), (("--simulate", "h200"), 7)):
                base = ("bench", "ladder", "--trace", trace, "--ctx", 64, *flags)
                self.assertEqual(hasten(*base).stdout.count("\n  2 requests failed: longer than the context of 64 tokens (2)\n"), num_rungs, flags)
                self.assertEqual(hasten(*base, "--rounds", 2).stdout.count(
                    "\n  4 requests failed in 2 rounds: longer than the context of 64 tokens (4)\n"), num_rungs, flags)
        self.assertNotIn("failed", hasten("bench", "ladder", "--simulate", "h200", "--requests", 2).stdout)

    def test_ladder_refuses_before_the_first_rung(self):
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / "other.gguf"
            hasten("synth", "--shape", "tiny-qwen2", "--type", "q8_0", other)
            for flags, said in (
                    (("--quantized-kv", "foo"), '--quantized-kv "foo" is unknown; known: auto, f32'),
                    (("--simulate", "h200", "--quantized-kv", "q8_0/foo"), '--quantized-kv "q8_0/foo" is unknown'),
                    (("--shape", "llama-3.1-8b"), "--shape is of simulations: add --simulate MACHINE, or leave it out"),
                    (("--quantized-type", "q8_0"), "--quantized-type is of simulations"),
                    (("--efficiency", "0.6"), "--efficiency is of simulations"),
                    (("--simulate", "h200", MODEL), "a simulation reads no MODEL"),
                    (("--simulate", "h200", "--quantized", MODEL), "a simulation reads no --quantized MODEL"),
                    (("--simulate", "h200", "--threads", "2"), "--threads is of the engine of this process"),
                    (("--simulate", "abacus"), "--simulate abacus is none of here, a100, h200"),
                    (("--kv-contexts", 2, "--kv-cache", "1GiB"), "--kv-contexts and --kv-cache both say how much memory"),
                    (("--simulate", "h200", "--quantized-type", "q9"), "--quantized-type q9 is unknown"),
                    (("--quantized", other), f"of {other} is ")):
                done = hasten("bench", "ladder", "--requests", "5", *flags)
                self.assertEqual((done.returncode, done.stdout), (2, ""), (flags, done.stderr))
                self.assertIn(said, done.stderr)
        done = hasten("bench", "ladder", "--simulate", "a100", "--kv-cache", "1MiB", "--requests", "5")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("of 577 tokens take 72.1 MiB, but the cache has 1.0 MiB, enough for 0 tokens", done.stderr)
        done = hasten("bench", "ladder", "--simulate", "a100", "--kv-contexts", 1024, "--ctx", 2**40, "--requests", 5)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("lower --ctx: no more can be simulated", done.stderr)

    def test_simulated_ladder_keeps_keys_and_values_as_asked(self):
        for kv_type, size in (("q8_0", "68.0 KiB"), ("q4_0", "36.0 KiB"), ("q8_0/q4_0", "52.0 KiB"), ("bf16", "128.0 KiB")):
            table = hasten("bench", "ladder", "--simulate", "h200", "--quantized-kv", kv_type, "--requests", "5").stdout
            self.assertIn(f"{size} for each token's keys and values", table)

    def test_ladder_warns_of_a_context_once(self):
        done = hasten("bench", "ladder", "--requests", "2", "--prompt", "20", "--gen", "4", "--ctx", "8192")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("but the model was trained for"), 1, done.stderr)

    def test_bench_flags_that_do_not_fit_are_named(self):
        for arguments, said in (
                (("replay", "--users", "2", "--rate", "1"), "--users makes a closed loop and --rate an open one"),
                (("replay", "--cv", "2"), "give a --rate, too"),
                (("replay", "--speed", "2"), "--speed is for the trace's own times"),
                (("replay", "--batch", "2"), "--batch is taken as a flag of bench, not of replay: write it behind replay, if it is for that"),
                ((MODEL, "ladder"), "tiny-bf16.gguf is taken as MODEL of bench, not of ladder: MODEL stands behind ladder"),
                (("serve", "--url", "https://x"), "there is no TLS here"),
                (("serve", "--chat", "--token-ids", "9"), "--token-ids is for /v1/completions"),
                (("replay", "--trase", "x"), "there is no flag --trase; the nearest is --trace; see 'hasten bench replay")):
            done = hasten("bench", *arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(said, done.stderr)
        done = hasten("bench", "replay", "--trace", MODEL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no trace", done.stderr)

    def test_bench_machine(self):
        ceilings = json.loads(hasten("bench", "machine", "--threads", "3", "--json").stdout)
        self.assertGreater(ceilings["int8_ops_per_second"], 1e8)
        self.assertGreaterEqual(ceilings["int4_ops_per_second"], ceilings["int8_ops_per_second"])
        self.assertEqual([row["threads"] for row in ceilings["by_threads"]], [1, 2, 3])
        self.assertGreater(ceilings["barrier_us"], 0)
        self.assertRegex(hasten("bench", "machine", "--threads", "1").stdout, r"threads .* barrier\n +1 ")

    def test_bench_load(self):
        done = hasten("bench", "load", MODEL, "--threads", "2", "--repeat", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(len(report["fractions"]), 3)
        self.assertAlmostEqual(report["fraction"], statistics.median(report["fractions"]))
        self.assertGreater(report["packed_bytes"], MODEL.stat().st_size / 2)
        self.assertLess(report["packed_bytes"], MODEL.stat().st_size)
        self.assertGreater(report["ready_seconds"], report["weights_seconds"])
        for number in ("weights_seconds", "copy_seconds", "limit_seconds", "copy_fraction"):
            self.assertGreater(report[number], 0, number)
        self.assertRegex(hasten("bench", "load", MODEL, "--repeat", "1").stdout,
                         r"weights +[\d.]+ +[\d.]+ +\d+ %\ncopy +[\d.]+ +[\d.]+ +\d+ %\nready +[\d.]+\n$")
        done = hasten("bench", "load")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("hasten bench load MODEL", done.stderr)

    def test_doctor(self):
        report = json.loads(hasten("doctor", "--json").stdout)
        self.assertGreater(report["memory_bytes"], 0)
        # Its output is its embedding: a token reads all that lies in memory.
        (tied,) = [m for m in report["models"] if (m["shape"], m["type"]) == ("llama-3.2-1b", "q4_0")]
        self.assertAlmostEqual(tied["decode_limit_tokens_per_second"] * tied["bytes"] / report["read_bytes_per_second"], 1)
        self.assertIn("tokens/s", hasten("doctor").stdout)


class Serve(unittest.TestCase):
    @contextlib.contextmanager
    def serving(self, *arguments, log=subprocess.DEVNULL):
        """The process of a server and its whole banner."""
        process = subprocess.Popen([PROGRAM, "serve", "--port", "0", *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=log, text=True)
        try:
            banner = ""
            while "Ctrl-C" not in banner:
                line = process.stdout.readline()
                self.assertTrue(line, "the server ended: " + banner)
                banner += line
            yield process, banner
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def url(self, banner):
        return re.search(r"http://127\.0\.0\.1:\d+", banner).group(0)

    def post(self, banner, route, body):
        """Status and JSON of the answer."""
        request = urllib.request.Request(f"{self.url(banner)}{route}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def test_bench_serve_loads_a_server(self):
        with self.serving("--api-key", "k") as (_, banner):
            base = ("bench", "serve", "--url", self.url(banner), "--requests", "6", "--prompt", "30", "--gen", "8")
            for flags in (("--users", "3"), ("--rate", "50", "--chat"), ("--rate", "50", "--cv", "2", "--token-ids", "400")):
                done = hasten(*base, *flags, "--api-key", "k", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stdout)
                self.assertEqual((report["result"]["finished"], report["result"]["failed"]), (6, 0), report)
                self.assertEqual(report["result"]["output_tokens"], 48)
                self.assertGreaterEqual(report["result"]["prompt_tokens"], 180)
                self.assertGreater(report["result"]["e2e_ms"]["p50"], 0)
            self.assertEqual(report["result"]["prompt_tokens"], 180)  # ids are exact
            with tempfile.TemporaryDirectory() as folder:
                trace = Path(folder) / "trace.jsonl"
                trace.write_text("".join(json.dumps(
                    {"time_s": 0, "prompt_tokens": 9, "output_tokens": 2, "tenant": tenant}) + "\n" for tenant in "aba"))
                done = hasten("bench", "serve", "--url", self.url(banner), "--api-key", "k", "--trace", trace, "--json")
                tenants = json.loads(done.stdout)["result"]["tenants"]
                self.assertEqual({name: of["e2e_ms"]["count"] for name, of in tenants.items()}, {"a": 2, "b": 1})
            refused = hasten(*base, "--users", "1", "--model-name", "m", "--json")
            self.assertEqual(refused.returncode, 1)
            self.assertEqual(json.loads(refused.stdout)["result"]["failures"], {"HTTP 401": 6})
            self.assertIn("6 of 6 requests failed; the first: HTTP 401: ", refused.stderr)
            for stderr in (refused.stderr, hasten(*base).stderr):
                self.assertIn(" (give the server's key with --api-key KEY or in the variable HASTEN_API_KEY)", stderr)
            self.assertIn("/v1/models: HTTP 401", hasten(*base).stderr)

    @contextlib.contextmanager
    def answering(self, usage):
        """The address of a server that answers "a" to all, with that usage, and the bodies that it was sent."""
        bodies = []

        class Recorder(http.server.BaseHTTPRequestHandler):
            def log_message(self, *arguments):
                pass

            def answer(self, kind, text):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def do_GET(self):
                self.answer("application/json", '{"data": [{"id": "m"}]}')

            def do_POST(self):
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                event = {"choices": [{"text": "a"}], "usage": usage}
                self.answer("text/event-stream", f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}", bodies
            server.shutdown()

    def test_bench_serve_sends_what_a_trace_says_of_urgency(self):
        with self.answering({"prompt_tokens": 1, "completion_tokens": 1}) as (url, bodies), \
                tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps({"time_s": 0.01 * i, "prompt_tokens": 5, "output_tokens": 2, **more}) + "\n"
                                     for i, more in enumerate(({"priority": 5, "deadline_ms": 60000},
                                                               {"priority": -2, "deadline_ms": 1}, {}))))
            done = hasten("bench", "serve", "--url", url, "--trace", trace, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual([(body.get("priority"), body.get("deadline_ms")) for body in bodies],
                              [(-5, 60000), (2, 1), (None, None)])  # of a server's priorities lower is more urgent
        deadlines = json.loads(done.stdout)["result"]["deadlines"]
        self.assertEqual(deadlines["asked"], 2)
        self.assertGreaterEqual(deadlines["met"], 1)

    def test_bench_serve_takes_no_usage_that_cannot_be(self):
        for usage, failed in (({"prompt_tokens": 2**24, "completion_tokens": 1}, 0),
                              ({"prompt_tokens": 2**24 + 1, "completion_tokens": 1}, 2),
                              ({"prompt_tokens": 2**63 - 1, "completion_tokens": 1}, 2),
                              ({"prompt_tokens": 2**63 - 1}, 2),
                              ({"prompt_tokens": 5, "completion_tokens": 4}, 2)):
            with self.answering(usage) as (url, _):
                done = hasten("bench", "serve", "--url", url, "--requests", 2, "--prompt", 5, "--gen", 2, "--users", 1,
                              "--json")
            result = json.loads(done.stdout)["result"]
            self.assertEqual(result["failures"], {"its usage cannot be": failed} if failed else {}, usage)
            self.assertEqual(result["prompt_tokens"], 0 if failed else 2**25)

    def test_kv_disk_keeps_prefixes_over_restarts(self):
        """A process answers, ends, and the next one has from the folder what that one computed."""
        prompt = "What is the capital of France? " * 60
        body = json.dumps({"prompt": prompt, "max_tokens": 8, "temperature": 0}).encode()

        def ask(url):
            request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
            return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        def from_disk(url):
            with urllib.request.urlopen(url + "/metrics", timeout=60) as response:
                text = response.read().decode()
            return float(re.search(r"(?m)^vllm:external_prefix_cache_hits_total\S* (\S+)$", text).group(1))

        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "store"
            flags = ("--kv-disk", store, "--kv-disk-bytes", "64MiB", "--ctx", "2048")
            seen = []
            for _ in range(2):
                with open(Path(folder) / "log", "w") as log, self.serving(*flags, log=log) as (process, banner):
                    url = self.url(banner)
                    seen.append((*ask(url), from_disk(url)))
                    taken = hasten("run", "-p", "x", *flags)
                    self.assertEqual((taken.returncode, taken.stdout), (1, ""))
                    self.assertIn(str(store), taken.stderr)
                    process.terminate()
                    self.assertEqual(process.wait(60), 0)
            self.assertEqual(store.stat().st_mode & 0o777, 0o700)
            (first, first_cached, first_hits), (second, second_cached, second_hits) = seen
            self.assertEqual((first_cached, first_hits), (0, 0))
            self.assertRegex((Path(folder) / "log").read_text(), r"store: \d+ blocks of keys and values from an earlier run\n")
            self.assertEqual(second, first)
            self.assertGreaterEqual(second_cached, 256)
            self.assertGreaterEqual(second_hits, 256)
            # The same folder serves an answer of its own, and one that cannot be is refused by name.
            done = hasten("run", *flags, "-p", "What is the capital of France?", "--temperature", "0")
            self.assertEqual((done.returncode, done.stdout), (0, "The capital of France is Paris.\n"), done.stderr)
            again = json.loads(hasten("run", *flags, "--raw", "-p", prompt, "-n", "1", "--json").stdout)
            self.assertGreaterEqual(again["cached_tokens"], 256)
            foreign = hasten("run", "-p", "x", "--kv-disk", folder)
            self.assertEqual(foreign.returncode, 2)
            self.assertIn(f"{folder} has files that are not hasten's, such as ", foreign.stderr)
            without = hasten("run", "-p", "x", "--kv-disk", store, "--no-prefix-cache")
            self.assertEqual(without.returncode, 2)
            self.assertIn("--kv-disk", without.stderr)

    def test_kv_disk_tells_what_it_keeps(self):
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "store"

            def log_of(*flags, while_it_runs=lambda: None):
                with open(Path(folder) / "log", "w") as log, \
                        self.serving("--kv-disk", store, "--ctx", "2048", *flags, log=log) as (process, banner):
                    self.post(banner, "/v1/completions", {"prompt": "What is the capital of France? " * 60, "max_tokens": 8})
                    while_it_runs()
                    process.terminate()
                    self.assertEqual(process.wait(60), 0)
                return (Path(folder) / "log").read_text()

            wrote, kept = re.search(r"wrote (\S+) KiB of keys and values to disk at the end; (\S+) KiB are kept there",
                                    log_of("--kv-disk-bytes", "100KiB")).groups()
            self.assertEqual(wrote, kept)
            self.assertLess(float(kept), 100)
            log_of("--kv-disk-bytes", "1MiB")
            self.assertRegex(log_of("--kv-disk-bytes", "1MiB", "--kv-type", "f32"),
                             r"no blocks of keys and values from an earlier run; \S+ KiB of another model, of other flags")
            log = log_of(while_it_runs=lambda: shutil.rmtree(store))
            self.assertIn("store was deleted, or a file in it: nothing is written there", log)
            self.assertNotIn("wrote", log)

    def test_a_folder_that_may_grow_no_more_ends_nothing(self):
        """A limit on files ends the writing with a line in the log, and no process."""
        most = 1 << 20

        def with_limit(*arguments):
            return subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=120,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))

        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "store"
            flags = ("--kv-disk", store, "--kv-disk-bytes", "64MiB", "--ctx", "2048", "--raw", "-n", "1")
            prompt = "What is the capital of France? " * 60
            done = with_limit("run", *flags, "-p", prompt)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("File too large", done.stderr)
            blocks = [file.stat().st_size for file in store.glob("blocks*")]
            self.assertGreater(max(blocks), most // 2)  # what there was room for
            again = json.loads(hasten("run", *flags, "-p", prompt, "--json").stdout)
            self.assertGreater(again["cached_tokens"], 0)

    def test_banner_shows_how_to_send_a_key(self):
        with self.serving("--api-key", "s3cret") as (_, banner):
            self.assertIn("-H 'Authorization: Bearer KEY'", banner)
            self.assertNotIn("s3cret", banner)

    def test_serves_though_it_cannot_tell_its_story(self):
        with self.serving("--ctx", "8") as (process, banner):
            self.assertIn("the context is 8 tokens", banner)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=30), 0)

    def test_special_tokens_count_where_they_are_asked_for(self):
        text, ids = "Once<|im_end|>", [721, 2047]
        with self.serving() as (_, banner):
            for extra, special in (({}, False), ({"parse_special": False}, False), ({"parse_special": True}, True)):
                tokens = self.post(banner, "/tokenize", {"prompt": text, **extra})[1]["tokens"]
                self.assertEqual(tokens == ids, special)
                answer = self.post(banner, "/v1/completions", {"prompt": [text, text], "max_tokens": 1, **extra})[1]
                self.assertEqual(answer["usage"]["prompt_tokens"], 2 * len(tokens))
            for extra, shown in (({}, text), ({"skip_special_tokens": False}, text),
                                 ({"skip_special_tokens": True}, "Once")):
                self.assertEqual(self.post(banner, "/detokenize", {"tokens": ids, **extra})[1], {"prompt": shown})

    def test_serves_completions_though_its_template_does_not_work(self):
        for wrong, said in ((b"messages -#}", "does not parse: line 1: .*/v1/completions works; .*inspect .*"
                                               "--chat-template FILE"),
                            (b"me.x.y() -%}", "refuses a plain question: it failed in line 1: 'me' is .*; chats that it "
                                              "refuses, .* get 400, and /v1/completions works; .*inspect")):
            with tempfile.NamedTemporaryFile(suffix=".gguf") as odd, tempfile.TemporaryFile("w+") as log:
                odd.write(MODEL.read_bytes().replace(b"messages -%}", wrong, 1))
                odd.flush()
                with self.serving(odd.name, log=log) as (_, banner):
                    self.assertIn("It says:   ", banner)
                    self.assertNotIn("/v1/chat/completions", banner)
                    self.assertNotIn("Chat:", banner)
                    warning = self.logged(log, "the chat template")
                    self.assertRegex(warning, r"the chat template of hasten-tiny \(tokenizer.chat_template\) " + said)
                    self.assertEqual(self.post(banner, "/v1/completions", {"prompt": "Once", "max_tokens": 1})[0], 200)
                    messages = [{"role": "user", "content": "Hi"}]
                    status, answer = self.post(banner, "/v1/chat/completions", {"messages": messages})
                    self.assertEqual(status, 400)
                    self.assertRegex(answer["error"]["message"], "^the chat template of hasten-tiny .* line 1")

    def logged(self, log, text):
        """The line with the text, which may come a little after the banner. Reads without seeking, since the server
        writes where the file stands."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in os.pread(log.fileno(), 1 << 20, 0).decode().splitlines():
                if text in line:
                    return line
            time.sleep(0.01)
        self.fail(f"nothing was logged with: {text}")

    def test_says_that_its_template_leaves_out_users(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as odd, tempfile.TemporaryFile("w+") as log:
            odd.write(MODEL.read_bytes().replace(b"message.content", b"'message.conte'"))
            odd.flush()
            with self.serving(odd.name, log=log):
                warning = self.logged(log, "the chat template")
                self.assertRegex(warning, "the chat template of hasten-tiny .* makes the same prompt whatever users say: .*inspect")

    def test_name_of_the_model_is_text(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as odd:
            odd.write(MODEL.read_bytes().replace(b"hasten-tiny", b"hasten\n\xffiny", 1))
            odd.flush()
            with self.serving(odd.name) as (_, banner):
                models = json.load(urllib.request.urlopen(self.url(banner) + "/v1/models", timeout=60))
        self.assertEqual(models["data"][0]["id"], "hasten\ufffd\ufffdiny")

    def test_a_signal_before_it_serves_ends_it_at_once(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            # The slow backend is still at the proof of life when the signal comes.
            process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--devices", "reference"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                for line in process.stderr:
                    if "loaded" in line:
                        break
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=30), 128 + number)
            finally:
                process.kill()
                process.stderr.close()

    def test_the_end_of_its_terminal_drains_it_unless_ignored(self):
        for action in (signal.SIG_DFL, signal.SIG_IGN):  # the latter is what nohup does
            before = signal.signal(signal.SIGHUP, action)
            try:
                with self.serving() as (process, banner):
                    process.send_signal(signal.SIGHUP)
                    if action == signal.SIG_DFL:
                        self.assertEqual(process.wait(timeout=30), 0)
                        continue
                    with self.assertRaises(subprocess.TimeoutExpired):
                        process.wait(timeout=0.5)
                    urllib.request.urlopen(self.url(banner) + "/health", timeout=60).close()
            finally:
                signal.signal(signal.SIGHUP, before)

    def test_more_threads_than_cores_warn(self):
        cores = len(os.sched_getaffinity(0))
        done = hasten("run", "-p", "Hi", "--max-tokens", 1, "--threads", cores + 1)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"--threads {cores + 1}: this process has ", done.stderr)
        self.assertNotIn("--threads", hasten("run", "-p", "Hi", "--max-tokens", 1, "--threads", 1).stderr)

    def test_open_to_all_without_a_key_warns(self):
        for arguments, is_warned in ((("--host", "0.0.0.0"), True), (("--host", "0.0.0.0", "--api-key", "k"), False),
                                     (("--host", "127.0.0.2"), False)):
            with tempfile.TemporaryFile("w+") as log, self.serving(*arguments, log=log) as (_, banner):
                log.seek(0)
                self.assertEqual("whoever reaches this machine" in log.read(), is_warned, arguments)
                self.assertNotIn("http://0.0.0.0", banner)
                if "0.0.0.0" in arguments:
                    self.assertIn("Chat:      " + self.url(banner) + "/", banner)
                    self.assertRegex(banner, r"Elsewhere: http://[^/]+:\d+/")

    def test_a_taken_port_is_told_of_before_the_model_is_loaded(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = hasten("serve", "--port", taken.getsockname()[1])
        self.assertEqual(done.returncode, 1)
        self.assertIn("choose another port with --port N", done.stderr)
        self.assertNotIn("loaded", done.stderr)

    def test_banner_answers_and_drains(self):
        with tempfile.TemporaryFile("w+") as log, self.serving(log=log) as (process, banner):
            self.assertIn("tokens/s", banner)
            self.assertIn("of keys and values in all, kept in bf16\n", banner)
            self.assertIn("curl", banner)
            metrics = urllib.request.urlopen(self.url(banner) + "/metrics", timeout=60).read().decode()
            for count in ("generation_tokens", "prompt_tokens", "request_success"):  # the banner's own are no traffic
                self.assertRegex(metrics, rf'vllm:{count}_total{{[^}}]*}} 0\n')
                self.assertNotRegex(metrics, rf'vllm:{count}_total{{[^}}]*}} [1-9]')
            body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
            request = urllib.request.Request(self.url(banner) + "/v1/chat/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            answer = json.load(urllib.request.urlopen(request, timeout=60))
            self.assertEqual(answer["choices"][0]["message"]["content"], "The capital of France is Paris.")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=30), 0)
            log.seek(0)
            self.assertIn("the server has ended", log.read().splitlines()[-1])


unittest.main(argv=sys.argv[:1], verbosity=2)
