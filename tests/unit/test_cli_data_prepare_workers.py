"""The worker processes: the same results as without them, told failures, and no process left behind."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from gymctl.errors import CliError
from gymctl.prepare.chunks import Chunk, find_span
from gymctl.prepare.metrics import Metrics
from gymctl.prepare.worker import measure_all
from tests.fakes.gymctl import start_gymctl

TEXT = Path(__file__).read_text()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tokenizer(BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXT.splitlines(), BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    )
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


def write_rows(path: Path, count: int) -> None:
    words = TEXT.split()
    with path.open("w") as file:
        for number in range(count):
            text = " ".join(words[number % 50 : number % 50 + 60])
            params = {
                "input": [{"role": "user", "content": f"{number} {text}"}],
                "temperature": 0.1 * (number % 7),
            }
            row = {"responses_create_params": params, "kind": f"k{number % 3}", "score": number / 3}
            file.write(json.dumps(row if number % 100 else {**row, "responses_create_params": {}}) + "\n")


def results(path: Path, workers: int, tokenizer: Path) -> tuple[dict[str, Any], list[int]]:
    metrics, bad, lines = Metrics(), [], 0
    for report in measure_all(find_span(path, 0, None).chunks(10_000), workers, tokenizer):
        metrics.add(report)
        bad += [lines + number for number in report.bad_lines]
        lines += report.lines
    return metrics.document("x"), bad


def test_workers_find_what_one_process_finds(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "d.jsonl"
    write_rows(path, 1000)
    alone, together = results(path, 0, tokenizer), results(path, 3, tokenizer)
    assert alone == together
    assert together[1] == list(range(1, 1001, 100))
    assert together[0]["Number of examples"] == 990
    assert together[0]["Input length in tokens"]["Average"] > 60


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": 3}')
    write_rows(tmp_path / "d.jsonl", 10)
    chunks = list(find_span(tmp_path / "d.jsonl", 0, None).chunks())
    for workers in (0, 2):
        with pytest.raises(CliError, match="is no tokenizer"):
            list(measure_all(chunks, workers, path))


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    for workers in (0, 1):
        with pytest.raises(FileNotFoundError):
            list(measure_all([Chunk(str(tmp_path / "gone"), 0, 10)], workers, None))


def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    write_rows(path, 100)
    reports = measure_all(find_span(path, 0, None).chunks(500), 2, None)
    next(reports)
    for child in psutil.Process().children():
        if "gymctl.prepare.worker" in child.cmdline():
            child.kill()
    with pytest.raises(CliError) as caught:
        list(reports)
    assert "ended before its time (signal SIGKILL)" in caught.value.message
    assert "--workers 1" in caught.value.hint


def test_stopping_early_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    write_rows(path, 500)
    reports = measure_all(find_span(path, 0, None).chunks(500), 2, None)
    next(reports)
    reports.close()
    assert [
        child for child in psutil.Process().children() if "gymctl.prepare" in " ".join(child.cmdline())
    ] == []


CONFIG = """
mcqa: {resources_servers: {mcqa: {domain: knowledge}}}
p:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      datasets: [{name: d, type: train, license: MIT, jsonl_fpath: d.jsonl}]
"""


async def start(place: Path, rows: int) -> tuple[asyncio.subprocess.Process, list[psutil.Process]]:
    """Starts the command on an input that takes it a while; waits until its workers run."""
    write_rows(place / "d.jsonl", 1000)
    block = (
        (place / "d.jsonl")
        .read_text()
        .replace('"responses_create_params": {}', '"responses_create_params": {"input": "x"}')
    )
    (place / "d.jsonl").write_text(block * (rows // 1000))
    (place / "c.yaml").write_text(CONFIG)
    arguments = ["-c", "c.yaml", "--mode", "train_preparation", "--output-dir", "out", "--tokenizer", "none"]
    process = await start_gymctl("data", "prepare", *arguments, cwd=place)
    workers: list[psutil.Process] = []
    async with asyncio.timeout(30):
        while len(workers) < min(2, len(os.sched_getaffinity(0))):
            await asyncio.sleep(0.02)
            workers = psutil.Process(process.pid).children()
    return process, workers


async def test_ctrl_c_ends_workers_and_leaves_nothing(tmp_path: Path) -> None:
    process, workers = await start(tmp_path, 30_000)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 1
    assert "Stopped." in err.decode()
    assert "Traceback" not in err.decode()
    psutil.wait_procs(workers, timeout=20)
    assert not any(worker.is_running() for worker in workers)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "d_metrics.json").exists()


async def test_workers_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    process, workers = await start(tmp_path, 30_000)
    process.kill()
    await process.communicate()
    gone, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []
    assert len(gone) == len(workers)


async def test_a_larger_input_from_end_to_end(tmp_path: Path) -> None:
    process, _ = await start(tmp_path, 12_000)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    lines = (tmp_path / "out" / "train.jsonl").read_bytes().splitlines()
    source = (tmp_path / "d.jsonl").read_bytes().splitlines()
    ending = b',"agent_ref":{"type":"responses_api_agents","name":"p"}}'
    assert lines == [line[:-1] + ending for line in source]
    assert json.loads((tmp_path / "d_metrics.json").read_text())["Number of examples"] == 12_000
    assert b"p/d" in out
