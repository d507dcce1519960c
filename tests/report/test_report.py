"""The report: every number in it is in the run folder, nothing in the folder can run in it, and it
stays small."""

import base64
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import product
from pages import Linkage, Undrawn, make_run
from product import assert_refused, here, read_identity, rewritten
from rspo.config import merge, to_dict
from rspo.core import charts
from rspo.core.axes import number
from rspo.errors import InputError
from rspo.presets import preset
from rspo.report import write_report
from rspo.report.learning import switched_off
from rspo.report.reading import RunFolder, read_run
from rspo.report.render import embedded
from rspo.report.words import budget, duration, fixed
from rspo.runs import store
from rspo.runs.run import Run

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"&{{7*7}}"
HTML = "{http://www.w3.org/1999/xhtml}"


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(
        tmp_path_factory.mktemp("report") / "hunt", "monster-hunt", 4, method={"release": 0.0}
    )


@pytest.fixture
def run(hunt: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return shutil.copytree(hunt, tmp_path / "run")


def parsed(path: Path) -> Element:
    """The page, refused if it breaks a rule of HTML."""
    parser = html5lib.HTMLParser(strict=True)
    return parser.parse(path.read_bytes())


def words(element: Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def find(root: Element, tag: str, **attributes: str) -> list[Element]:
    names = {"class_": "class"}
    wanted = {names.get(name, name): value for name, value in attributes.items()}
    return [
        e
        for e in root.iter(f"{HTML}{tag}")
        if all(v in (e.get(k) or "").split() for k, v in wanted.items())
    ]


def data_of(root: Element) -> Any:
    (block,) = find(root, "script", id="data")
    return json.loads(block.text or "")


# ---- what it shows


def test_every_number_of_a_card_is_in_the_folder(hunt: Path) -> None:
    root = parsed(write_report(hunt))
    cards = find(root, "article", class_="card")
    assert len(cards) == 4
    for index, card in enumerate(cards):
        record = json.loads((hunt / f"strategies/{index:03d}/strategy.json").read_text())
        found, text = record["evaluation"], words(card)
        assert text.startswith(f"{index}: {found['descriptor']} {record['status']}")
        assert (
            f"Return {fixed(found['return_mean'])} ± "
            f"{fixed(found['return_std'], found['return_mean'])}" in text
        )
        mean, std = found["greedy_return_mean"], found["greedy_return_std"]
        assert f"Greedy return {fixed(mean)} ± {fixed(std, mean)}" in text
        entries = [words(item) for item in find(card, "li")]
        assert len(entries) == index
        for j, entry in enumerate(entries):
            assert f"{found['accepted_by'][j]:.0%}" in entry
            assert (
                f"distance {found['distance'][j]:.4g}, threshold {found['threshold'][j]:.4g}"
                in entry
            )


def test_a_card_says_why_it_has_its_status(run: Path) -> None:
    """A strategy of an earlier version, which kept no reasons, has none."""
    with rewritten(run / "strategies" / "001" / "strategy.json") as record:
        record["reason"] = HOSTILE
    with rewritten(run / "strategies" / "003" / "strategy.json") as record:
        del record["reason"]
    cards = find(parsed(write_report(run)), "article", class_="card")
    reasons = [[words(p) for p in find(card, "p", class_="reason")] for card in cards]
    assert reasons == [
        ["Novel: said of strategy 0."],
        [f"Novel: {HOSTILE}."],
        ["Duplicate: said of strategy 2."],
        [],
    ]
    archive = Run.open(run).load()
    assert [strategy.reason for strategy in archive][1:] == [HOSTILE, "said of strategy 2", ""]


def test_the_headline_says_what_was_found(hunt: Path) -> None:
    (title,) = find(parsed(write_report(hunt)), "h1")
    run = read_run(hunt)
    best = max(run.strategies, key=lambda s: s.evaluation["return_mean"])
    assert run.seconds is not None
    assert words(title) == (
        f"2 distinct strategies for monster-hunt found in {duration(run.seconds)}; the best "
        "returns "
        f"{fixed(best.evaluation['return_mean'])} ({best.name})"
    )


def test_the_matrix_has_every_distance_and_threshold(hunt: Path) -> None:
    root = parsed(write_report(hunt))
    (table,) = find(root, "table", class_="matrix")
    rows = find(table, "tr")[1:]
    for i, row in enumerate(rows, start=1):
        found = json.loads((hunt / f"strategies/{i:03d}/strategy.json").read_text())["evaluation"]
        cells = [words(cell) for cell in find(row, "td")]
        assert cells[i:] == [""] * (len(cells) - i)
        for j in range(i):
            mark = "✓" if found["distance"][j] >= found["threshold"][j] else "✗"
            assert cells[j] == f"{found['distance'][j]:.4g} {mark} δ {found['threshold'][j]:.4g}"


def test_only_the_policies_that_were_references_are_compared(tmp_path: Path) -> None:
    """Strategy 2 is a duplicate, so strategy 3 was compared with 0 and 1 alone."""
    folder = make_run(tmp_path / "run", Undrawn(), 4, judge={"episodes": 8, "references": "novel"})
    card = find(parsed(write_report(folder)), "article", class_="card")[3]
    assert [words(item).split(" 100%")[0] for item in find(card, "li")] == [
        "Strategy 0",
        "Strategy 1",
    ]


def test_the_animations_are_the_recorded_episodes(hunt: Path) -> None:
    shown = data_of(parsed(write_report(hunt)))
    for strategy, found in zip(shown["strategies"], read_run(hunt).strategies, strict=True):
        assert found.episodes is not None
        assert len(strategy["episodes"]) == len(found.episodes["episodes"])
        for n, episode in enumerate(strategy["episodes"]):
            packed = episode["packed"]["place"]
            kept = store.read_arrays(hunt / f"strategies/{found.index:03d}/episodes.safetensors")[
                0
            ][f"{n}.place"]
            assert tuple(packed["shape"]) == kept.shape
            assert base64.b64decode(packed["data"]) == kept.astype("<i2").tobytes()


@pytest.mark.slow
def test_drawings_are_as_large_as_what_is_in_them(hunt: Path, tmp_path: Path) -> None:
    assert data_of(parsed(write_report(hunt)))["extent"] == 1.15  # the grid reaches from -1 to 1
    goals = make_run(tmp_path / "run", "four-goals-easy", 2)
    greedy = [(s, n) for s in read_run(goals).strategies for n in (0,) if s.episodes]
    reach = max(np.abs(s.arrays[f"{n}.place"].astype(int)).max() for s, n in greedy) / 4096
    assert data_of(parsed(write_report(goals)))["extent"] == pytest.approx(1.15 * reach, abs=1e-4)


def test_the_moments_when_switches_turn_off(hunt: Path) -> None:
    """As the made-up metrics have it: reference j from update 10 (j + 1) on."""
    rows = find(parsed(write_report(hunt)), "article", class_="learning")
    assert "Switched" not in words(rows[0])
    for index in (1, 2, 3):
        for j in range(index):
            assert re.search(
                rf"Switched off:.* {j}: \w+ at update {10 * (j + 1)}\b", words(rows[index])
            )


def test_a_chart_that_is_zero_throughout_is_only_named(hunt: Path, tmp_path: Path) -> None:
    titles = lambda row: [words(e) for e in find(row, "figcaption")]
    rows = find(parsed(write_report(hunt)), "article", class_="learning")
    assert "Intrinsic reward per step" in titles(rows[1])
    run = shutil.copytree(hunt, tmp_path / "run")
    metrics = run / "strategies" / "001" / "metrics.jsonl"
    zero = [json.loads(line) | {"intrinsic": 0.0} for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in zero))
    with rewritten(run / "strategies" / "001" / "strategy.json") as record:
        record["files"]["metrics.jsonl"] = store.sha256(metrics.read_bytes())
    row = find(parsed(write_report(run)), "article", class_="learning")[1]
    assert "Intrinsic reward per step" not in titles(row)
    assert "0 throughout, and not drawn: Intrinsic reward per step." in words(row)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "folded"), [(3, False), (9, True)])
def test_of_many_strategies_the_learning_section_folds(
    tmp_path: Path, count: int, folded: bool
) -> None:
    run = make_run(tmp_path / "run", Undrawn(), count)
    rows = find(parsed(write_report(run)), "article", class_="learning")
    assert [find(row, "details")[0].get("open") is None for row in rows] == [folded] * count


def test_pictures_of_single_strategies_are_in_the_page_as_many_as_fit(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("000-gait.svg", "000-gait.png", "001-gait.png", "crossplay.svg", "other.png"):
        (run / name).write_bytes(name.encode() * 10)
    shown = [
        [image.get("src", "").partition(";")[0] for image in find(panel, "img")]
        for panel in find(parsed(write_report(run)), "div", class_="drawing")
    ]
    assert shown == [["data:image/svg+xml", "data:image/png"], ["data:image/png"]]
    monkeypatch.setattr("rspo.report.drawings.BUDGET", 200)
    root = parsed(write_report(run))
    assert len(find(root, "img")) == 1
    assert "leaves out 2 pictures of the run folder" in words(root)


def test_what_is_needed_to_repeat_it(hunt: Path) -> None:
    (section,) = find(parsed(write_report(hunt)), "section", id="repeat")
    text, record = words(section), json.loads((hunt / "run.json").read_text())
    for name, version in record["versions"].items():
        assert f"{name} {version}" in text
    for setting in (
        "ppo.learning_rate",
        "method.lambda_b",
        "measure.alpha",
        "judge.references",
        "seed",
    ):
        assert setting in text
    assert "@inproceedings{zhou2022rspo" in text
    code = words(find(section, "code")[0])
    assert code.startswith("# from Python")
    assert "rspo.discover( 'monster-hunt'" in code


def test_cross_play_and_diversity_are_shown_where_they_were_measured(run: Path) -> None:
    payoff = [[1.25, -2.0, 0.0, 3.0]] * 4
    names = ["0 mixed", "1 Corner", "2 mixed", "3 mixed"]
    write_part(run / "crossplay.json", {"strategies": names, "payoff": payoff, "episodes": 64})
    kernel = [[1, 0.25], [0.25, 1]]  # of the two distinct ones
    write_part(
        run / "diversity.json", {"value": 0.359, "scale": 0.5, "states": 100, "matrix": kernel}
    )
    root = parsed(write_report(run))
    between, table = find(root, "table", class_="matrix")[1:]
    assert [[words(cell) for cell in find(row, "td")] for row in find(between, "tr")[1:]] == [
        ["1", "0.25"],
        ["0.25", "1"],
    ]
    cells = [words(cell) for cell in find(find(table, "tr")[1], "td")]
    assert cells == ["1.25", "\N{MINUS SIGN}2", "0", "3"]
    assert [words(head) for head in find(table, "th")[:4]] == names
    said = words(find(root, "section", id="diversity")[0])
    assert "0.359 for the 2 distinct strategies" in said
    assert "scale 0.5 states 100" in said


def write_part(path: Path, record: Any) -> None:
    path.write_bytes(store.pack_json({"run": read_identity(path.parent), **record}))


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"strategies": [0], "payoff": [[1.0, 2.0]], "episodes": 1},
        {"strategies": 5, "payoff": 1},
    ],
)
def test_cross_play_that_makes_no_sense_is_refused(run: Path, record: Any) -> None:
    write_part(run / "crossplay.json", record)
    assert_refused(here("report", run), str(run), "damaged")


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", '{"run": "another"}'])
def test_cross_play_of_another_run_is_refused(run: Path, text: str) -> None:
    (run / "crossplay.json").write_text(text)
    assert_refused(here("report", run), "crossplay.json")
    if "run" in text:
        (run / "crossplay.json").write_bytes(store.pack_json(json.loads(text)))
        assert_refused(here("report", run), "another run")


def test_heat_maps_of_the_meetings(hunt: Path) -> None:
    root = parsed(write_report(hunt))
    *on_cards, maps = find(root, "div", class_="heat")
    assert len(on_cards) == 4
    figures = find(maps, "figure")
    assert len(figures) == 4
    for index, figure in enumerate(figures):
        grid = read_run(hunt).strategies[index].arrays["map.0"]
        cells = [e for e in figure.iter() if e.tag.endswith("}rect")]
        assert len(cells) == 25
        for cell in cells:
            x, y = int(cell.get("x", "")), 4 - int(cell.get("y", ""))
            assert cell.get("fill") == charts.shade(float(grid[y, x]) / max(grid.max(), 1e-9))


def test_the_numbers_behind_a_name_are_drawn_where_they_are_parts_of_one_thing(run: Path) -> None:
    """The cells of a heat map and the shares of a distribution are no list."""
    with rewritten(run / "strategies" / "001" / "strategy.json") as record:
        found = record["evaluation"]["stats"]
        assert any(name.startswith("meet(") for name in found)
        record["evaluation"]["stats"] = {**found, "P(L=1)": 0.25, "P(L=3)": 0.75}
    card = find(parsed(write_report(run)), "article", class_="card")[1]
    rows = {
        words(row).split()[0]: words(row).split()[1] for row in find(find(card, "table")[0], "tr")
    }
    assert rows == {n: number(v) for n, v in found.items() if not n.startswith("meet(")}
    (bars,) = find(card, "figure", class_="bars")
    assert words(find(bars, "figcaption")[0]) == "L: most often 3, 75%"
    heights = [float(e.get("height", "")) for e in bars.iter() if e.tag.endswith("}rect")]
    np.testing.assert_allclose(heights, [0, 1 / 3, 0, 1], atol=1e-3)
    assert len(find(find(card, "div", class_="heat")[0], "figure")) == 1


@pytest.mark.slow
def test_forces_are_shown_as_histograms(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "gym:Pendulum-v1", 1)
    (bars,) = find(parsed(write_report(run)), "figure", class_="bars")
    kept = read_run(run).strategies[0].arrays["actions"][0]
    heights = [float(e.get("height", "")) for e in bars.iter() if e.tag.endswith("}rect")]
    np.testing.assert_allclose(heights, kept / kept.max(), atol=1e-3)


def test_what_is_not_in_the_lanes_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Undrawn(), 1)
    assert "the lanes show every observed number over time" in words(parsed(write_report(run)))
    folder = run / "strategies" / "000"
    arrays, metadata = store.read_arrays(folder / "episodes.safetensors")
    episodes = json.loads(metadata["rspo"])
    for episode in episodes["episodes"]:
        episode["observed"] = 30
    packed = store.pack_arrays(arrays, {"rspo": json.dumps(episodes)})
    (folder / "episodes.safetensors").write_bytes(packed)
    with rewritten(folder / "strategy.json") as record:
        record["files"]["episodes.safetensors"] = store.sha256(packed)
    assert "the first 3 of 30 observed numbers" in words(parsed(write_report(run)))


@pytest.mark.slow
def test_the_versions_of_what_an_environment_needs_are_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "gym:Pendulum-v1", 1)
    assert json.loads((run / "run.json").read_text())["versions"][
        "gymnasium"
    ] == importlib.metadata.version("gymnasium")


# ---- whatever the folder holds


@pytest.mark.slow
def test_a_run_without_recorded_episodes_says_so(run: Path) -> None:
    """As written by a version that kept none."""
    for folder in (run / "strategies").iterdir():
        (folder / "episodes.safetensors").unlink()
        with rewritten(folder / "strategy.json") as record:
            del record["files"]["episodes.safetensors"]
    (run / "times.json").unlink()
    root = parsed(write_report(run))
    text = words(root)
    assert "There are no recorded episodes of any strategy in this folder" in text
    assert "found in" not in words(find(root, "h1")[0])
    assert "Work not recorded" in text
    assert find(root, "canvas") == []
    assert here("evaluate", run).code == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"ppo": {"settled": 9}}, ", fewer where one had settled"),
        ({"judge": {"attempts": 3}}, ", without repeated attempts"),
    ],
)
def test_the_budget_is_the_planned_environment_steps(changed: dict[str, Any], said: str) -> None:
    sizes = {"iterations": 4, "ppo": {"updates": 40, "batch": 400}}
    config = merge(merge(preset("monster-hunt", "rspo"), sizes, "test"), changed, "test")
    run = RunFolder(Path(), {"config": to_dict(config)}, [], None, {})
    assert run.steps_of_each * config.iterations == config.steps
    assert budget(run) == f"64,000 environment steps, 16,000 for each policy{said}"


def test_the_page_has_the_budget(hunt: Path) -> None:
    assert f"Budget {budget(read_run(hunt))} Seed" in words(parsed(write_report(hunt)))


def test_a_run_that_is_not_finished_says_so(run: Path) -> None:
    shutil.rmtree(run / "strategies" / "003")
    assert "3 of 4 iterations are done" in words(parsed(write_report(run)))
    for folder in (run / "strategies").iterdir():
        shutil.rmtree(folder)
    assert "No strategies for monster-hunt yet" in words(parsed(write_report(run)))


@pytest.mark.parametrize("name", ["episodes.safetensors", "metrics.jsonl", "strategy.json"])
def test_a_changed_file_is_refused(run: Path, name: str) -> None:
    path = run / "strategies" / "001" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    (run / "report.html").write_text("mine")
    assert_refused(here("report", run), name)
    assert (run / "report.html").read_text() == "mine"


@pytest.mark.parametrize("name", ["run.json", "times.json"])
def test_a_changed_record_is_refused(run: Path, name: str) -> None:
    text = (run / name).read_text()
    (run / name).write_text(text.replace("1", "2", 1))
    assert_refused(here("report", run), name)


def test_text_from_the_folder_never_runs(run: Path) -> None:
    """Names, numbers' names, labels, settings, versions: all of them hostile."""
    forge(run)
    page = write_report(run)
    root = parsed(page)
    assert len(find(root, "script")) == 2
    assert find(root, "img") == []
    assert HOSTILE in words(find(root, "h3")[0])
    assert HOSTILE in words(find(root, "h1")[0])
    assert "{{7*7}}" in page.read_text()  # a template in a name is a name
    for element in root.iter():
        assert not any(name.startswith("on") for name in element.attrib)


def forge(run: Path) -> None:
    """Put hostile text wherever a run folder holds text, with checksums that fit."""
    with rewritten(run / "run.json") as record:
        record["config"]["env"] = record["command"] = record["created"] = HOSTILE
        record["versions"][HOSTILE] = HOSTILE
    with rewritten(run / "times.json") as times:
        times["run"] = read_identity(run)
    write_part(run / "crossplay.json", {"strategies": [HOSTILE], "payoff": [[1]], "episodes": 1})
    write_part(
        run / "diversity.json", {"value": 1.0, "matrix": [[1.0, 0.0], [0.0, 1.0]], HOSTILE: HOSTILE}
    )
    for folder in (run / "strategies").iterdir():
        arrays, metadata = store.read_arrays(folder / "episodes.safetensors")
        episodes = json.loads(metadata["rspo"])
        episodes["maps"] = [HOSTILE]
        for episode in episodes["episodes"]:
            episode["kinds"] = [[HOSTILE, HOSTILE] for _ in episode["kinds"]]
        packed = store.pack_arrays(arrays, {"rspo": json.dumps(episodes)})
        (folder / "episodes.safetensors").write_bytes(packed)
        with rewritten(folder / "strategy.json") as record:
            record["run"] = read_identity(run)
            record["files"]["episodes.safetensors"] = store.sha256(packed)
            found = record["evaluation"]
            found["descriptor"] = found["sampled_descriptor"] = HOSTILE
            found["stats"] = {HOSTILE: 1.0}


@given(
    st.recursive(
        st.none() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_embedded_data_comes_back_and_cannot_leave_its_element(value: Any) -> None:
    text = str(embedded(value))
    assert not set("<>&\u2028\u2029") & set(text)

    def finite(item: Any) -> Any:
        if isinstance(item, dict):
            return {k: finite(v) for k, v in item.items()}
        if isinstance(item, list):
            return [finite(v) for v in item]
        return None if isinstance(item, float) and not np.isfinite(item) else item

    assert json.loads(text) == finite(value)


def test_nothing_outside_is_referred_to(hunt: Path) -> None:
    for element in parsed(write_report(hunt)).iter():
        for name in ("src", "href", "action", "{http://www.w3.org/1999/xlink}href"):
            value = element.get(name)
            assert value is None or value.startswith(("#", "data:"))


@pytest.mark.slow
def test_twenty_strategies_fit_into_five_megabytes(tmp_path: Path) -> None:
    """Of a robot with 15 limbs and a thousand steps: more than all recorded episodes would fit."""
    page = write_report(make_run(tmp_path / "run", Linkage(limbs=15, horizon=1000), 20))
    assert 2_000_000 < page.stat().st_size < 5_000_000
    shown = data_of(parsed(page))["strategies"]
    assert len(shown) == 20
    assert all(
        {episode["mode"] for episode in strategy["episodes"]} == {"greedy", "sampled"}
        for strategy in shown
    )
    total = sum(len(strategy["episodes"]) for strategy in shown)
    assert f"this page shows {total} of 160 recorded episodes" in words(parsed(page))


# ---- the command


def test_the_command_rebuilds_the_page_from_the_folder_alone_and_without_jax(
    run: Path, tmp_path: Path
) -> None:
    code = "import sys; from rspo.cli.main import run; run(sys.argv[1:]); sys.exit('jax' in sys.modules)"
    command = [sys.executable, "-c", code, "report", str(run)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=product.environment()
    )
    assert done.returncode == 0, done.stderr
    assert str(run / "report.html") in done.stdout
    first = (run / "report.html").read_bytes()
    outcome = here("report", run, "--out", tmp_path / "elsewhere.html")
    assert outcome.code == 0
    assert (tmp_path / "elsewhere.html").read_bytes() == first


def test_a_run_ends_with_a_report(finished: Path) -> None:
    assert str(finished / "report.html") in product.said_by(finished).out
    assert len(find(parsed(finished / "report.html"), "article", class_="card")) == 3
    before = (finished / "report.html").read_bytes()
    write_report(finished)
    assert (finished / "report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "needs a run folder"),
        (("absent",), "absent does not exist"),
        ((".",), "no run.json"),
        (("page.html",), "page.html is a file, but a run is a folder"),
    ],
)
def test_what_is_no_run(
    arguments: tuple[str, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.html").touch()
    assert_refused(here("report", *arguments), expected)


def test_strategies_that_do_not_fit_together_are_refused(run: Path) -> None:
    with rewritten(run / "strategies" / "002" / "strategy.json") as record:
        record["evaluation"]["distance"] = [1.0]
    with pytest.raises(InputError, match="strategy 2 does not fit"):
        write_report(run)


# ---- charts


@pytest.mark.parametrize(
    ("accepted", "moment"),
    [
        ([1.0] * 40, 0),
        ([0.5] * 10 + [1.0] * 30, 10),
        ([1.0, 0.9] * 10 + [1.0] * 20, 20),
        ([0.5] * 40, None),
        ([0.5] * 39 + [1.0], None),  # one good batch at the very end says nothing
        ([0.5] * 38 + [0.95] * 2, 38),
    ],
)
def test_when_a_switch_is_off(accepted: list[float], moment: int | None) -> None:
    assert switched_off(np.array(accepted)) == moment


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.23456, "1.235"), (-99.99, "\N{MINUS SIGN}99.990"), (-1168.816, "\N{MINUS SIGN}1168.8")],
)
def test_returns(value: float, text: str) -> None:
    assert fixed(value) == text
    assert fixed(7.5, beside=value) == ("7.500" if abs(value) < 100 else "7.5")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5.4, "5 s"), (59.7, "60 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (None, None)],
)
def test_durations(seconds: float | None, text: str | None) -> None:
    assert duration(seconds) == text
