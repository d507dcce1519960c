"""Tables, figures and words of a bench, from hand-made records."""

import base64
import csv
import dataclasses
import io
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from handmade import cells, policy, record
from rspo.bench import coverage, figures, markdown, output
from rspo.bench.record import Record
from rspo.bench.results import agreement, cell, summed_up
from rspo.bench.tables import Bench, Claim, Column, Order, Row
from rspo.core.grouped_bars import Bar, grouped_bars
from rspo.report.bench import blocks
from rspo.runs.store import StoreError, pack_json

best = lambda run: float(run["strategies"][0]["return_mean"])
BENCH = Bench(
    name="returns",
    title="Returns",
    shows="who earns most",
    rows=(
        Row("rspo", "RSPO"),
        Row("pg", "PG"),
        Row("rspo", "RSPO", "alpha 0.6"),
        Row("rnd", "RND"),
    ),
    columns=(
        Column("easy", "four-goals-easy", best, {"rspo": 4.0, "pg": (1.5, 0.25), "rnd": 1.0}),
        Column("hard", "four-goals-hard", best, {"rspo": 4.0, "pg": 1.0}),
    ),
    seeds=(100, 101),
    figure=figures.bars,
    ceiling=4.0,
)


def run(env: str, method: str, seed: int, value: float, **more: object) -> Record:
    return record(f"four-goals-{env}", method, seed, policy("up", return_mean=value), **more)


RECORDS = [
    run("easy", "rspo", 101, 3.0),
    run("easy", "rspo", 100, 2.0),
    run("easy", "pg", 100, 1.0),
    run("easy", "rspo", 100, 3.5, paper=True),
    run("easy", "rspo", 100, 0.5, variant="alpha 0.6"),
    run("hard", "rspo", 100, 1.0),
    run("hard", "pg", 100, 2.0),
]


def test_a_cell_has_every_seed_of_its_row_in_order() -> None:
    made = cell(RECORDS, BENCH.rows[0], BENCH.columns[0], "tuned")
    assert made is not None
    assert (made.seeds, made.values, made.mean) == ((100, 101), (2.0, 3.0), 2.5)
    assert made.interval == (2.0, 3.0)
    assert cell(RECORDS, BENCH.rows[3], BENCH.columns[0], "tuned") is None


def test_the_paper_its_settings_and_ours_are_columns_of_their_own() -> None:
    page = markdown.page(BENCH, RECORDS, "rspo bench returns", quick=False)
    head = cells(page, "method")[0]
    assert head[1:4] == ["easy: paper", "easy: tuned settings", "easy: paper's settings"]
    assert cells(page, "RSPO")[0][1:4] == ["4.00", "2.50 [2.00, 3.00]: 2 3", "3.50"]
    assert cells(page, "PG")[0][1:3] == ["1.50 (0.25)", "1.00"]
    assert cells(page, "RSPO (alpha 0.6)")[0][1:3] == ["", "0.50"]
    assert "quick" not in page.lower()
    assert "Made by `rspo bench returns` and `rspo bench returns --paper --methods rspo`:" in page


def test_a_table_too_wide_for_a_page_has_its_columns_below_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = lambda: markdown.page(BENCH, RECORDS, "rspo bench", quick=False)
    wide = cells(page(), "method")[0]
    assert wide[1:4] == ["easy: paper", "easy: tuned settings", "easy: paper's settings"]
    monkeypatch.setattr(markdown, "WIDEST", 60)
    narrow = page()
    assert cells(narrow, "column")[0] == [
        *("column", "method", "paper", "tuned settings", "paper's settings")
    ]
    easy = cells(narrow, "easy")
    assert easy[0] == ["easy", "RSPO", "4.00", "2.50 [2.00, 3.00]: 2 3", "3.50"]
    assert easy[1] == ["easy", "PG", "1.50 (0.25)", "1.00", "-"]
    assert [row[1] for row in easy] == ["RSPO", "PG", "RSPO (alpha 0.6)", "RND"]
    assert [row[1:] for row in cells(narrow, "hard")] == [
        ["RSPO", "4.00", "1.00", "-"],
        ["PG", "1.00", "2.00", "-"],
    ]


def test_a_wide_table_of_the_parts_of_a_run_keeps_a_run_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(markdown, "WIDEST", 60)
    columns = tuple(dataclasses.replace(column, group="parts") for column in BENCH.columns)
    bench = dataclasses.replace(BENCH, columns=columns)
    page = markdown.page(bench, RECORDS, "rspo bench", quick=False)
    assert cells(page, "method")[0][:4] == ["method", "numbers", "easy", "hard"]
    assert [row[1:4] for row in cells(page, "RSPO")][:3] == [
        ["the paper", "4.00", "4.00"],
        ["tuned settings", "2.50: 2 3", "1.00"],
        ["paper's settings", "3.50", "-"],
    ]
    assert [row[1:4] for row in cells(page, "RSPO (alpha 0.6)")] == [
        ["tuned settings", "0.50", "-"]
    ]


def test_settings_that_nothing_ran_with_have_no_column() -> None:
    ours = [one for one in RECORDS if not one["paper"]]
    assert "paper's settings" not in markdown.page(BENCH, ours, "rspo bench", quick=False)


def test_seeds_that_settings_were_chosen_on_are_named() -> None:
    page = lambda *more: markdown.page(BENCH, [*RECORDS, *more], "rspo bench", quick=False)
    assert "on which settings were chosen" not in page()
    low = page(run("easy", "pg", 2, 1.0), run("easy", "pg", 0, 1.0), run("hard", "rspo", 99, 1.0))
    assert (
        "Of seeds below 100, on which settings were chosen: PG in four-goals-easy (0, 2); RSPO in "
        "four-goals-hard (99)." in low
    )


def test_other_seeds_than_the_benchs_and_those_not_run_are_named() -> None:
    more = [run("easy", "pg", seed, 1.0) for seed in (107, 105, 106)]
    page = markdown.page(BENCH, [*RECORDS, *more], "rspo bench", quick=False)
    assert "Of seeds that are run only if asked for: PG in four-goals-easy (105 to 107)." in page
    assert "Not run yet: RSPO (alpha 0.6) in four-goals-hard; RND." in page
    assert (
        "Of these more seeds are not run yet: PG, RSPO (alpha 0.6) in four-goals-easy (101); RSPO, "
        "PG in four-goals-hard (101)." in page
    )
    assert coverage.spans([101, 100, 103, 105, 106]) == "100 to 101, 103, 105 to 106"


def test_other_steps_than_most_and_settings_nobody_kept_are_named() -> None:
    page = lambda *more: markdown.page(BENCH, [*RECORDS, *more], "rspo bench", quick=False)
    assert "Steps of each policy" not in page()
    assert "settings were recorded" not in page()
    long = run("easy", "rspo", 102, 1.0, steps=2_560_000, paper=True, config={})
    told = page(long, run("hard", "pg", 103, 1.0, steps=1_000_000))
    assert (
        "Steps of each policy: 500,000 in four-goals-easy, but 2,560,000 of RSPO with the paper's "
        "settings; 500,000 in four-goals-hard, but 1,000,000 of PG." in told
    )
    assert (
        "may differ from today's: RSPO with the paper's settings in four-goals-easy (102)." in told
    )


def test_a_run_without_one_of_the_numbers_is_named() -> None:
    known = lambda run: None if run["seed"] == 101 else best(run)
    easy = dataclasses.replace(BENCH.columns[0], value=known)
    told = lambda *columns: coverage.unknown(dataclasses.replace(BENCH, columns=columns), RECORDS)
    assert coverage.unknown(BENCH, RECORDS) == []
    assert told(easy) == ["Run, but without a number: RSPO in four-goals-easy (101)."]
    more = dataclasses.replace(BENCH.columns[0], title="more")
    assert told(easy, more) == ["Run, but without easy: RSPO in four-goals-easy (101)."]


def test_the_page_has_no_marks_of_emphasis_and_keeps_asterisks_that_mean_something() -> None:
    text = "# Title\n\n- *By name*: within 1 of L*, not **L**.\n\nup* `down` *Places*; * novel\n"
    (one, two) = [block for block in blocks(text) if block.kind != "heading"]
    assert one.lines == [["By name: within 1 of L*, not L."]]
    assert two.text == "up* down Places; * novel"


def test_a_link_to_a_report_works_whatever_the_folder_is_called(tmp_path: Path) -> None:
    runs = tmp_path / "r #1%"
    report = runs / "four-goals" / RECORDS[0]["job"] / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("here")
    output.write(BENCH, RECORDS[:1], tmp_path / "out" / "returns", runs, "rspo bench", quick=False)
    (link,) = re.findall(r'href="([^"]*report.html)"', (tmp_path / "out/returns.html").read_text())
    assert (tmp_path / "out" / unquote(link)).read_text() == "here"
    assert "#" not in link


def test_strategies_that_a_run_has_drawn_stand_below_each_other(tmp_path: Path) -> None:
    bench = dataclasses.replace(BENCH, drawn="tracks")
    made = lambda: output.write(bench, RECORDS, tmp_path / "returns", tmp_path, "rspo", quick=False)
    names = lambda: {path.name for path in made() if path.suffix == ".svg"}
    usual = {"returns.svg", "returns-profiles.svg"}
    assert names() == usual  # no folder is here
    drawn = tmp_path / "four-goals" / RECORDS[1]["job"] / "000-tracks.svg"
    drawn.parent.mkdir(parents=True)
    drawn.write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 200"></svg>')
    assert names() == usual  # the run in the folder is not finished
    (drawn.parent / "bench.json").write_bytes(pack_json(RECORDS[1]))
    assert names() == usual | {"returns-four-goals-easy.svg"}
    root = ElementTree.parse(tmp_path / "returns-four-goals-easy.svg").getroot()
    assert root.get("viewBox") == "0 0 300 240"
    (image,) = root.iter("{http://www.w3.org/2000/svg}image")
    start, data = image.attrib["href"].split(",")
    assert start == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == drawn.read_bytes()
    assert (tmp_path / "returns.html").read_text().count("<img") == 3
    drawn.write_text("half")
    with pytest.raises(StoreError, match=r"000-tracks\.svg is damaged"):
        made()
    (drawn.parent / "bench.json").write_bytes(pack_json(RECORDS[1] | {"steps": 7}))
    assert names() == usual  # it holds another run than the table's


def test_a_quick_version_says_so() -> None:
    quick = [one | {"quick": True} for one in RECORDS]
    page = markdown.page(BENCH, quick, "rspo bench returns --quick", quick=True)
    assert page.startswith("# Returns (quick version)")
    assert markdown.QUICK in page
    assert "seeds are not run yet" not in page
    assert "numbers without meaning" in figures.bars(BENCH, quick)
    assert output.table(BENCH, quick).splitlines()[1].endswith(",1")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (RECORDS, "easy: the order of methods is the paper's (1 pair; 1 may be chance)."),
        (
            [*RECORDS, run("easy", "pg", 101, 1.0)],
            "easy: the order of methods is the paper's (1 pair).",
        ),
        (
            [*RECORDS, run("easy", "pg", 101, 2.5)],
            "easy: the order of methods is the paper's (1 pair; 1 may be chance).",
        ),
        (
            RECORDS,
            "hard: the one pair of methods is in the other order here, RSPO is above PG there and "
            "below it here; 1 may be chance.",
        ),
        (
            [run("easy", "rspo", 100, 1.0), run("easy", "pg", 100, 1.0)],
            "easy: the one pair of methods is equal here; 1 may be chance.",
        ),
        (
            [run("easy", name, seed, 1.0) for name in ("rspo", "pg") for seed in (100, 101)],
            "easy: the one pair of methods is equal here.",
        ),
        (  # RSPO's other seed, on which it is below, is not compared
            [*RECORDS, run("easy", "rspo", 102, -9.0)],
            "easy: the order of methods is the paper's (1 pair; 1 may be chance).",
        ),
        (
            [*RECORDS, run("easy", "rnd", 100, 1.0)],
            "easy: 2 of 3 pairs of methods are in the paper's order, 1 is equal here; 3 may be "
            "chance.",
        ),
    ],
)
def test_the_ranking_is_compared_in_words(records: Sequence[Record], said: str) -> None:
    assert said in agreement(BENCH, records)


@pytest.mark.parametrize(
    ("words", "paper", "said"),
    [
        ((("rspo", ">", "pg"),), {"rspo": 4.0}, ["the order of methods is the paper's"]),
        ((("pg", "<=", "rspo"),), {}, ["the order of methods is the paper's"]),
        ((("rspo", "<=", "pg"),), {}, ["RSPO is not above PG there and is here; 1 may be chance."]),
        ((("rspo", ">", "rnd"),), {}, []),
        ((), {"rspo": 1.0, "pg": 1.0}, ["RSPO and PG are equal there, and RSPO is above PG here"]),
    ],
)
def test_what_the_paper_says_in_words_of_two_methods_is_compared_too(
    words: tuple[Order, ...], paper: dict[str, float], said: list[str]
) -> None:
    column = dataclasses.replace(BENCH.columns[0], paper=paper, words=words)
    sentences = lambda column: agreement(dataclasses.replace(BENCH, columns=(column,)), RECORDS)
    found = sentences(column)
    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))
    assert sentences(dataclasses.replace(column, ranked=False)) == []


def test_too_little_to_tell_is_said() -> None:
    page = markdown.page(BENCH, RECORDS[:1], "rspo bench returns", quick=False)
    assert "Too few of the methods" in page
    assert "Not run yet: RSPO in four-goals-hard; PG; RSPO (alpha 0.6); RND." in page


def test_a_paper_without_numbers_to_rank_is_said() -> None:
    silent = dataclasses.replace(
        BENCH, columns=(Column("easy", "four-goals-easy", best, {"rspo": 4.0}),)
    )
    page = markdown.page(silent, RECORDS, "rspo bench returns", quick=False)
    assert markdown.NO_ORDER in page
    assert markdown.TOO_FEW not in page


def test_what_the_paper_says_in_words_is_answered_seed_by_seed() -> None:
    """A run that cannot tell does not count, and a method without runs is not mentioned."""
    told = lambda run: None if best(run) == 3.5 else best(run) > 2
    spoken = dataclasses.replace(
        BENCH,
        columns=BENCH.columns[:1],
        claims=(
            Claim("RSPO earns more than 2", BENCH.rows[0], told),
            Claim("RND too", BENCH.rows[3], told),
        ),
    )
    easy = [one for one in RECORDS if one["env"] == "four-goals-easy"]
    page = markdown.page(spoken, easy, "rspo bench returns", quick=False)
    assert "- RSPO earns more than 2: so on 1 of 2 seeds with the tuned settings." in page
    assert page.count("RSPO earns more than 2") == 1
    assert "RND too" not in page


def test_only_rows_with_every_column_are_summed_up() -> None:
    lines = summed_up(BENCH, RECORDS)
    assert [(line.row.key, line.settings) for line in lines] == [("rspo", "tuned"), ("pg", "tuned")]
    # Of 2 and 3 in the easy mode, and 1 in the hard mode, which counts twice; 1 and 3 are left out.
    assert lines[0].mean == pytest.approx((1 + 2) / 2 / 4)


def test_the_summary_says_how_many_seeds_it_has_and_no_interval_of_one() -> None:
    summary = lambda records: cells(
        markdown.page(BENCH, records, "rspo bench returns", quick=False), "RSPO"
    )[-1]
    assert summary(RECORDS) == ["RSPO", "tuned settings", "2 1", "0.375", "-"]
    more = [*RECORDS, run("hard", "rspo", 101, 1.0)]
    assert summary(more) == ["RSPO", "tuned settings", "2 2", "0.375", "0.375 to 0.500"]


def test_profiles_are_drawn_of_rows_with_every_column() -> None:
    drawn = figures.profiles(BENCH, RECORDS)
    assert drawn is not None
    lines = ElementTree.fromstring(drawn).findall(".//{*}polyline/{*}title")
    assert [line.text for line in lines] == ["RSPO", "PG"]
    assert figures.profiles(BENCH, []) is None


def test_a_profile_has_a_band_only_where_every_column_has_several_seeds() -> None:
    bands = lambda records: figures.profiles(BENCH, records).count("<polygon")  # type: ignore[union-attr]
    assert bands(RECORDS) == 0
    assert bands([*RECORDS, run("hard", "rspo", 101, 1.0)]) == 1


def test_the_table_has_one_line_per_number() -> None:
    rows = list(csv.DictReader(io.StringIO(output.table(BENCH, RECORDS))))
    assert len(rows) == len(RECORDS)
    assert rows[0]["value"] == "2.0"
    assert rows[0]["paper"] == "4.0"
    assert {row["settings"] for row in rows} == {"tuned", "paper"}


def test_the_figure_has_a_bar_per_method_and_a_whisker_where_there_are_seeds() -> None:
    root = ElementTree.fromstring(figures.bars(BENCH, RECORDS))
    assert len(root.findall(".//{*}rect/{*}title")) == 6
    assert len(root.findall(".//{*}path")) == 1
    tallest = max(float(bar.get("height", 0)) for bar in root.findall(".//{*}rect[{*}title]"))
    assert tallest == pytest.approx(200 * 3.5 / 4)


def test_bars_of_many_methods_can_be_told_apart() -> None:
    names = [f"method {i}" for i in range(21)]
    drawn = grouped_bars("Many", {"": {"easy": {name: Bar(1.0) for name in names}}})
    bars = ElementTree.fromstring(drawn).findall(".//{*}rect[{*}title]")
    looks = {tuple(bar.get(key) for key in ("class", "fill-opacity", "stroke")) for bar in bars}
    assert len(looks) == len(bars) == 21


def test_nothing_done_yet_is_no_error() -> None:
    assert "Not run yet" in markdown.page(BENCH, [], "rspo bench returns", quick=False)
    ElementTree.fromstring(figures.bars(BENCH, []))
