#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the program does with vocabularies and templates alone: tokenize, detokenize, inspect."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

PROGRAM, ROOT = sys.argv[1], Path(sys.argv[2])
MODEL = ROOT / "assets/hasten-tiny-bf16.gguf"
SHARED = Path(os.environ.get("HASTEN_SHARED", ROOT.parent / "shared"))


def hasten(*arguments, stdin=""):
    stdin = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, timeout=300,
                          check=False)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def added(content, number, special=True):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special}


def write_sentencepiece_like(folder, *more):
    """A tokenizer.json as Llama 2 has it: words with and without a space, and byte tokens; and `more` tokens."""
    names = ["<unk>", "<s>", "</s>", "<0x61>", "<0xE4>", "<0xBD>", "<0xA0>", "\u2581", "a", "\u2581a", "\u200b", *more]
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [added(name, i) for i, name in enumerate(names[:3])],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                           {"type": "Replace", "pattern": {"String": " "},
                                                            "content": "\u2581"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                     {"type": "ByteFallback"}, {"type": "Fuse"},
                                                     {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                  "vocab": {name: i for i, name in enumerate(names)}, "merges": ["\u2581 a"]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>",
                                                              "unk_token": "<unk>"}))


class Tokens(unittest.TestCase):
    def tokens(self, *arguments):
        """The lines of tokenize: id -> token as it is shown."""
        lines = hasten("tokenize", *arguments).stdout.splitlines()[:-1]
        return {int(line[:7]): line[9:] for line in lines}

    def test_different_tokens_look_different(self):
        with tempfile.TemporaryDirectory() as folder:
            write_sentencepiece_like(Path(folder))
            shown = self.tokens(folder, "a a\u4f60 \u200b </s>", "--special")
            self.assertEqual(shown, {1: "<s>", 9: '" a"', 4: r'"\xe4"', 5: r'"\xbd"', 6: r'"\xa0"', 7: '" "',
                                     10: r'"\u200b"', 2: "</s>"})
            self.assertEqual(self.tokens(folder, "aa")[8], '"a"')

    def test_a_byte_token_that_is_a_character_looks_like_it(self):
        with tempfile.TemporaryDirectory() as folder:
            write_sentencepiece_like(Path(folder), "<0x5F>", "<0x7B>", "<0x0A>", "<0x09>", "<0x22>", "<0x01>")
            shown = self.tokens(folder, '_{\n\t"\x01\u4f60', "--special")
            self.assertEqual([shown[i] for i in (11, 12, 13, 14, 15, 16, 4)],
                             ['"_"', '"{"', r'"\n"', r'"\t"', r'"\""', r'"\u0001"', r'"\xe4"'])
            self.assertEqual(hasten("detokenize", folder, "3", "11").stdout, "a_\n")

    def test_bytes_and_control_characters_are_escaped(self):
        shown = self.tokens("", 'a\t\n\r"\\\x01\u0085\u00e9 \u4f60', "--special")
        self.assertEqual([shown[ord(c)] for c in 'a\t\n\r"\\\x01'],
                         ['"a"', r'"\t"', r'"\n"', r'"\r"', r'"\""', r'"\\"', r'"\u0001"'])
        for byte in "\u0085\u00e9\u4f60".encode():
            self.assertEqual(shown[byte], rf'"\x{byte:02x}"')
        output = hasten("tokenize", "", "\x1b[2J\u009b").stdout
        self.assertFalse(set(output) & {"\x1b", "\u009b"})

    def test_what_shows_nothing_is_escaped(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for point in (0x2800, 0x3164, 0xffa0, 0xfff9, 0xfffb, 0x1d173, 0x1d17a):
                text = chr(point)
                (folder / "rwkv_vocab_one.txt").write_text(f"1 '{text}' {len(text.encode())}\n")
                escaped = rf"\U{point:08x}" if point > 0xffff else rf"\u{point:04x}"
                self.assertEqual(self.tokens(folder, text), {1: f'"{escaped}"'})

    def test_word_pieces_that_continue_look_different(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n")
            shown = self.tokens(folder, "aa a")
            self.assertEqual((shown[2], shown[3]), ("[CLS]", "[SEP]"))
            self.assertNotEqual(shown[5], shown[6])

    def test_words_in_brackets_stay_whole(self):
        for text in ("[ab]", "[a,b]", "[[a,b],[c]]", "[]"):
            self.assertEqual(hasten("tokenize", "", text, "--json").stdout,
                             hasten("tokenize", "--json", stdin=text).stdout, text)
            self.assertIn(f"there is no MODEL {text};", hasten("tokenize", text).stderr)
            self.assertIn(f"there is no {text}:", hasten("inspect", text).stderr)

    def test_words_that_look_like_flags_and_commands_stand_behind_two_dashes(self):
        for text in ("-x", "--json", "--", "-", "serve", "-5"):
            expected = hasten("tokenize", "", "--json", stdin=text).stdout
            for words in (("--json", "--", "", text), ("", "--json", "--", text)):
                done = hasten("tokenize", *words)
                self.assertEqual((done.stdout, done.stderr), (expected, ""), words)
        for words, said in ((("--", "-none"), "there is no MODEL -none;"),
                            (("", "-x"), "there is no flag -x; what is no flag stands behind --, as in "
                                         "'tokenize -- -x'; see")):
            self.assertIn(said, hasten("tokenize", *words).stderr)
        self.assertIn("behind --", " ".join(hasten("tokenize", "--help").stdout.split()))
        self.assertIn("there is no -none:", hasten("inspect", "--", "-none").stderr)
        self.assertRegex(hasten("inspect", "--", "a", "-b").stderr, "not expected: -b;")
        done = hasten("run", "-p", "--", "--max-tokens", "1", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["completion_tokens"]), (0, 1), done.stderr)
        prompt_tokens = json.loads(done.stdout)["prompt_tokens"]
        self.assertIn("a command stands before --, and its words behind; the commands are serve",
                      hasten("--", "tokenize", "", "a").stderr)
        self.assertIn("there is no Hi: a MODEL is", hasten("run", "-n1", "-qp", "--", "--", "Hi").stderr)
        # As the value of a flag it is a word like any other, also of one that stands with others.
        for words in (("-n1", "-qp", "--"), ("-n1", "-qp", "--", "--", ""), ("-qn1", "-p--"), ("-qn", "1", "-p", "--")):
            done = hasten("run", "--json", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["prompt_tokens"], prompt_tokens, words)

    def test_a_text_without_quotes_is_told(self):
        for words, count in ((("a", "b", "c", "d"), 4), (("--json", "", "a", "[b]"), 3), (("--", "", "-a", "b"), 3)):
            done = hasten("tokenize", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"hasten: tokenize takes [MODEL] [TEXT] and got {count} words; a TEXT of several "
                                          "words stands in quotes; see 'hasten tokenize --help'\n")

        for words in (("--nosuch", "a", "b", "c"), ("a", "b", "c", "--nosuch")):
            self.assertIn("there is no flag --nosuch", hasten("tokenize", *words).stderr)

    def test_streams(self):
        text = "Once upon a time"
        self.assertEqual(hasten("tokenize", "--file", "-", stdin=text).stdout, "-: 4 tokens, 16 bytes\n")
        self.assertEqual(hasten("tokenize", "--file", "/dev/stdin", stdin=text).stdout,
                         "/dev/stdin: 4 tokens, 16 bytes\n")
        self.assertEqual(hasten("tokenize", "--file", "-").stdout, "-: 0 tokens, 0 bytes\n")
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder) / "pipe"
            os.mkfifo(pipe)
            writer = threading.Thread(target=pipe.write_text, args=(text,))
            writer.start()
            self.assertEqual(hasten("tokenize", "--file", pipe, "--json").stdout, "[721,674,257,469]\n")
            writer.join()
            refused = hasten("tokenize", "--file", folder)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"{folder} is a folder; give a file with content", refused.stderr)

    def test_what_cannot_be_read_is_not_empty(self):
        with tempfile.TemporaryDirectory() as name:
            folder = os.open(name, os.O_RDONLY)
            for arguments in (("tokenize", ""), ("tokenize", "--file", "-"), ("tokenize", "--file", "/dev/stdin"),
                              ("detokenize",), ("run",)):
                for closed in (False, True):
                    if "/dev/stdin" in arguments and closed:
                        continue  # then there is no such file
                    # The descriptor 0 is another file or none.
                    program = ["sh", "-c", 'exec "$@" <&-', "sh"] if closed else []
                    done = subprocess.run([*program, PROGRAM, *arguments], stdin=folder, capture_output=True, text=True,
                                          timeout=300, check=False)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
                    why = "Bad file descriptor" if closed else "directory"
                    if "/dev/stdin" not in arguments:
                        self.assertIn("cannot read standard input: ", done.stderr)
                        self.assertIn(why, done.stderr)
            os.close(folder)

    def test_a_stream_is_bounded(self):
        for arguments in (("tokenize", "--file", "-"), ("tokenize",), ("run",)):
            done = hasten(*arguments, stdin=bytes((256 << 20) + 1))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("standard input has more than 256.0 MiB", done.stderr)


class Detokenize(unittest.TestCase):
    def test_gives_the_text_back(self):
        text = "Once upon a time,\n\t\u4f60\u597d \U0001f600 "
        ids = hasten("tokenize", "", text, "--json").stdout
        self.assertEqual(hasten("detokenize", stdin=ids).stdout, text + "\n")
        self.assertEqual(json.loads(hasten("detokenize", "--json", stdin=ids).stdout), text)
        self.assertEqual(hasten("detokenize", MODEL, *ids.strip("[]\n").split(",")).stdout, text + "\n")
        self.assertEqual(hasten("detokenize", MODEL, ids.replace(",", ", ")).stdout, text + "\n")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(ids.replace(",", "\n"))
            file.flush()
            self.assertEqual(hasten("detokenize", "--file", file.name, MODEL).stdout, text + "\n")
        self.assertEqual(hasten("detokenize", "--file", "-", stdin="721 674").stdout, "Once upon\n")
        self.assertEqual(hasten("detokenize", stdin="").stdout, "\n")

    def test_special_tokens(self):
        self.assertEqual(hasten("detokenize", "", "721,2047").stdout, "Once<|im_end|>\n")
        self.assertEqual(hasten("detokenize", "", "721,2047", "--skip-special").stdout, "Once\n")

    def test_what_is_no_id_is_named(self):
        for ids, said in (("0 2048", 'there is no token "2048": the vocabulary has 2048, from 0 to 2047'),
                          ("9" * 100000, f'there is no token "{"9" * 80}'),
                          ("[-1]", 'there is no token "-1": the vocabulary'), ("12 1x", '"1x" is no token id'),
                          ("[1][2]", "several lists"), ("1.5", '"1.5" is no token id')):
            by_words = () if "[" in ids else (hasten("detokenize", "", *ids.split()),)
            for status, done in ((1, hasten("detokenize", stdin=ids)), *((2, done) for done in by_words)):
                self.assertEqual((done.returncode, done.stdout), (status, ""), ids)
                self.assertIn(said, done.stderr)
                self.assertLess(len(done.stderr), 200)
        for ids, said in (("[1,2", "begins with [ and ends with ]"), ("1,2]", "begins with [ and ends with ]"),
                          ("1[2]", "begins with [ and ends with ]"), ("]1[", "begins with [ and ends with ]"),
                          ("[[1,2],[3]]", "several lists"), ("[[1,2]]", "several lists")):
            for status, done in ((1, hasten("detokenize", stdin=ids)), (2, hasten("detokenize", "", ids))):
                self.assertEqual((done.returncode, done.stdout), (status, ""), ids)
                self.assertIn(said, done.stderr)
        for ids, said in (("1,,2", "no id stands before the comma at byte 2 of the ids"),
                          ("1, ,2", "before the comma at byte 3"), (",1", "before the comma at byte 0"),
                          ("[1,2,]", "no id stands behind the comma at byte 4"), ("1,", "behind the comma at byte 1"),
                          (",", "before the comma at byte 0")):
            for status, done in ((1, hasten("detokenize", stdin=ids)), (2, hasten("detokenize", "", ids))):
                self.assertEqual((done.returncode, done.stdout), (status, ""), ids)
                self.assertIn(said, done.stderr)
        self.assertIn("before the comma at byte 5", hasten("detokenize", "", "1", "2,", ",3").stderr)
        self.assertEqual(hasten("detokenize", "", "721,", "674").stdout, "Once upon\n")
        self.assertEqual(hasten("detokenize", "", "", stdin="721").stdout, "\n")  # no ids are given
        self.assertEqual(hasten("detokenize", stdin=" [\n 721,\n 674 ]\n").stdout, "Once upon\n")
        # Of what is no list of ids at all, its brackets are not what is wrong.
        noise = hasten("detokenize", stdin=b"\x00\x81[\x02]x[\xff[ 17")
        self.assertEqual((noise.returncode, noise.stdout), (1, ""))
        self.assertIn(r'"\x00\x81" is no token id', noise.stderr)
        self.assertIn('write: hasten detokenize "" 721 674', hasten("detokenize", "721", "674").stderr)
        self.assertIn("not both", hasten("detokenize", "", "1", "--file", "x").stderr)


class LoneFiles(unittest.TestCase):
    """A file of a tokenizer as MODEL."""

    def ids(self, *arguments):
        done = hasten("tokenize", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_each_is_read_as_if_it_were_alone(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            (folder / "rwkv_vocab_one.txt").write_text("1 'a' 1\n2 'ab' 2\n")
            (folder / "rwkv_vocab_two.txt").write_text("1 'ab' 2\n2 'a' 1\n")
            (folder / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
            (folder / "merges.txt").write_text("#version: 0.2\na b\n")
            (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##ba\n")
            for file, ids in (("tokenizer.json", [1, 9, 8]), ("rwkv_vocab_one.txt", [1, 1]), ("rwkv_vocab_two.txt", [2, 2]),
                              ("vocab.json", [0, 0]), ("merges.txt", [0, 0])):
                self.assertEqual(self.ids(folder / file, "aa"), ids, file)
            self.assertEqual(self.ids(folder / "vocab.txt", "aba"), [2, 5, 6, 3])
            self.assertEqual(hasten("detokenize", folder / "rwkv_vocab_two.txt", "1", "2").stdout, "aba\n")
            # Under another name of its kind.
            (folder / "tokenizer.json").rename(folder / "my_tokenizer.json")
            self.assertEqual(self.ids(folder / "my_tokenizer.json", "aa"), [1, 9, 8])
            here = subprocess.run([Path(PROGRAM).resolve(), "tokenize", "my_tokenizer.json", "a", "--json"], cwd=folder,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(here.stdout, "[1,9]\n", here.stderr)
            (folder / "other.json").write_text("{}")
            for file in ("tokenizer_config.json", "other.json"):
                self.assertIn("is not a GGUF file", hasten("tokenize", folder / file, "a").stderr)
            self.assertIn("vocab.json is a tokenizer's file alone, without the weights of a model: ",
                          hasten("run", folder / "vocab.json", "-p", "a").stderr)
            os.truncate(folder / "vocab.txt", 0)
            self.assertEqual(hasten("tokenize", folder / "vocab.txt", "a").returncode, 1)

    def test_inspect_says_which_files_it_takes(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            takes = "is not a GGUF file: inspect takes a .gguf file, a Hugging Face folder, "
            for file in ("chat_template.json", "tokenizer_config.json", "template.j2", "tok.json"):
                (folder / file).write_text("{}")
                done = hasten("inspect", folder / file)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"{folder / file} {takes}", done.stderr)
                for word in ("tokenizer.json", ".jinja", "chat_template.json", "tokenizer_config.json"):
                    self.assertIn(word, done.stderr.replace(str(folder / file), ""))

    def test_only_commands_with_a_prompt_name_its_flag(self):
        for arguments in (("detokenize", "/nothere/a", "1"), ("inspect", "/nothere/a"), ("serve", "/nothere/a"),
                          ("tokenize", "/nothere/a", "x")):
            done = hasten(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn("there is no /nothere/a: ", done.stderr)
            self.assertNotIn("-p", done.stderr)
        self.assertIn("a prompt comes after -p", hasten("run", "/nothere/a").stderr)

    def test_only_names_of_vocabularies_count(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file in ("x.model.v2.safetensors", "x.model.v", "x.model.va", "x.model.v3m", "x.model.v3x"):
                (folder / file).write_bytes(b"\x0f")
                self.assertRegex(hasten("tokenize", folder / file, "a").stderr, "is not a GGUF file|is part of a model")
            for file in ("x.model", "x.model.v3", "x.model.v11m1"):
                (folder / file).write_bytes(b"\x0f")
                said = hasten("tokenize", folder / file, "a").stderr
                self.assertIn(f"hasten: {folder / file} is not what its name says, or damaged: a field", said)
            (folder / "x.model").write_bytes(b"")
            said = hasten("tokenize", folder / "x.model", "a").stderr
            self.assertIn(f"hasten: {folder / 'x.model'} is empty: fetch it again", said)

    def test_the_rest_of_the_folder_does_not_count(self):
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            for config in (pointer, "{", '{"vocab_size": 99999}'):
                (folder / "config.json").write_text(config)
                done = hasten("tokenize", folder / "tokenizer.json", "aa", "--json")
                self.assertEqual((done.stdout, done.stderr), ("[1,9,8]\n", ""))
            (folder / "tokenizer_config.json").write_text(pointer)
            self.assertIn("tokenizer_config.json is not there yet",
                          hasten("tokenize", folder / "tokenizer.json", "a").stderr)

    @unittest.skipUnless((SHARED / "data/tokenizers").is_dir(), "needs shared/data/tokenizers")
    def test_published_ones(self):
        folder = SHARED / "data/tokenizers"
        for file, ids in (("tiktoken/cl100k_base.tiktoken", [15339, 1917]), ("llama3/tokenizer.model", [128000, 15339, 1917]),
                          ("llama2/tokenizer.model", [1, 22172, 3186]), ("hf/llama2/tokenizer.json", [1, 22172, 3186]),
                          ("mistral_instruct_tokenizer_240323.model.v3", [1, 7080, 29477, 2294])):
            self.assertEqual(self.ids(folder / file, "hello world"), ids, file)
            text = hasten("detokenize", folder / file, *ids, "--skip-special").stdout
            self.assertEqual(text.strip(), "hello world", file)


class Inspect(unittest.TestCase):
    def test_tells_of_the_tokenizer(self):
        done = hasten("inspect")
        self.assertIn("vocabulary     2048 tokens\ntokenizer      byte-level BPE, from hasten-tiny\n"
                      "pre-tokenizer  qwen2\nbos            2045 <|endoftext|>\neos            2047 <|im_end|>\n"
                      "pad            2045 <|endoftext|>\naround a text  nothing\n", done.stdout)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            for model, head in ((folder, "tokenizer files, without weights"),
                                (folder / "tokenizer.json", "a tokenizer's file")):
                done = hasten("inspect", model)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout,
                                 f"{model}: {head}\nvocabulary     11 tokens\n"
                                 "tokenizer      SentencePiece BPE, from tokenizer.json\npre-tokenizer  none\n"
                                 "bos            1 <s>\neos            2 </s>\nunk            0 <unk>\n"
                                 "around a text  <s> before it\nchat template  none (ChatML stands in, which writes "
                                 "<|im_start|> and <|im_end|>, no token of the vocabulary: to the model that is letters)\n")
            result = json.loads(hasten("inspect", folder, "--json").stdout)["tokenizer"]
            self.assertEqual((result["kind"], result["file"], result["unk"], result["pad"], result["before_text"]),
                             ("SentencePiece BPE", "tokenizer.json", {"id": 0, "text": "<unk>"}, None, [1]))
            (folder / "tokenizer.json").rename(folder / "my_tokenizer.json")
            self.assertIn("from my_tokenizer.json", hasten("inspect", folder / "my_tokenizer.json").stdout)
            (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##ba\n")
            shown = hasten("inspect", folder).stdout
            self.assertIn("WordPiece, from vocab.txt\npre-tokenizer  split ", shown)
            self.assertIn("around a text  [CLS] before it, [SEP] behind it\n", shown)
            (folder / "model.gguf").touch()
            self.assertIn("is a folder of GGUF files", hasten("inspect", folder).stderr)

    @unittest.skipUnless((SHARED / "data/tokenizers").is_dir(), "needs shared/data/tokenizers")
    def test_published_ones(self):
        folder = SHARED / "data/tokenizers"
        for model, words in (("ggml-vocab/ggml-vocab-llama-spm.gguf", "spm.gguf: gguf llama, a vocabulary without weights\n"),
                             ("ggml-vocab/ggml-vocab-gpt-2.gguf", "pre-tokenizer  gpt-2\n"),
                             ("sentencepiece/test_model.model", "SentencePiece Unigram, from test_model.model"),
                             ("llama2", "SentencePiece BPE, from tokenizer.model"),
                             ("llama3", "byte-level BPE, merged by rank, from tokenizer.model"),
                             ("gpt2", "from vocab.json with merges.txt"),
                             ("hf/phi-2", "split by \"'(?:[sdmt]|ll|ve|re)|")):
            done = hasten("inspect", folder / model)
            self.assertEqual((done.returncode, done.stderr), (0, ""), model)
            self.assertIn(words, done.stdout)

    def test_what_is_broken_is_said_and_status_1(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            for source, why in (("{% for m in %}", "does not parse: line 1: unexpected end of a tag"),
                                ("a\n{{ ?", "does not parse: line 2: unexpected character at byte 5"),
                                ("{% for x in [] %}{{ x is loud }}{% endfor %}",
                                 "does not parse: line 1: no test named 'loud'")):
                (folder / "chat_template.jinja").write_text(source)
                subject = f"the chat template of {folder.name} (chat_template.jinja)"
                done = hasten("inspect", folder)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"chat template  does not work: it {why}\n", done.stdout)
                self.assertEqual(done.stderr, "hasten: the chat template does not work: the report says why\n")
                self.assertIn("bos            1 <s>\n", done.stdout)
                done = hasten("inspect", folder, "--json")
                self.assertEqual((done.returncode, json.loads(done.stdout)["template_error"]),
                                 (1, f"{subject} {why}"))
                self.assertEqual(hasten("tokenize", folder, "a", "--json").stdout, "[1,9]\n")
            (folder / "tokenizer.json").write_text("{}")
            done = hasten("inspect", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("tokenizer      does not work: ", done.stdout)
            self.assertEqual(done.stderr, "hasten: the tokenizer does not work: the report says why\n")
            (folder / "chat_template.jinja").unlink()
            config = (folder / "tokenizer_config.json").read_text()
            (folder / "tokenizer_config.json").write_text("{")  # which both read
            done = hasten("inspect", folder)
            self.assertEqual((done.stdout + done.stderr).count("is not valid JSON"), 1)
            self.assertIn("chat template  does not work, for the same reason\n", done.stdout)
            self.assertIn("is not valid JSON", json.loads(hasten("inspect", folder, "--json").stdout)["template_error"])
            (folder / "tokenizer_config.json").write_text(config)
            (folder / "tokenizer.json").unlink()
            (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
            done = hasten("inspect", folder)  # what there is not is not broken
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("folder of llama without weights (*.safetensors)\nwidth          64\ntokenizer      none: ",
                          done.stdout)

    def test_what_a_template_refuses_is_said(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            for source, line in (("a\n{{ messages | map('shout') | list }}",
                                  "it failed in line 2: no filter named 'shout'; uses the filter \"shout\" in line 2, "
                                  "which this hasten does not know: chats that get there are refused"),
                                 ("{% if not documents %}{{ raise_exception('give \x1b') }}{% endif %}{{ documents }}",
                                  "give \ufffd")):
                (folder / "chat_template.jinja").write_text(source)
                done = hasten("inspect", folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"chat template  refuses a plain question: {line}\n", done.stdout)
                refusal = json.loads(hasten("inspect", folder, "--json").stdout)["template_refusal"]
                self.assertTrue(refusal.startswith(f"the chat template of {folder.name} (chat_template.jinja) refuses a plain "
                                                   "question: "), refusal)
            (folder / "chat_template.jinja").write_text(
                "{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}{{ messages[-1].content }}")
            self.assertIn("chat template  system role; refuses a plain question: no\n", hasten("inspect", folder).stdout)

    def test_a_template_alone(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            file = folder / "chat_template.jinja"
            for source, line, status in (("{% for m in messages %}{{ m.content }}{% endfor %}", "system role, tool results", 0),
                                         ("{{ 1 | shout }}", "does not work: it does not parse: line 1: no filter named "
                                                             "'shout'", 1)):
                file.write_text(source)
                for model, head in ((folder, "a chat template, without tokenizer files and weights"),
                                    (file, "a chat template's file")):
                    done = hasten("inspect", model)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertIn(f"{model}: {head}\n", done.stdout)
                    self.assertIn(f"chat template  {line}\n", done.stdout)
                    self.assertEqual(hasten("inspect", model, "--chat-template").stdout, source)
                    report = json.loads(hasten("inspect", model, "--json").stdout)
                    self.assertEqual((report["format"], report["chat_template"]), ("chat template", True))
            self.assertEqual(hasten("inspect", file).stderr,
                             "hasten: the chat template does not work: the report says why\n")
            self.assertRegex(hasten("run", folder, "-p", "a").stderr,
                             "holds a chat template .* no weights: .* config.json and .* missing there; fetch them, too")
            self.assertRegex(hasten("run", file, "-p", "a").stderr,
                             "is a chat template alone, without the weights of a model: .*; inspect takes it")
            self.assertIn("is a chat template alone, without a tokenizer: ", hasten("tokenize", file, "a").stderr)
            file.unlink()
            (folder / "tokenizer_config.json").write_text("{}")
            done = hasten("inspect", folder)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, "has no tokenizer: looked for .*; there is no chat template either")

    def test_a_tokenizer_alone_is_no_model_to_run(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            self.assertRegex(hasten("run", folder, "-p", "a").stderr,
                             "holds a tokenizer and no weights: .* config.json and .* missing there; fetch them, too, or "
                             "give a .gguf file; tokenize, .* take it as it is")
            report = json.loads(hasten("inspect", folder, "--json").stdout)
            self.assertEqual((report["format"], "architecture" in report), ("tokenizer", False))

    @unittest.skipUnless((SHARED / "data/tokenizers").is_dir(), "needs shared/data/tokenizers")
    def test_a_vocabulary_is_no_model_to_run(self):
        for name in ("gpt-2", "llama-spm"):
            done = hasten("run", SHARED / f"data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf", "-p", "a")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"{name}.gguf holds a tokenizer and no weights: .*; fetch a whole one")

    def test_names_where_no_chat_may_get_are_told_by_inspect_alone(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as odd:
            odd.write(MODEL.read_bytes().replace(rb"'<|im_end|>\n'", b"'' if 1 or q()", 1))
            odd.flush()
            says = 'uses the function "q" in line '
            done = hasten("inspect", odd.name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(says, done.stdout)
            self.assertIn(says, json.loads(hasten("inspect", odd.name, "--json").stdout)["template_unknown_names"])
            done = hasten("run", odd.name, "-p", "Hi", "-n", "1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_broken_template_for_tools_is_shown(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            (folder / "chat_template.json").write_text(json.dumps({"chat_template": [
                {"name": "default", "template": "{{ messages[0].content }}"}, {"name": "tool_use", "template": "{{ ?"}]}))
            why = f"the chat template tool_use of {folder.name} (chat_template.json) does not parse: line 1"
            done = hasten("inspect", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"\ntool template  does not work: {why}", done.stdout)
            self.assertEqual(done.stderr, "hasten: the chat template for tools does not work: the report says why\n")
            self.assertIn(why, json.loads(hasten("inspect", folder, "--json").stdout)["tool_template_error"])

    def test_doubts_of_a_template_for_tools_are_shown(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            (folder / "chat_template.json").write_text(json.dumps({"chat_template": [
                {"name": "default", "template": "{% for m in messages %}{{ m.content }}{% endfor %}"},
                {"name": "tool_use", "template": "{{ tools }}{% if 0 %}{{ nothing() }}{% endif %}"}]}))
            own = f"the chat template tool_use of {folder.name} (chat_template.json)"
            for without in (None, "tokenizer.json"):
                if without:
                    (folder / without).unlink()
                done = hasten("inspect", folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"\ntool template  doubtful: {own} makes the same prompt whatever users say", done.stdout)
                self.assertIn(f"\ntool template  doubtful: {own} uses the function \"nothing\" in line 1", done.stdout)
                result = json.loads(hasten("inspect", folder, "--json").stdout)
                self.assertIn("makes the same prompt", result["tool_template_doubt"])
                self.assertIn("uses the function", result["tool_template_unknown_names"])

    def test_doubts_of_a_tokenizer_are_told(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
            (folder / "merges.txt").write_text("a b\n")
            (folder / "tokenizer_config.json").write_text('{"bos_token": "<\\u001b[2J>"}')
            says = ('the bos_token of tokenizer_config.json is "<\\x1b[2J>", which the vocabulary does not have; no token '
                    "is taken for it",
                    "it has no token for 209 bytes of text (0x09, 0x0a, 0x0d, 0x20, \u2026), which are left out")
            done = hasten("inspect", folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for line in says:
                self.assertIn(f"\ndoubtful       {line}\n", done.stdout)
            self.assertEqual(json.loads(hasten("inspect", folder, "--json").stdout)["tokenizer"]["doubts"], list(says))
            for words in (("tokenize", folder, "abc"), ("detokenize", folder, "2")):
                done = hasten(*words)
                self.assertEqual(done.returncode, 0)
                for line in says:
                    self.assertIn(f"the tokenizer of {folder}/vocab.json with merges.txt: {line}", done.stderr)

    def test_a_template_that_leaves_out_the_user_is_told(self):
        says = "makes the same prompt whatever users say: no words of theirs reach the model"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            (folder / "chat_template.jinja").write_text("{{ bos_token }}hello")
            done = hasten("inspect", folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"chat template  {says}\n", done.stdout)
            self.assertEqual(json.loads(hasten("inspect", folder, "--json").stdout)["template_doubt"],
                             f"the chat template of {folder.name} (chat_template.jinja) {says}")
            (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
            self.assertIn("leaves out what the user says after a system message and after an answer",
                          hasten("inspect", folder).stdout)
            (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
            self.assertNotIn("template_doubt", json.loads(hasten("inspect", folder, "--json").stdout))
        with tempfile.NamedTemporaryFile(suffix=".gguf") as odd:
            odd.write(MODEL.read_bytes().replace(b"message.content", b"'message.conte'"))
            odd.flush()
            done = hasten("run", odd.name, "-p", "Hi", "-n", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"the chat template of hasten-tiny (tokenizer.chat_template) {says}", done.stderr)
            self.assertNotIn("the chat template", hasten("run", odd.name, "--raw", "-p", "Hi", "-n", "1").stderr)

    def test_marks_that_the_vocabulary_lacks_are_told(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            content = json.loads((folder / "tokenizer.json").read_text())
            doubt = json.loads(hasten("inspect", folder, "--json").stdout)["template_doubt"]
            self.assertEqual(doubt, f"the chat template of {folder.name} (ChatML, as it has none) writes <|im_start|> and "
                                    "<|im_end|>, no token of the vocabulary: to the model that is letters")
            for mark, line in (("<|im_end|>", "none (ChatML stands in, which writes <|im_start|>, no token "),
                               ("<|im_start|>", "none (ChatML stands in)\n")):
                number = len(content["model"]["vocab"])
                content["model"]["vocab"][mark] = number
                content["added_tokens"].append(added(mark, number))
                (folder / "tokenizer.json").write_text(json.dumps(content))
                done = hasten("inspect", folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("chat template  " + line, done.stdout)
            self.assertNotIn("template_doubt", json.loads(hasten("inspect", folder, "--json").stdout))

    def test_a_template_that_is_none_is_told(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            (folder / "chat_template.jinja").write_text("\n")
            self.assertRegex(hasten("inspect", folder).stderr, "chat_template.jinja is empty, and not used: fetch it again")
            (folder / "chat_template.jinja").unlink()
            config = json.loads((folder / "tokenizer_config.json").read_text())
            for wrong, said in ((5, "is neither a string nor a list of templates"),
                                ([{"name": "rag", "template": "x"}], "is a list without one that is called default")):
                (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": wrong}))
                done = hasten("inspect", folder)
                self.assertIn(f"chat_template in {folder}/tokenizer_config.json {said}: chats are written as ChatML", done.stderr)
                self.assertIn("none (ChatML stands in", done.stdout)
            (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": None}))
            self.assertEqual(hasten("inspect", folder).stderr, "")

    def test_a_file_cannot_write_to_the_terminal(self):
        forged = "\u001b[2J\u009b\n2026-01-01 00:00:00.000 error forged"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "a\u001b[2J\u009b\nb"
            folder.mkdir()
            write_sentencepiece_like(folder)
            default = {"name": "default", "template": "{{ messages[0].content }}"}
            for source in (f"{{{{ [] | map('{forged}') | list }}}}", "{{ a\u009bb c\u009bd }}", "{{ 1 |\u009b }}"):
                (folder / "chat_template.json").write_text(json.dumps(
                    {"chat_template": [default, {"name": "tool_use", "template": source}]}))
                done = hasten("tokenize", folder, "a")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertFalse(set(done.stderr) & {"\u001b", "\u009b"}, done.stderr)
                self.assertNotIn("\n2026-01-01", done.stderr)
            (folder / "config.json").write_text('{"vocab_size": 99}')
            for file, content in (("chat_template.jinja", " "), ("chat_template.json", '{"chat_template": 5}')):
                (folder / file).write_text(content)
                done = hasten("tokenize", folder, "a")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(file, done.stderr)
                self.assertFalse(set(done.stderr) & {"\u001b", "\u009b"}, done.stderr)
                self.assertRegex(done.stderr, "vocab_size is 99")

    def test_a_broken_template_is_not_called_absent(self):
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
        for file, content, why in (("chat_template.json", "{", "is not valid JSON"),
                                   ("chat_template.jinja", pointer, "is not there yet"),
                                   ("tokenizer_config.json", pointer, "is not there yet")):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / file).write_text(content)
                for words in ((), ("--chat-template",), ("--json",)):
                    done = hasten("inspect", folder, *words)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(f"{folder / file} {why}", done.stderr)
                    self.assertEqual(done.stderr.count(why), 1)
                    self.assertNotIn("no chat template", done.stderr)
                (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
                done = hasten("inspect", folder)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"chat template  does not work: {folder / file} {why}", done.stdout)
                self.assertIn(why, json.loads(hasten("inspect", folder, "--json").stdout)["template_error"])
                self.assertIn(f"{folder / file} {why}", hasten("inspect", folder, "--chat-template").stderr)

    def test_a_template_alone_is_checked_like_a_folders(self):
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "x.jinja"
            file.touch()
            for size, content, said in ((None, pointer, "x.jinja is not there yet, only what Git LFS"),
                                        (None, " \n\t\r\n", "x.jinja is empty: fetch it again"),
                                        (0, "", "x.jinja is empty: fetch it again"),
                                        ((256 << 10) + 1, "", "x.jinja has 262145 bytes; the limit is 262144"),
                                        (1 << 36, "", "x.jinja has 68719476736 bytes; the limit is 262144")):
                file.write_text(content)
                if size is not None:
                    os.truncate(file, size)
                for words in ((), ("--chat-template",)):
                    done = hasten("inspect", file, *words)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(said, done.stderr)
            for content, said in ((b"{{ messages[0].content }}\0", "x.jinja has a NUL byte at 25: it is damaged, or no text"),
                                  (b"{\0{ messages }}", "x.jinja has a NUL byte at 1: "),
                                  (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "x.jinja has a NUL byte at 8: "),
                                  ("{{ '\u00e9' }}".encode("latin-1"), "x.jinja is not UTF-8: byte 0xE9 at 4; save it as UTF-8"),
                                  ("{{ '\u00e9' }}".encode("utf-16-le"), "x.jinja is UTF-16; save it as UTF-8")):
                file.write_bytes(content)
                folders = Path(name) / "chat_template.jinja"
                folders.write_bytes(content)
                for model, where in ((file, "x.jinja"), (name, "chat_template.jinja")):
                    done = hasten("inspect", model)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(said.replace("x.jinja", where), done.stderr)
                folders.unlink()
            file.write_text("{{ messages[0].content }}" + " " * ((256 << 10) - 25))
            self.assertEqual(hasten("inspect", file).returncode, 0)

    def test_template_whole(self):
        source = "{# a\ttab #}{{ messages[0].content }}\n\x1b"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_sentencepiece_like(folder)
            none = hasten("inspect", folder, "--chat-template")
            self.assertEqual((none.returncode, none.stdout), (1, ""))
            self.assertIn("no chat template", none.stderr)
            (folder / "chat_template.jinja").write_text(source)
            self.assertEqual(hasten("inspect", folder, "--chat-template").stdout, source)
            master, terminal = os.openpty()
            done = subprocess.run([PROGRAM, "inspect", folder, "--chat-template"], stdout=terminal, check=False)
            os.close(terminal)
            shown = os.read(master, 1000).decode().replace("\r\n", "\n")
            os.close(master)
            self.assertEqual((done.returncode, shown), (0, source.replace("\x1b", "\ufffd\n")))


unittest.main(argv=sys.argv[:1], verbosity=2)
