"""prepare_text creates deterministic token files with the text, which gpt2 reads.

prepare_text_test.py GPT2
"""
import collections
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

GPT2 = sys.argv.pop(1)
SCRIPT = str(pathlib.Path(__file__).parents[1] / "prepare_text")
TEXT = ("It's no use going back to yesterday, because I was a different person then. "
        "Çà et là: 1234567 ½ ² 本日は晴天なり 😀😀  "
        "\n\n\tdef f(x):\n        return x__y\n"
        ).encode() + b"\xff\xfe no UTF-8 \x00\x80"


def load_script():
    loader = importlib.machinery.SourceFileLoader("prepare_text", SCRIPT)
    spec = importlib.util.spec_from_loader("prepare_text", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def naive_merges(words, vocabulary):
    """The definition: all pairs are counted again for each merge."""
    words = {tuple(word): count for word, count in words.items()}
    merges = []
    while 256 + len(merges) + 1 < vocabulary:
        counts = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                counts[pair] += count
        if not counts or max(counts.values()) < 2:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        symbol = 256 + len(merges)
        merges.append(best)
        changed = collections.Counter()
        for word, count in words.items():
            result, i = [], 0
            while i < len(word):
                both = word[i:i + 2] == best
                result.append(symbol if both else word[i])
                i += 2 if both else 1
            changed[tuple(result)] += count
        words = changed
    return merges


class PrepareText(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def prepare(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments, str(self.out)],
                              capture_output=True, text=True, check=True)

    def refuse(self, says, *arguments):
        result = subprocess.run([sys.executable, SCRIPT, *arguments, str(self.out)],
                                capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(says, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse(self.out.exists())

    def read(self, suffix=""):
        content = pathlib.Path(f"{self.out}{suffix}").read_bytes()
        magic, version, vocabulary, count = struct.unpack_from("<8sIIQ", content)
        self.assertEqual((magic, version), (b"ddpruntk", 1))
        self.assertEqual(len(content), 24 + 2 * count)
        return vocabulary, list(struct.unpack_from(f"<{count}H", content, 24))

    def test_bytes_are_tokens_and_each_file_follows_an_end_of_text(self):
        self.prepare(self.file("a", b"ab\xff"), self.file("b", b""), self.file("c", b"c"))
        self.assertEqual(self.read(), (257, [256, 97, 98, 255, 256, 256, 99]))

    def test_last_part_is_the_test_set(self):
        result = self.prepare("--test_fraction=0.25", self.file("a", bytes(range(99))))
        self.assertEqual(self.read(), (257, [256, *range(74)]))
        self.assertEqual(self.read(".test"), (257, list(range(74, 99))))
        self.assertIn("out.test: 25 tokens, vocabulary 257", result.stdout)

    def test_learned_pairs_are_deterministic_and_reversible(self):
        path = self.file("a", TEXT * 3)
        self.prepare("--vocabulary=300", path)
        vocabulary, tokens = self.read()
        self.assertEqual(vocabulary, 300)
        self.assertLess(len(tokens), len(TEXT) * 3)
        ids = json.loads((self.folder / "out.vocab.json").read_bytes())
        texts = {token: text for text, token in ids.items()}
        bytes_of = {text: byte for byte, text in enumerate(load_script().characters_of_bytes())}
        self.assertEqual(texts[tokens[0]], "<|endoftext|>")
        characters = "".join(texts[token] for token in tokens[1:])
        self.assertEqual(bytes(bytes_of[character] for character in characters), TEXT * 3)
        first = [self.out.read_bytes(), (self.folder / "out.merges.txt").read_bytes()]
        self.prepare("--vocabulary=300", path)
        self.assertEqual(first, [self.out.read_bytes(),
                                 (self.folder / "out.merges.txt").read_bytes()])
        vocabulary_file = (self.folder / "out.vocab.json").rename(self.folder / "v")
        merges_file = (self.folder / "out.merges.txt").rename(self.folder / "m")
        self.prepare("--bpe", str(vocabulary_file), str(merges_file), path)
        self.assertEqual(first[0], self.out.read_bytes())

    def test_learned_pairs_match_the_definition(self):
        module = load_script()
        text = (pathlib.Path(__file__).parents[3] / "README.md").read_bytes() + TEXT
        words = collections.Counter(module.words_of(module.word_pattern(), text))
        self.assertEqual(module.learn_merges(words, 400), naive_merges(words, 400))

    def test_words_are_split_like_gpt2(self):
        module = load_script()
        words = module.words_of(module.word_pattern(), "I'll  say: “x_y²” 12a\n\n b".encode())
        self.assertEqual([word.decode() for word in words],
                         ["I", "'ll", " ", " say", ":", " “", "x", "_", "y", "²", "”",
                          " 12", "a", "\n\n", " b"])

    def test_a_vocabulary_that_the_text_does_not_fill_is_smaller(self):
        result = self.prepare("--vocabulary=60000", self.file("a", b"aaaa aaaa"))
        self.assertIn("the vocabulary is 259, not 60000", result.stdout)
        self.assertEqual(self.read(), (259, [258, 257, 32, 257]))

    def test_invalid_arguments_are_rejected(self):
        text = self.file("a", b"text")
        self.refuse("nothing cannot be read: No such file", str(self.folder / "nothing"))
        self.refuse("there is no text", self.file("empty", b""))
        self.refuse("--vocabulary 256 is not within 257", "--vocabulary=256", text)
        self.refuse("and 65536 (token files hold 16 bits)", "--vocabulary=65537", text)
        self.refuse("--vocabulary 0 is not within", "--vocabulary=0", text)
        self.refuse("--test_fraction 1 is not within", "--test_fraction=1", text)
        self.refuse("--test_fraction 0.1 of 5 tokens leaves none to test with",
                    "--test_fraction=0.1", text)
        self.refuse("cannot be given together", "--vocabulary=300", "--bpe", text, text, text)
        self.refuse("are not the two files", "--bpe", text, text, text)
        self.out = self.folder / "nowhere" / "out"
        self.refuse("cannot be written", text)

    def test_only_its_own_files_are_overwritten(self):
        text, other = self.file("a", b"text"), self.file("b", b"more text")
        for name, says in (("a", "a is one of the FILEs"), ("b", "b is there and was not written")):
            result = subprocess.run([sys.executable, SCRIPT, text, str(self.folder / name)],
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn(says, result.stderr)
            self.assertEqual([(self.folder / "a").read_bytes(), (self.folder / "b").read_bytes()],
                             [b"text", b"more text"])
        merges = self.file("out.merges.txt", b"a novel")
        self.refuse("out.merges.txt is one of the FILEs", text, merges)
        self.refuse("out.merges.txt is there and was not written", text)
        os.unlink(merges)
        os.mkfifo(merges)
        self.refuse("out.merges.txt is there and was not written", text)
        os.unlink(merges)
        self.prepare("--vocabulary=300", text, other)
        result = subprocess.run([sys.executable, SCRIPT, text, merges, str(self.out)],
                                capture_output=True, text=True)
        self.assertIn("out.merges.txt is one of the FILEs", result.stderr)
        self.prepare(other)
        self.assertEqual(self.read(), (257, [256, *b"more text"]))

    def names(self):
        return {path.name for path in self.folder.iterdir()}

    def test_leftovers_of_an_earlier_call_are_removed(self):
        text = self.file("a", TEXT)
        self.prepare("--vocabulary=300", "--test_fraction=0.1", text)
        learned = {"out.vocab.json", "out.merges.txt"}
        self.assertEqual(self.names(), {"a", "out", "out.test"} | learned)
        pairs = [str(self.folder / name) for name in ("out.vocab.json", "out.merges.txt")]
        result = self.prepare("--bpe", *pairs, text)
        self.assertIn("out.test: removed, it belonged to an earlier ", result.stdout)
        self.assertEqual(self.names(), {"a", "out"} | learned)
        result = self.prepare("--test_fraction=0.1", text)
        self.assertIn("out.vocab.json: removed", result.stdout)
        self.assertEqual(self.names(), {"a", "out", "out.test"})

    def test_a_full_disk_changes_nothing(self):
        text = self.file("a", TEXT)
        self.prepare("--test_fraction=0.5", text)
        before = self.read(), self.read(".test")
        (self.folder / "out.unfinished").symlink_to("/dev/full")
        result = subprocess.run([sys.executable, SCRIPT, "--vocabulary=300", text, str(self.out)],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("out cannot be written: No space left on device", result.stderr)
        self.assertEqual((self.read(), self.read(".test")), before)
        self.assertEqual(self.names(), {"a", "out", "out.test"})

    def test_gpt2_trains_on_it(self):
        self.prepare("--test_fraction=0.2", "--vocabulary=300",
                     self.file("a", (pathlib.Path(__file__).parents[3] / "README.md").read_bytes()))
        result = subprocess.run([GPT2, f"--data={self.out}", "--steps=2", "--context=32"],
                                capture_output=True, text=True, check=True)
        self.assertIn("vocabulary 300", result.stdout)
        self.assertIn("step 2: test loss 5.", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
