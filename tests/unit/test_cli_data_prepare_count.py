"""Token counts: those of the tokenizers library, and of llama.cpp for the default tokenizer."""

import asyncio
import json
import os
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from gymctl.errors import CliError
from gymctl.prepare import count, pieces, tokenizer, words
from gymctl.prepare.count import TokenCounter, TokenizerError
from gymctl.prepare.gguf import GgufError, read_metadata, tokenizer_json
from gymctl.prepare.tokenizer import find_tokenizer

HERE = Path(__file__).resolve()
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?"
    r"|\p{N}{1,3}" + REST
)


def split(pattern: str, behavior: str = "isolated") -> Any:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def byte_level(prefix: bool = False) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix)


# Ways to cut text, and whether counts of pieces may be remembered with them.
CUTS: dict[str, tuple[Any, Any, bool]] = {
    "gpt2": (byte_level(), None, True),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level()]), None, True),
    "llama3": (split(LLAMA3), None, True),
    "qwen2": (split(QWEN2), normalizers.NFC(), True),
    "o200k": (split(O200K), None, True),
    "lines in front": (split(r"\s?\p{L}+|\s?\p{N}+|\s?[^\s\p{L}\p{N}]+|\s+"), None, True),
    "blank in front": (byte_level(True), None, False),
    "lower case": (byte_level(), normalizers.Lowercase(), False),
    "across blanks": (split(r"\w+ \w+|\s+|\S"), None, False),
    "with gaps": (split(r"\p{L}+"), None, False),
    "merged with next": (split(r"\s+", "merged_with_next"), None, False),
    "negated class": (split(r"\P{L}+|\p{L}+"), None, False),
    "sets in sets": (split(r"[[a-z][A-Z]]+|[^a-zA-Z]+"), None, False),
    "unknown class": (split(r"\p{Han}+|\P{Han}"), None, False),
    "digits in runs": (pre_tokenizers.Sequence([pre_tokenizers.Digits(False), byte_level()]), None, False),
    "sentencepiece": (pre_tokenizers.Metaspace(), None, False),
}
SPECIALS = ["<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokenizers of every kind, trained on this very file."""
    folder = tmp_path_factory.mktemp("tokenizers")
    text = HERE.read_text().splitlines()
    for name, (cut, normalizer, _) in CUTS.items():
        made = Tokenizer(BPE())
        made.pre_tokenizer = cut
        if normalizer:
            made.normalizer = normalizer
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = BpeTrainer(
            vocab_size=700, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
        )
        made.train_from_iterator(text, trainer)
        made.save(str(folder / f"{name}.json"))
    return folder


def odd_texts(number: int) -> list[str]:
    """Texts of parts that tokenizers treat in special ways, beside each other in every order."""
    random = Random(number)
    found = HERE.read_text().split()
    parts = [
        lambda: random.choice(found),
        lambda: " " * random.randint(1, 5),
        lambda: random.choice(
            ["\n", "\n\n", "\t", "\r\n", "\x0b", "\x0c", " \n ", "\x1f ", " \x85", "\u3000"]
        ),
        lambda: str(random.randint(0, 10 ** random.randint(1, 9))),
        lambda: "".join(chr(random.randint(32, 126)) for _ in range(random.randint(1, 12))),
        lambda: "".join(chr(random.randint(0, 0x2FF)) for _ in range(random.randint(1, 6))),
        lambda: chr(random.choice([random.randint(0x370, 0x9FFF), random.randint(0x10000, 0x1FFFF)])),
        lambda: random.choice(["'s", "'S", "'re", "'LL", "n't", "don't", "I'm", "''", " 's", "\t's"]),
        lambda: random.choice([*SPECIALS, "<|im_end", "<|im_end|>x", "e\u0301", "\u0301"]),
        lambda: random.choice("aeiou-= ") * random.randint(1, 80),
    ]
    texts = []
    for _ in range(150):
        chosen = random.sample(parts, random.randint(1, 4))
        joints = ["", "", " "]
        texts.append(
            "".join(random.choice(chosen)() + random.choice(joints) for _ in range(random.randint(0, 25)))
        )
    return texts


@pytest.mark.parametrize("name", CUTS)
def test_counts_are_exact(folder: Path, name: str) -> None:
    counter = TokenCounter(folder / f"{name}.json")
    assert counter.is_fast is CUTS[name][2]
    own = Tokenizer.from_file(str(folder / f"{name}.json"))
    texts = [*odd_texts(1), *odd_texts(2), HERE.read_text(), ""]
    for text in texts:
        expected = len(own.encode(text, add_special_tokens=False).ids)
        assert counter.count(text) == expected, text
        assert counter.count_all([text]) == [expected], text
        assert counter.count_again(text) == counter.count_again(text) == expected
    assert counter.count_all(texts) == [counter.count(text) for text in texts]


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60) | st.text(st.sampled_from("ab 1'\n\ts.é漢<|im_end|>"), max_size=60))
def test_counts_of_any_text(folder: Path, text: str) -> None:
    for name in ("smollm", "llama3", "o200k"):
        counter = _counter(folder / f"{name}.json")
        assert counter.count(text) == counter.count_slowly(text)
        assert counter.count_all([text, "x", text]) == [
            counter.count_slowly(one) for one in (text, "x", text)
        ]


_COUNTERS: dict[Path, TokenCounter] = {}


def _counter(path: Path) -> TokenCounter:
    if path not in _COUNTERS:
        _COUNTERS[path] = TokenCounter(path)
    return _COUNTERS[path]


def test_memories_forget_and_stay_right(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_SLOT_BITS", 3)
    monkeypatch.setattr(pieces, "_MOST_PIECES", 20)
    monkeypatch.setattr(count, "_MOST_TEXTS", 3)
    counter = TokenCounter(folder / "llama3.json")
    texts = odd_texts(3) * 3
    for text in texts:
        assert counter.count(text) == counter.count_again(text) == counter.count_slowly(text)
    assert counter.count_all(texts) == [counter.count_slowly(text) for text in texts]
    assert counter._pieces is not None
    assert 0 < len(counter._pieces._pieces) <= 20
    assert len(counter._texts) <= 3


def test_words_are_counted_once(folder: Path) -> None:
    asked: list[str] = []

    def length(word: str) -> int:
        asked.append(word)
        return len(word)

    table = words.WordTable(length, cuts_lines=True)
    long = "w" * 40
    texts = ["one two  three one", "", " one ", "two\n one one\nand\n-", f"two {long} \u00e9\u00e8", "one"]
    assert table.count(texts) == [len(text) for text in texts]
    there = [
        "one",
        " two  three",
        " one",
        " one ",
        "two\n one",
        " one\n",
        "and\n-",
        "two",
        f" {long}",
        " \u00e9\u00e8",
    ]
    assert asked == there
    asked.clear()
    assert table.count(texts[::-1]) == [len(text) for text in texts[::-1]]
    assert asked == [f" {long}"]  # too long for the table
    table = words.WordTable(length, cuts_lines=False)
    assert table.count(["one\ntwo three"]) == [13]
    assert asked[1:] == ["one\ntwo", " three"]
    assert table.count([]) is None
    assert table.count(["a\0b"]) is None
    assert table.count(["a \ud800"]) is None


def test_lone_surrogates_are_counted_as_something(folder: Path) -> None:
    counter = TokenCounter(folder / "gpt2.json")
    assert counter.count("a \ud800 b") == counter.count("a ? b")


def test_added_tokens_that_take_blanks_are_left_to_the_library(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / "gpt2.json").read_text())
    document["added_tokens"][0]["lstrip"] = True
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    counter = TokenCounter(path)
    assert not counter.is_fast
    assert counter.count("a <|im_start|> b") == counter.count_slowly("a <|im_start|> b")


def test_what_is_no_tokenizer_says_so(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is no tokenizer"):
        TokenCounter(path)


# ---- which tokenizer


def test_a_tokenizer_is_named_by_its_file_or_folder(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "some-model"
    place.mkdir()
    (place / "tokenizer.json").write_bytes((folder / "gpt2.json").read_bytes())
    by_folder, by_file = find_tokenizer(str(place)), find_tokenizer(str(place / "tokenizer.json"))
    assert by_folder == by_file
    assert by_file is not None
    assert by_file.name.startswith("some-model/tokenizer.json sha256:")
    assert find_tokenizer("none") is None
    with pytest.raises(CliError, match="there is no file"):
        find_tokenizer(str(tmp_path / "other.json"))


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = tokenizer.importlib.util.find_spec
    monkeypatch.setattr(
        tokenizer.importlib.util, "find_spec", lambda name: None if name == "numpy" else there(name)
    )
    with pytest.raises(CliError, match="needs the packages tokenizers and numpy") as caught:
        find_tokenizer(None)
    assert "pip install numpy." in caught.value.hint
    assert find_tokenizer("none") is None


def make_gguf(path: Path, **changes: Any) -> None:
    """A model file with a tokenizer of a few tokens and nothing else."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    values: dict[str, Any] = {
        "general.name": "tiny",
        "general.alignment": 32,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": ["<|end|>", *letters, "th", "the"],
        "tokenizer.ggml.token_type": [3] + [1] * (len(letters) + 2),
        "tokenizer.ggml.merges": ["t h", "th e"],
        **changes,
    }

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def entry(value: Any) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, int):
            return struct.pack("<II", 4, value)
        if value and isinstance(value[0], str):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)

    pairs = b"".join(text(key) + entry(value) for key, value in values.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + pairs)


def test_the_tokenizer_of_a_model_file(tmp_path: Path) -> None:
    model, path = tmp_path / "m.gguf", tmp_path / "tokenizer.json"
    make_gguf(model)
    assert read_metadata(model)["general.alignment"] == 32
    path.write_text(tokenizer_json(model), encoding="utf-8")
    counter = TokenCounter(path)
    assert counter.is_fast
    assert counter.count("the the<|end|> 12") == len(["the", " ", "the", "<|end|>", " ", "1", "2"])


def test_damaged_and_foreign_model_files(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    make_gguf(model, **{"tokenizer.ggml.pre": "deepseek-llm"})
    with pytest.raises(GgufError, match="of the kind"):
        tokenizer_json(model)
    make_gguf(model)
    whole = model.read_bytes()
    for damaged, says in (
        (b"no model", "no GGUF file"),
        (whole[:100], "ends too early"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "damaged: a size"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 0) + struct.pack("<I", 77), "unknown type 77"),
    ):
        model.write_bytes(damaged)
        with pytest.raises(GgufError, match=says):
            read_metadata(model)


def test_the_default_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYMD_STATE_DIR", str(tmp_path))
    model = tmp_path / "models" / "tiny.gguf"
    model.parent.mkdir()
    make_gguf(model)
    asked = []
    monkeypatch.setattr(tokenizer, "_fetch_model", lambda folder: asked.append(folder) or model)
    first, second = find_tokenizer(None), find_tokenizer(None)
    assert first == second
    assert first is not None
    assert first.name == "SmolLM2-135M-Instruct"
    assert asked == [tmp_path / "models"]
    assert TokenCounter(first.path).is_fast
    assert sorted(path.name for path in model.parent.iterdir()) == [
        "SmolLM2-135M-Instruct.tokenizer.json",
        "tiny.gguf",
    ]


def test_a_default_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").write_text("in the way")
    monkeypatch.setenv("GYMD_STATE_DIR", str(tmp_path))
    with pytest.raises(CliError) as caught:
        find_tokenizer(None)
    assert "cannot be fetched" in caught.value.message
    assert "--tokenizer none" in caught.value.hint


@pytest.mark.skipif(bool(os.environ.get("GYMD_TESTS_OFFLINE")), reason="the weights may have to be fetched")
@pytest.mark.timeout(600)
def test_the_default_counts_like_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same texts through the engine's own /tokenize, which reads the model file by other code."""
    pytest.importorskip("xllamacpp", reason="needs the extra: pip install 'gymd[local]'")
    from gymservers.models.local_model.engine import Engine
    from gymservers.models.local_model.weights import DEFAULT_MODEL_FILE

    # Where CI keeps the weights; in nobody's own state folder.
    home = Path(os.environ.get("GYMD_STATE_DIR") or tmp_path)
    monkeypatch.setenv("GYMD_STATE_DIR", str(home))
    default = home / "models" / "SmolLM2-135M-Instruct.tokenizer.json"
    default.unlink(missing_ok=True)
    made = find_tokenizer(None)
    assert made is not None
    assert made.path == default
    counter = TokenCounter(made.path)
    assert counter.is_fast
    texts = [text for text in odd_texts(5) if text and text.isprintable()]
    texts += [HERE.read_text(), "def f(x):\n    return x  # \u00e4\n", "<|im_start|>user\nHi<|im_end|>\n"]
    engine = Engine(home / "models" / DEFAULT_MODEL_FILE, context_size=128, parallel=1, threads=1)
    try:
        counts = asyncio.run(_ask(engine, texts))
    finally:
        engine.close()
    assert [counter.count(text) for text in texts] == counts


async def _ask(engine: Any, texts: list[str]) -> list[int]:
    import aiohttp

    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {engine.root.api_key}"}) as session:
        found = []
        for text in texts:
            body = {"content": text, "add_special": False, "parse_special": True}
            async with session.post(f"{engine.root.base_url}/tokenize", json=body) as answer:
                found.append(len((await answer.json())["tokens"]))
        return found
