"""A run folder from a stranger: links, pipes and huge files in the place of its own, records that
lie. Every command answers with one sentence, at once, and not a byte outside the folder changes."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import product
from pages import Undrawn, make_run
from product import assert_refused, contents, here, read_identity
from rspo.errors import InputError
from rspo.report import write_comparison
from rspo.report.comparison import compare_page
from rspo.report.page import run_page
from rspo.report.reading import read_run
from rspo.runs import store

STRATEGY = "strategies/000"
FILES = ("policy.safetensors", "metrics.jsonl", "episodes.safetensors", "strategy.json")
VERBS = ("resume", "evaluate", "play", "report")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def link(path: Path) -> None:
    """What stood there is now elsewhere, and is led to."""
    outside = _outside(path)
    if path.exists():
        shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name)


def _outside(path: Path) -> Path:
    run = next(folder for folder in path.parents if folder.name == "run")
    outside = run.with_name("outside")
    outside.mkdir(exist_ok=True)
    return outside


def pipe(path: Path) -> None:
    store.remove(path)
    os.mkfifo(path)


def huge(path: Path) -> None:
    store.remove(path)
    with open(path, "wb") as file:
        file.truncate(2**40)


def state(folder: Path) -> dict[str, Any]:
    """Every file below a folder; of what is none, its kind."""
    whole = {}
    for path in sorted(folder.rglob("*")):
        status = os.lstat(path)
        plain = path.is_file() and not path.is_symlink() and status.st_size < 2**30
        whole[str(path.relative_to(folder))] = (
            path.read_bytes() if plain else (status.st_mode, status.st_size)
        )
    return whole


@pytest.mark.parametrize("impostor", [link, pipe, huge])
@pytest.mark.parametrize(
    "name", ["run.json", *(f"{STRATEGY}/{name}" for name in FILES), STRATEGY, "strategies"]
)
def test_an_impostor_is_refused_by_every_command(
    run: Path, name: str, impostor: Callable[[Path], None]
) -> None:
    impostor(run / name)
    before = state(run.parent)
    for verb in VERBS:
        assert_refused(here(verb, run), str(run / name))
    assert state(run.parent) == before


@pytest.mark.parametrize("impostor", [link, pipe])
@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("lock", "resume"),
        ("checkpoint.safetensors", "resume"),
        ("times.json", "resume"),
        ("summary.json", "resume"),
        ("crossplay.json", "resume"),
        ("report.html", "resume"),
        ("times.json", "report"),
        ("crossplay.json", "report"),
        ("diversity.json", "report"),
        ("report.html", "report"),
        ("000-drawing.svg", "report"),
    ],
)
def test_an_impostor_is_refused_by_who_needs_the_file(
    run: Path, name: str, verb: str, impostor: Callable[[Path], None]
) -> None:
    impostor(run / name)
    outside = state(run.with_name("outside"))
    outcome = here(verb, run)
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert f"rspo: {run / name} is " in outcome.err
    assert state(run.with_name("outside")) == outside


@pytest.mark.slow
def test_nothing_is_written_through_the_links_of_a_folder(run: Path, finished: Path) -> None:
    """Names that were temporary ones once, or look like it."""
    outside = run.with_name("outside")
    outside.mkdir()
    (outside / "precious").write_bytes(b"years of work")
    for name in (
        "report.html",
        "summary.json",
        "times.json",
        "run.json",
        "checkpoint.safetensors",
        "diversity.json",
    ):
        (run / f".{name}.tmp").symlink_to(outside / "precious")
    shutil.rmtree(run / "strategies" / "002")
    (run / "strategies" / ".002.tmp").symlink_to(outside)
    assert here("report", run).code == 0
    assert contents(outside) == {"precious": b"years of work"}
    assert here("resume", run).code == 0
    assert contents(outside) == {"precious": b"years of work"}
    assert product.results(run) == product.results(finished)
    assert not [path for path in run.rglob("*") if path.is_symlink()]


def test_a_new_run_does_not_begin_in_a_link(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    folder.mkdir()
    (folder / "strategies").symlink_to(outside)
    assert_refused(here(*product.DISCOVER, "--out", folder), "strategies is a symbolic link")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", ["tensorboard", "wandb"])
def test_logs_are_not_written_through_links(run: Path, kind: str) -> None:
    outside = run.with_name("outside")
    outside.mkdir()
    (run / kind).symlink_to(outside)
    assert_refused(here("resume", run, "--log", kind), f"{kind} is a symbolic link")
    assert list(outside.iterdir()) == []


@pytest.mark.slow
def test_the_folder_itself_may_be_a_link(run: Path, finished: Path) -> None:
    (run / "strategies" / "002").rename(run.with_name("spare"))
    link = run.with_name("link")
    link.symlink_to(run)
    for verb in ("resume", "evaluate", "play", "report"):
        outcome = here(verb, link)
        assert outcome.code == 0, outcome
    assert product.results(run) == product.results(finished)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Root may read everything, so it is somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "name", ["", "run.json", "strategies", STRATEGY, f"{STRATEGY}/strategy.json"]
)
def test_what_may_not_be_read_is_said(run: Path, name: str) -> None:
    for folder in [*run.parents][: len(run.parents) - 2]:
        folder.chmod(folder.stat().st_mode | 0o555)
    path = run / name
    path.chmod(0)
    with nobody():
        outcomes = [here(verb, run) for verb in ("evaluate", "play", "report")]
    path.chmod(0o755)
    for outcome in outcomes:
        assert_refused(outcome, f"No permission to read {path}", "Change its permissions.")


# ---- records that lie, with checksums that fit


DEEP: Any = 1
for _ in range(12):
    DEEP = [DEEP]
VALUES = [
    None,
    True,
    -1,
    0,
    1,
    10**30,
    10**400,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    [],
    [1],
    ["x"],
    [[1.0]],
    {},
]
VALUES += [{"x": 1}, DEEP]


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Of every value in a record; of a list, the first, the last and the list."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*path, name))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1} if value else ()):
            yield from places(value[i], (*path, i))


def changed(record: Any, path: tuple, value: Any) -> Any:
    """A copy in which one value is another, or missing (`...`)."""
    record = json.loads(json.dumps(record))
    whole = record
    for part in path[:-1]:
        whole = whole[part]
    if value is ...:
        del whole[path[-1]]
    else:
        whole[path[-1]] = value
    return record


@pytest.fixture(scope="module", params=["hunt", "undrawn", "pendulum"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = {"hunt": "monster-hunt", "undrawn": Undrawn(), "pendulum": "gym:Pendulum-v1"}[
        request.param
    ]
    folder = make_run(tmp_path_factory.mktemp("made") / "run", env, 2)
    own = {"run": read_identity(folder)}
    names = [f"{i}" for i in range(2)]
    cross = {"strategies": names, "payoff": [[1.0, 2.0], [3.0, 4.0]], "episodes": 8}
    (folder / "crossplay.json").write_bytes(store.pack_json(own | cross))
    kernel = {"value": 0.5, "matrix": [[1.0, 0.5], [0.5, 1.0]], "scale": 0.5}
    (folder / "diversity.json").write_bytes(store.pack_json(own | kernel))
    return folder


RECORDS = (
    "run.json",
    "times.json",
    "crossplay.json",
    "diversity.json",
    "strategy.json",
    "metrics",
    "episodes",
)


def record_of(folder: Path, name: str) -> Any:
    home = folder / "strategies" / "001"
    if name == "metrics":
        return [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    if name == "episodes":
        return json.loads(store.read_arrays(home / "episodes.safetensors")[1]["rspo"])
    record = json.loads(((home if name == "strategy.json" else folder) / name).read_bytes())
    del record["sha256"]
    return record


def put_back(folder: Path, name: str, record: Any) -> None:
    """With checksums, and with the run's identity in all its parts."""
    home = folder / "strategies" / "001"
    files = {}
    if name == "metrics":
        files["metrics.jsonl"] = "".join(json.dumps(row) + "\n" for row in record).encode()
    elif name == "episodes":
        arrays = store.read_arrays(home / "episodes.safetensors")[0]
        files["episodes.safetensors"] = store.pack_arrays(arrays, {"rspo": json.dumps(record)})
    else:
        ((home if name == "strategy.json" else folder) / name).write_bytes(store.pack_json(record))
    for file, data in files.items():
        (home / file).write_bytes(data)
    if files:
        with product.rewritten(home / "strategy.json") as strategy:
            strategy["files"] |= {file: store.sha256(data) for file, data in files.items()}
    if name == "run.json":
        with contextlib.suppress(KeyError, TypeError):
            identity = read_identity(folder)
            parts = [folder / part for part in RECORDS[1:4]] + [
                *folder.glob("strategies/*/strategy.json")
            ]
            for part in parts:
                with product.rewritten(part) as own:
                    own["run"] = identity


def build(folder: Path) -> None:
    """Both pages, or one sentence."""
    try:
        run = read_run(folder)
    except InputError as error:
        assert str(folder) in str(error)  # noqa: PT017
        return
    run_page(run)
    compare_page([run])


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_a_record_that_lies_makes_a_page_or_a_sentence(
    made: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(RECORDS))
    record = record_of(made, name)
    path = data.draw(st.sampled_from(list(places(record))))
    value = data.draw(st.sampled_from([*VALUES, ...]))
    folder = shutil.copytree(made, tmp_path_factory.mktemp("lies") / "run")
    try:
        put_back(folder, name, changed(record, path, value))
        build(folder)
    finally:
        shutil.rmtree(folder)


@settings(max_examples=30)
@given(data=st.data())
def test_arrays_that_lie_make_a_page_or_a_sentence(
    made: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = shutil.copytree(made, tmp_path_factory.mktemp("lies") / "run")
    home = folder / "strategies" / "001"
    arrays, metadata = store.read_arrays(home / "episodes.safetensors")
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    others = [
        array[:0],
        array[None],
        array.ravel(),
        np.full_like(array, 0),
        array.astype(bool),
        array.astype(np.int64),
    ]
    others += [np.full(array.shape, value) for value in (np.nan, np.inf, 1e300)]
    arrays[name] = others[data.draw(st.integers(0, len(others) - 1))]
    if data.draw(st.booleans()):
        del arrays[name]
    packed = store.pack_arrays(arrays, metadata)
    (home / "episodes.safetensors").write_bytes(packed)
    with product.rewritten(home / "strategy.json") as strategy:
        strategy["files"]["episodes.safetensors"] = store.sha256(packed)
    build(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("run.json", ("config", "ppo"), "must have 'ppo'"),
        ("run.json", ("versions",), "must have 'versions'"),
        ("strategy.json", ("evaluation", "stats"), "must have 'stats'"),
        ("metrics", (5, "return"), "must have 'return'"),
        ("metrics", (5, "entropy"), "only some of its lines have 'entropy'"),
        ("episodes", ("maps",), "must have 'maps'"),
        ("crossplay.json", ("payoff",), "must have 'payoff'"),
    ],
)
def test_a_report_of_a_folder_that_lacks_something(
    made: Path, tmp_path: Path, name: str, path: tuple, words: str
) -> None:
    folder = shutil.copytree(made, tmp_path / "run")
    put_back(folder, name, changed(record_of(folder, name), path, ...))
    assert_refused(here("report", folder), "is damaged", words)
    assert_refused(
        here("report", folder, made, "--out", tmp_path / "both.html"), "is damaged", words
    )
    with pytest.raises(InputError):
        write_comparison([folder, made], tmp_path / "both.html")
    assert not (tmp_path / "both.html").exists()


@pytest.mark.parametrize(
    "text", [b"\xff\n", b"{\n", b"[" * 10**5, b'{"update": ' + b"9" * 5000 + b"}", b"[]\n"]
)
def test_metrics_that_are_none(made: Path, tmp_path: Path, text: bytes) -> None:
    folder = shutil.copytree(made, tmp_path / "run")
    home = folder / STRATEGY
    (home / "metrics.jsonl").write_bytes(text)
    with product.rewritten(home / "strategy.json") as strategy:
        strategy["files"]["metrics.jsonl"] = store.sha256(text)
    assert_refused(here("report", folder), "metrics.jsonl is damaged")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 10**4,
        "a = " + "[" * 100 + "]" * 100,
        ".".join("a" * 5000) + " = 1",
        "ppo = " + "{a=" * 2000 + "1" + "}" * 2000,
        "[" + ".".join(["ppo"] * 3000) + "]",
    ],
    ids=["open", "lists", "dots", "tables", "header"],
)
def test_settings_nested_deep_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text)
    assert_refused(
        here("discover", "four-goals-easy", "--config", tmp_path / "deep.toml"),
        "deep.toml",
        "nested",
    )


def test_settings_from_a_pipe_or_a_huge_file_are_refused(tmp_path: Path) -> None:
    pipe(tmp_path / "pipe.toml")
    huge(tmp_path / "huge.toml")
    discover = ("discover", "four-goals-easy", "--config")
    assert_refused(here(*discover, tmp_path / "pipe.toml"), "pipe.toml is a pipe")
    assert_refused(here(*discover, tmp_path / "huge.toml"), "huge.toml is larger than")
    assert_refused(here(*discover, tmp_path), "is a folder")
