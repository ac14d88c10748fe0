#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ctest with the arguments given and says, above its closing summary, why tests failed and what was skipped.

Of thousands of lines, a CI server shows the last ones.
"""
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

MAX_LINES = 40  # of what failed: a screen
MAX_LINES_EACH = 12
MAX_REASONS = 8
MAX_WIDTH = 200

CLOSING = re.compile(r"\d+% tests passed")
VERDICT = re.compile(r"^\s*\d+ - (\S+) \((.*)\)$", re.MULTILINE)  # in the closing summary
OUTPUT = re.compile(r"^\d+/\d+ Test: (\S+)$.*?^Output:\n-+\n(.*?)^<end of output>$", re.MULTILINE | re.DOTALL)
# GoogleTest: a failed assertion with what it says, and a case that was skipped with its reason.
ASSERTION = re.compile(r"^(?:\S+:\d+|unknown file): Failure\n.*?(?=^\S+:\d+: Failure\n|^\[|^\s*\n|\Z)",
                       re.MULTILINE | re.DOTALL)
# Python's unittest: the name of a test that failed, and the exception it ended with.
UNITTEST = re.compile(r"^(?:FAIL|ERROR): |^[\w.]*(?:Error|Exception|TimeoutExpired)\b")
# CMake and Node: where an error or the name of a test that failed stands, Node what leads to it just above.
WHERE = re.compile(r"^\s*CMake Error\b|^✖ ")
SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*?)^\[  SKIPPED \]", re.MULTILINE | re.DOTALL)
FRAME = re.compile(r"^(Running main|Note: Google Test|\[[-=]{10}\])")
SANITIZER = re.compile(r"runtime error:|(ERROR|WARNING): \w*Sanitizer|^SUMMARY: |^ +#\d+ (?!.*libsanitizer).*/(src|tests)/")


def gist(output):
    """The lines of a failed test that say why, or the last ones where no form is known."""
    lines = []
    for case in re.split(r"(?m)^\[ RUN      \] ", output):
        name, *rest = case.splitlines() or [""]
        why = "".join(ASSERTION.findall(case)).splitlines() + [line for line in rest if SANITIZER.search(line)]
        lines += [name, *why] if why else []
    lines = lines or [line for line in output.splitlines() if UNITTEST.match(line)]
    if lines:
        return lines
    lines = [line for line in output.splitlines() if line.strip() and not FRAME.match(line)]
    first = next((i for i, line in enumerate(lines) if WHERE.match(line)), None)
    if first is None:
        return lines[-6:]
    return lines[max(0, first - 3) if lines[first].startswith("✖") else first:]


def reason_of_skip(output):
    """Of a program that says "skipped: why", or else says why last."""
    lines = [line for line in output.splitlines() if line.strip()] or ["it does not say why"]
    return next((line for line in lines if line.startswith("skipped:")), lines[-1])


def report(verdicts, outputs):
    """What to print of tests, given {name: verdict} of those that did not pass and {name: output} of all."""
    failed = {name: verdict for name, verdict in verdicts.items() if verdict != "Skipped"}
    lines = ["What failed:"] if failed else []
    each = max(3, min(MAX_LINES_EACH, MAX_LINES // max(1, len(failed)) - 1))
    for number, (name, verdict) in enumerate(failed.items()):
        if len(lines) + each > MAX_LINES:
            lines.append(f"and {len(failed) - number} tests more")
            break
        why = gist(outputs.get(name, ""))
        lines += [f"{name} ({verdict})", *(f"    {line[:MAX_WIDTH]}" for line in why[:each])]
        if len(why) > each:
            lines.append(f"    ... {len(why) - each} lines more")

    reasons = Counter(" ".join(reason.split()) for output in outputs.values() for reason in SKIP.findall(output))
    reasons.update(reason_of_skip(outputs[name]) for name, verdict in verdicts.items() if verdict == "Skipped")
    shown = reasons.most_common(MAX_REASONS)
    if shown:
        lines += ["What was skipped, and why:", *(f"{n:6} {reason[:MAX_WIDTH]}" for reason, n in shown)]
    if len(reasons) > len(shown):
        lines.append(f"{reasons.total() - sum(n for _, n in shown):6} for {len(reasons) - len(shown)} other reasons")
    return lines


def main():
    arguments = sys.argv[1:]
    log = Path(arguments[arguments.index("--test-dir") + 1]) / "Testing/Temporary/LastTest.log"
    closing = []
    with subprocess.Popen(["ctest", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as ctest:
        try:
            for line in ctest.stdout:
                if closing or CLOSING.match(line):
                    closing.append(line)
                else:
                    print(line, end="", flush=True)
        except KeyboardInterrupt:
            pass  # which ctest got, too, and ends
    summary = "".join(closing)
    if summary:
        print("\n".join(report(dict(VERDICT.findall(summary)), dict(OUTPUT.findall(log.read_text(errors="replace"))))),
              end="\n\n")
    print(summary, end="", flush=True)
    return ctest.returncode


if __name__ == "__main__":
    sys.exit(main())
