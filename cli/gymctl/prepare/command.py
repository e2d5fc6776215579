"""`gymctl data prepare` from beginning to end: find, check and measure, compare, write, sum up."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from gymctl.errors import CliError
from gymctl.launch import interrupt_on_signals
from gymctl.output import note, seconds, show_json
from gymctl.prepare.chunks import Chunk, Span, find_span
from gymctl.prepare.collate import Part, blended, write_rows
from gymctl.prepare.files import MetricsFile, compare_metrics, settle_metrics
from gymctl.prepare.measure import ChunkReport
from gymctl.prepare.metrics import Metrics
from gymctl.prepare.plan import (
    MODES,
    Dataset,
    choose_datasets,
    find_files,
    match_weights,
    parse_weights,
    share_out,
)
from gymctl.prepare.problems import FileProblems
from gymctl.prepare.progress import Progress
from gymctl.prepare.shuffle import shuffled
from gymctl.prepare.summary import print_summary
from gymctl.prepare.tokenizer import TokenizerFile, find_tokenizer
from gymctl.prepare.worker import measure_all
from gymd.config import load_config

__all__ = ["Options", "prepare_command"]

# Smaller inputs are read before a worker would have started.
_SMALL_BYTES = 4 << 20
_TRAIN = "train"


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    configs: Sequence[str]
    overrides: Sequence[str]
    mode: str
    output_dir: Path
    tokenizer: str | None
    workers: int
    shuffle: bool
    seed: int
    blend: Sequence[str]
    overwrite_metrics: bool


@dataclass
class Measured:
    """What checking and measuring a span came to."""

    span: Span
    problems: FileProblems
    metrics: Metrics = field(default_factory=Metrics)
    rows: int = 0
    lines: int = 0
    agents: dict[str, int] = field(default_factory=dict)

    def add(self, report: ChunkReport) -> None:
        """Adds what the next chunk came to."""
        self.problems.add(report, self.span.first_line + self.lines)
        self.metrics.add(report)
        self.lines += report.lines
        self.rows += report.rows
        for name, count in report.agents.items():
            self.agents[name] = self.agents.get(name, 0) + count


@dataclass
class Prepared:
    """One of the files that the preparation makes."""

    type: str
    path: Path
    temporary: Path
    metrics_file: MetricsFile
    rows: int = 0
    size: int = 0
    state: str = ""


def prepare_command(options: Options, output_format: str) -> int:
    """Runs the command; returns its exit code."""
    interrupt_on_signals()  # so that no unfinished file stays
    start = time.monotonic()
    run = _Run(options)
    run.measure()
    if run.has_problems:
        return run.tell_problems(output_format)
    run.settle_datasets()
    with ExitStack() as stack:
        run.collate(stack)
        run.publish()
    document = run.document() | {"seconds": round(time.monotonic() - start, 3)}
    if output_format == "json":
        show_json(document)
    else:
        print_summary(document)
    note(f"{sum(one.rows for one in run.prepared):,} rows written ({seconds(document['seconds'])})")
    return 0


class _Run:
    """One preparation."""

    def __init__(self, options: Options) -> None:
        self.options = options
        weights = parse_weights(options.blend)
        config = load_config(options.configs, options.overrides, data_only=True)
        self.datasets = find_files(choose_datasets(config, options.mode))
        _check_targets(options, self.datasets)
        self.trained = [one for one in self.datasets if one.config.type == _TRAIN]
        self.weights = match_weights(weights, self.trained) if weights else []
        spans = [_span_of(one) for one in self.datasets]
        # Agents may share a file: it is read once.
        self.spans = list(dict.fromkeys(spans))
        self.span_of = dict(zip(self.datasets, spans, strict=True))
        self.tokenizer: TokenizerFile | None = find_tokenizer(options.tokenizer)
        self.measured: dict[Span, Measured] = {}
        self.documents: dict[Dataset, dict[str, Any]] = {}
        self.states: dict[Dataset, str] = {}
        self.prepared: list[Prepared] = []

    # ---- checking and measuring

    def measure(self) -> None:
        """Checks and measures every row of every dataset."""
        for one in self._measure(self.spans, "checking"):
            self.measured[one.span] = one

    def _measure(self, spans: Sequence[Span], what: str) -> list[Measured]:
        found = [Measured(span, FileProblems(_shown(span.path))) for span in spans]
        waiting: deque[tuple[Measured, int]] = deque()

        def chunks() -> Iterator[Chunk]:
            for one in found:
                for chunk in one.span.chunks():
                    waiting.append((one, chunk.size))
                    yield chunk

        total = sum(span.size for span in spans)
        workers = 0 if total < _SMALL_BYTES else self.options.workers
        path = self.tokenizer.path if self.tokenizer else None
        progress = Progress(what, total)
        rows = size = 0
        with closing(measure_all(chunks(), workers, path)) as reports:
            for report in reports:
                one, length = waiting.popleft()
                one.add(report)
                rows, size = rows + report.rows, size + length
                progress.tell(rows, size)
        progress.done()
        return found

    @property
    def has_problems(self) -> bool:
        """Whether any row is no task, or a dataset has none."""
        return any(one.problems.bad.count or not one.rows for one in self.measured.values())

    def tell_problems(self, output_format: str) -> int:
        """Names every row that is no task; returns the exit code."""
        bad = [one for one in self.measured.values() if one.problems.bad.count]
        empty = [one.problems.path for one in self.measured.values() if not one.rows]
        details = [line for one in bad for line in one.problems.lines(one.rows)]
        details += [f"{path}: it has no rows" for path in empty]
        if output_format == "json":
            documents = [one.problems.document() for one in bad]
            show_json({"mode": self.options.mode, "problems": documents, "empty": empty})
        count = sum(one.problems.bad.count for one in bad)
        what = f"{count:,} rows are no tasks" if count != 1 else "1 row is no task"
        head = what if count else "there are datasets without rows"
        CliError(f"{head}; nothing was written", "Correct the files and run it again.", details).show()
        return 1

    def settle_datasets(self) -> None:
        """Compares and writes the metrics of each dataset.

        Raises:
            CliError: they disagree with what was written before.
        """
        self.options.output_dir.mkdir(parents=True, exist_ok=True)
        conflicts: dict[Path, MetricsFile] = {}
        states: dict[Path, str] = {}
        for one in self.datasets:
            document = self._document_of([one])
            self._note_agents(one)
            # Agents may share a file and so its metrics, which are then described as the first one's.
            if one.metrics_path not in states:
                about = one.config.model_dump(mode="json", exclude_none=True)
                file = compare_metrics(one.metrics_path, about | document)
                states[file.path] = self._settle(file)
                if states[file.path] == "conflict":
                    conflicts[file.path] = file
            self.states[one] = states[one.metrics_path]
        if conflicts:
            raise _conflict(conflicts)

    def _settle(self, file: MetricsFile) -> str:
        overwrite, elsewhere = self.options.overwrite_metrics, self.options.output_dir
        return settle_metrics(file, overwrite=overwrite, elsewhere=elsewhere)

    def _document_of(self, datasets: Sequence[Dataset]) -> dict[str, Any]:
        """The metrics of datasets together."""
        if len(datasets) == 1:
            (one,) = datasets
            if one not in self.documents:
                # Not merged into others: that would take its memory twice.
                metrics = self._measured(one).metrics
                self.documents[one] = metrics.document(self._tokenizer_name, one.config.num_repeats)
            return self.documents[one]
        metrics = Metrics()
        for one in datasets:
            metrics.merge(self._measured(one).metrics, one.config.num_repeats)
        return metrics.document(self._tokenizer_name)

    @property
    def _tokenizer_name(self) -> str | None:
        return self.tokenizer.name if self.tokenizer else None

    def _measured(self, dataset: Dataset) -> Measured:
        return self.measured[self.span_of[dataset]]

    def _note_agents(self, dataset: Dataset) -> None:
        others = {name: n for name, n in self._measured(dataset).agents.items() if name != dataset.agent}
        for name, count in others.items():
            note(f"{count:,} rows of {dataset.label} named the agent {name}; they are given {dataset.agent}.")

    # ---- the prepared files

    def collate(self, stack: ExitStack) -> None:
        """Writes the prepared files under names that nobody sees yet; the stack takes away what is left.

        Raises:
            CliError: metrics disagree with what was written before, a file changed, or the disk is full.
        """
        for type_ in MODES[self.options.mode]:
            datasets = [one for one in self.datasets if one.config.type == type_]
            if datasets:
                path = self.options.output_dir / f"{type_}.jsonl"
                temporary = path.with_name(f".{path.name}.{os.getpid()}")
                stack.callback(temporary.unlink, missing_ok=True)
                file = _compare(path, self._document_of(datasets))
                self.prepared.append(Prepared(type_, path, temporary, file))
        # Blends are measured when they are written: till then their metrics are not known.
        self._check_conflicts([one for one in self.prepared if not self._is_blend(one)])
        for one in self.prepared:
            self._write(one)
        for span in self.spans:
            span.check_unchanged()
        self._check_conflicts(self.prepared)

    def _is_blend(self, prepared: Prepared) -> bool:
        return prepared.type == _TRAIN and bool(self.weights)

    def _check_conflicts(self, prepared: Sequence[Prepared]) -> None:
        if self.options.overwrite_metrics:
            return
        files = {one.metrics_file.path: one.metrics_file for one in prepared if one.metrics_file.differences}
        for file in files.values():
            self._settle(file)
        if files:
            raise _conflict(files)

    def _write(self, prepared: Prepared) -> None:
        progress = Progress(f"writing {prepared.path.name}")
        # Closed at once, whatever happens: a shuffle keeps files.
        with closing(self._rows_of(prepared)) as rows:
            prepared.rows, prepared.size = write_rows(prepared.temporary, rows, progress.tell)
        progress.done()
        if self._is_blend(prepared):
            span = find_span(prepared.temporary, 0, None)
            (measured,) = self._measure([span], f"measuring {prepared.path.name}")
            document = measured.metrics.document(self._tokenizer_name)
            prepared.metrics_file = _compare(prepared.path, document)

    def _rows_of(self, prepared: Prepared) -> Generator[bytes, None, None]:
        """The rows of a prepared file in their order, or blocks of them."""
        datasets = [one for one in self.datasets if one.config.type == prepared.type]
        parts = [
            Part(self.span_of[one].blocks, self._measured(one).rows, one.config.num_repeats, one.agent)
            for one in datasets
        ]
        if prepared.type != _TRAIN or not (self.weights or self.options.shuffle):
            yield from chain.from_iterable(part.blocks() for part in parts)
            return
        counts = [part.count for part in parts]
        size = sum(self.span_of[one].size * one.config.num_repeats for one in datasets)
        if self.weights:
            available = sum(counts)
            counts = share_out(self.weights, counts)
            size = size * sum(counts) // available
        if self.options.shuffle:
            random = Random(self.options.seed)
            seed = random.getrandbits(64)
            samples = (part.sample(count, random) for part, count in zip(parts, counts, strict=True))
            yield from shuffled(chain.from_iterable(samples), size, seed, self.options.output_dir)
            return
        firsts = [part.first(count) for part, count in zip(parts, counts, strict=True)]
        yield from blended(firsts, counts)

    def publish(self) -> None:
        """Gives the prepared files their names, and writes their metrics."""
        for one in self.prepared:
            one.temporary.replace(one.path)
            one.state = self._settle(one.metrics_file)

    # ---- the end

    def document(self) -> dict[str, Any]:
        """What was done, as JSON."""
        return {
            "mode": self.options.mode,
            "tokenizer": self._tokenizer_name,
            "datasets": [
                {
                    "agent": one.agent,
                    "name": one.config.name,
                    "type": one.config.type,
                    "file": _shown(one.path),
                    "rows": self._measured(one).rows,
                    "repeats": one.config.num_repeats,
                    "metrics_file": _shown(one.metrics_path),
                    "metrics_state": self.states[one],
                    "metrics": self.documents[one],
                }
                for one in self.datasets
            ],
            "files": [
                {
                    "type": one.type,
                    "file": str(one.path),
                    "rows": one.rows,
                    "bytes": one.size,
                    "metrics_file": str(one.metrics_file.path),
                    "metrics_state": one.state,
                    "metrics": dict(one.metrics_file.content),
                }
                for one in self.prepared
            ],
            "problems": [],
        }


def _span_of(dataset: Dataset) -> Span:
    return find_span(dataset.path, dataset.config.start_idx, dataset.config.end_idx)


def _compare(path: Path, document: dict[str, Any]) -> MetricsFile:
    return compare_metrics(path.with_name(f"{path.stem}_metrics.json"), document)


def _shown(path: Path) -> str:
    """A path as people would write it from where they are."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _check_targets(options: Options, datasets: Sequence[Dataset]) -> None:
    """Makes sure that no prepared file takes the place of a dataset."""
    targets = {(options.output_dir / f"{type_}.jsonl").resolve() for type_ in MODES[options.mode]}
    for one in datasets:
        if one.path.resolve() in targets:
            text = f"the prepared file would replace the dataset {one.path}"
            raise CliError(text, "Name another folder with --output-dir.")


def _conflict(files: dict[Path, MetricsFile]) -> CliError:
    details = [line for file in files.values() for line in file.lines()]
    hint = "Correct the data, or accept the new metrics with --overwrite-metrics."
    return CliError("metrics are not what they were; no prepared file was written", hint, details)
