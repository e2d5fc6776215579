"""`gymctl data generate`: rows by seed, from a generator of the tests and from reasoning_gym itself."""

import asyncio
import hashlib
import json
import signal
import zipfile
from pathlib import Path

import pytest

from gymctl.app import run
from gymctl.errors import CliError
from gymctl.generate.generators import find_generator, python_for
from gymctl.generate.options import read_options
from gymctl.state import is_alive
from gymd.client.rows import parse_row
from tests.fakes.gymctl import gymctl, start_gymctl

EXAMPLE = Path(__file__).parents[2] / "servers/gymservers/resources/reasoning_gym/data/example.jsonl"

GENERATOR = '''
import os, random, sys, time
from pathlib import Path
import pydantic
from gymd.sdk.generate import GenerateError, GenerateOptions

COUNT_BY = "meta.kind"

class Options(GenerateOptions):
    kinds: dict[str, int] = pydantic.Field(default_factory=lambda: {"sum": 1})
    """How often each kind is drawn."""
    fail: str = ""
    """How to fail."""

def choices():
    return {"kinds": ["sum", "difference"]}

def generate(options):
    print("noise")
    if options.fail == "refused":
        raise GenerateError("that cannot be", "Ask for less.")
    if options.fail == "missing":
        import no_such_package
    if options.fail == "dies":
        print("last words", file=sys.stderr)
        os._exit(7)
    chance = random.Random(options.seed)
    # The order of a set of texts is another in each process, unless somebody sees to it.
    order = list(set("xyzuv"))
    for index in range(options.size):
        if options.fail == "late" and index == 2:
            raise RuntimeError("the third row")
        if options.fail == "hangs":
            Path("hanging").write_text(str(os.getpid()))
            time.sleep(600)
        kind = chance.choices(list(options.kinds), list(options.kinds.values()))[0]
        yield {
            "responses_create_params": {"input": f"{kind} {chance.random()} é"},
            "order": order, "big": 10**30, "meta": {"kind": kind},
        }
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with an environment called toy."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "generate.py").write_text(GENERATOR)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_rows_are_written_and_counted(home: Path) -> None:
    arguments = [
        "data",
        "generate",
        "./toy",
        "--size",
        20,
        "--seed",
        7,
        "--set",
        'kinds={"sum": 3, "power": 1}',
    ]
    done = await gymctl(*arguments, "--agent", "a", "--output", "one.jsonl", "-o", "json", cwd=home)
    assert done.code == 0, done.err
    text = (home / "one.jsonl").read_bytes()
    assert done.json == {
        "environment": "toy",
        "output": "one.jsonl",
        "rows": 20,
        "seed": 7,
        "sha256": hashlib.sha256(text).hexdigest(),
        "seconds": done.json["seconds"],
        "counts": done.json["counts"],
    }
    assert set(done.json["counts"]) == {"power", "sum"}
    assert sum(done.json["counts"].values()) == 20
    rows = [parse_row(line) for line in text.decode().splitlines()]
    assert {row.agent for row in rows} == {"a"}
    assert json.loads(rows[0].members["big"]) == 10**30
    assert "é" in text.decode()
    assert "noise" not in text.decode()


async def test_the_same_seed_gives_the_same_bytes(home: Path) -> None:
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        arguments = ["data", "generate", "./toy", "--size", 9, "--seed", seed, "--output", name]
        done = await gymctl(*arguments, cwd=home, PYTHONHASHSEED="random")
        assert done.code == 0, done.err
        assert "SUM" not in done.out
        assert "KIND" in done.out
        assert f"Wrote 9 rows to {name} (seed {seed}" in done.err
    assert (home / "one").read_bytes() == (home / "two").read_bytes()
    assert (home / "one").read_bytes() != (home / "three").read_bytes()


async def test_rows_on_stdout(home: Path) -> None:
    done = await gymctl("data", "generate", "./toy", "--size", 3, "--output", "-", cwd=home)
    assert done.code == 0
    assert [parse_row(line).agent for line in done.out.splitlines()] == [""] * 3
    assert done.err == ""


async def test_an_output_that_exists_is_kept_unless_the_user_says_otherwise(home: Path) -> None:
    (home / "out").write_text("mine")
    arguments = ["data", "generate", "./toy", "--size", 3, "--output", "out"]
    done = await gymctl(*arguments, cwd=home)
    assert (done.code, (home / "out").read_text()) == (1, "mine")
    assert "--overwrite" in done.err
    failed = await gymctl(*arguments, "--overwrite", "--set", "fail=late", cwd=home)
    assert (failed.code, (home / "out").read_text()) == (1, "mine")
    assert "RuntimeError: the third row" in failed.err
    assert "--debug" in failed.err
    assert names(home) == ["out", "toy"]
    assert (await gymctl(*arguments, "--overwrite", cwd=home)).code == 0
    assert (home / "out").read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["./toy"], 2, ["--output FILE"]),
        (["./toy", "--output", "-", "-o", "json"], 2, ["-o json needs --output FILE"]),
        (["./toy", "--output", "x", "--size", "0"], 2, ["--size"]),
        (["./toy", "--output", "x", "--set", "kinds"], 2, ["key=value"]),
        (["./toy", "--output", "x", "--set", "kind=1"], 1, ["no option 'kind'", "Did you mean kinds?"]),
        (["./toy", "--output", "x", "--set", "zzz=1"], 1, ["no option 'zzz'", "--describe"]),
        (["./toy", "--output", "x", "--set", "kinds.sum=often"], 1, ["kinds.sum", "integer"]),
        (["./toy", "--output", "x", "--set", "fail=refused"], 1, ["that cannot be", "Ask for less."]),
        (["./toy", "--output", "x", "--set", "fail=dies"], 1, ["ended with code 7", "last words"]),
        (["./toy", "--output", "x", "--set", "fail=missing"], 1, ["no_such_package", "pip install -r"]),
        (["./toy", "--output", "x", "--options", "none.yaml"], 1, ["no file none.yaml"]),
        (["./tou", "--output", "x"], 1, ["has no generate.py"]),
        (["reasoning_gin", "--output", "x"], 1, ["Did you mean reasoning_gym?"]),
        (["zzzzzz", "--output", "x"], 1, ["no environment zzzzzz", "These can: ", "reasoning_gym"]),
        (["mcqa", "--output", "x"], 1, ["mcqa makes no tasks", "These can: ", "reasoning_gym"]),
    ],
)
def test_mistakes(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: list[str],
) -> None:
    monkeypatch.chdir(home)
    assert run(["data", "generate", *arguments]) == code
    out, err = capsys.readouterr()
    for word in words:
        assert word in err
    assert out == ""
    assert names(home) == ["toy"]


async def test_describe(home: Path) -> None:
    done = await gymctl("data", "generate", "./toy", "--describe", cwd=home)
    assert done.code == 0
    assert "How often each kind is drawn." in done.out
    assert "Rows to make." in done.out
    assert "kinds: sum, difference" in done.out
    document = (await gymctl("data", "generate", "./toy", "--describe", "-o", "json", cwd=home)).json
    assert [one["name"] for one in document["options"]] == ["size", "seed", "kinds", "fail"]
    assert document["choices"] == {"kinds": ["sum", "difference"]}


async def test_ctrl_c_leaves_nothing_behind(home: Path) -> None:
    arguments = ["data", "generate", "./toy", "--output", "out", "--set", "fail=hangs"]
    process = await start_gymctl(*arguments, cwd=home)
    marker = home / "hanging"
    async with asyncio.timeout(40):
        while not marker.exists() or not marker.read_text():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 1
    assert b"Stopped." in err
    assert not is_alive(int(marker.read_text()))
    assert names(home) == ["hanging", "toy"]


def test_options_come_from_the_file_then_set_then_flags(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("size: 1\nseed: 2\nconfig: {a: {x: 1, y: 2}}\ntask: [a]\n")
    found = read_options(file, {"seed": 3, "config": {"a": {"y": 4}}}, {"size": 5, "seed": None})
    assert found == {"size": 5, "seed": 3, "config": {"a": {"x": 1, "y": 4}}, "task": ["a"]}
    file.write_text('{"size": 1}')
    assert read_options(file, {}, {}) == {"size": 1}
    for text in ("a: [", "- a\n", "\x00"):
        file.write_text(text)
        with pytest.raises(CliError, match=str(file)):
            read_options(file, {}, {})


def test_requirements_that_are_not_met_get_an_environment_of_their_own(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GYMD_STATE_DIR", str(home / "state"))
    info = "toygen-1.0.dist-info"
    with zipfile.ZipFile(home / "toy" / "toygen-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("toygen.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toygen\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"toygen.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    requirements = home / "toy" / "requirements.txt"
    requirements.write_text("--no-index\n--find-links .\ntoygen==1.0\n")
    python = Path(python_for(find_generator(str(home / "toy"))))
    assert python.is_relative_to(home / "state" / "venvs")
    assert "toy: building its environment" in capsys.readouterr().err
    requirements.write_text("--no-index\n--find-links .\ntoygen==2.0\n")
    with pytest.raises(CliError, match="toygen") as caught:
        python_for(find_generator(str(home / "toy")))
    assert caught.value.hint.endswith(f"pip install -r {requirements}")


async def test_the_example_rows_of_reasoning_gym_are_made_again(tmp_path: Path) -> None:
    tasks = "chain_sum,simple_equations,word_sorting,leg_counting,syllogism"
    system = "system=Think first, then give the answer inside <answer> tags."
    arguments = ["--size", 5, "--seed", 15, "--set", f"task={tasks}", "--set", system, "--output", "out"]
    done = await gymctl("data", "generate", "reasoning_gym", *arguments, cwd=tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "out").read_bytes() == EXAMPLE.read_bytes()
    assert "SOURCE_DATASET" in done.out
