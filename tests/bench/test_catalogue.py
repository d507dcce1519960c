"""All benches: jobs that rspo takes, seeds that no setting was chosen on, tables of nothing."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rspo.bench import escalation, markdown
from rspo.bench.catalogue import BENCHES
from rspo.bench.command import available
from rspo.bench.records import Records
from rspo.bench.tables import DOMAINS, Bench
from rspo.cli.discover import read_discover
from rspo.config import to_dict
from rspo.presets import preset

ROOT = Path(__file__).parent.parent.parent
every_bench = pytest.mark.parametrize("bench", BENCHES.values(), ids=BENCHES)
NAMES = (
    "four-goals-modes four-goals-hard-reward monster-hunt-strategies monster-hunt-efficiency "
    "monster-hunt-heatmaps escalation-reward escalation-count mujoco-diversity mujoco-returns "
    "mujoco-gaits evolutionary sensitivity-alpha sensitivity-lambda point smac-strategies "
    "smac-wins smac-diversity"
)


def test_every_table_and_figure_of_the_paper_is_there() -> None:
    assert list(BENCHES) == NAMES.split()


@every_bench
@pytest.mark.parametrize("quick", [False, True])
def test_its_jobs_have_settings_that_can_run(bench: Bench, quick: bool) -> None:
    jobs = bench.jobs(quick=quick)
    assert len({job.name for job in jobs}) == len(jobs)
    for job in jobs:
        assert job.env in DOMAINS[job.domain]
        assert " " not in job.name
        assert job.seed >= 100  # settings were chosen on others
        if available(job.env, job.method):
            config = job.config()
            assert (config["env"], config["seed"]) == (job.env, job.seed)
            assert not quick or config["iterations"] <= bench.quick.iterations


@every_bench
def test_what_the_paper_prints_belongs_to_a_row(bench: Bench) -> None:
    keys = {row.key for row in bench.rows}
    assert len(keys) == len(bench.rows)
    for column in bench.columns:
        assert set(column.paper) <= keys


@every_bench
def test_its_files_can_be_made_before_the_first_run_ends(bench: Bench) -> None:
    assert "Not run yet" in markdown.page(bench, [], "rspo bench", quick=False)
    ElementTree.fromstring(bench.figure(bench, []))


@every_bench
def test_its_files_can_be_made_from_the_published_records(bench: Bench) -> None:
    records = [
        record
        for domain in DOMAINS
        for record in Records(ROOT / "results" / f"{domain}.jsonl").read().values()
        if bench.job_of(record) is not None
    ]
    page = markdown.page(bench, records, "rspo bench", quick=False)
    assert "## Does the ranking agree" in page
    ElementTree.fromstring(bench.figure(bench, records))


def test_a_row_that_the_paper_lacks_runs_only_if_it_is_asked_for() -> None:
    bench = BENCHES["monster-hunt-strategies"]
    extra = "rspo, alpha 0.6"
    assert extra not in {f"{job.method}, {job.variant}" for job in bench.jobs()}
    (job,) = bench.jobs(methods=[extra], seeds=[7])
    assert (job.variant, job.seed, job.config()["measure"]["alpha"]) == ("alpha 0.6", 7, 0.6)
    assert {job.variant for job in bench.jobs(methods=["rspo"])} == {""}


def test_an_environment_may_have_seeds_of_its_own() -> None:
    bench = BENCHES["four-goals-modes"]
    jobs = bench.jobs(methods=["pg"])
    assert [(job.env, job.seed) for job in jobs[:4]] == [
        ("four-goals-easy", 100),
        ("four-goals-medium", 100),
        ("four-goals-hard", 105),
        ("four-goals-easy", 101),
    ]
    hard = [job.seed for job in jobs if job.env == "four-goals-hard"]
    assert hard == [105, 106, 107, 108, 109]
    quick = bench.jobs(methods=["pg"], envs=["four-goals-hard"], quick=True)
    assert [job.seed for job in quick] == hard[: bench.quick.seeds]
    (asked,) = bench.jobs(methods=["pg"], envs=["four-goals-hard"], seeds=[7])
    assert asked.seed == 7


def test_benches_that_share_runs_ask_for_the_same_seeds() -> None:
    """Of a method in an environment, or for the first of them."""
    found: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for bench in BENCHES.values():
        for row in [row for row in bench.rows if not row.variant]:
            for env in row.envs or bench.envs:
                found.setdefault((row.method, env), set()).add(bench.own_seeds(row, env))
    for seeds in found.values():
        most = max(seeds, key=len)
        assert all(own == most[: len(own)] for own in seeds)


def test_what_is_named_twice_runs_once() -> None:
    jobs = BENCHES["point"].jobs(methods=["pg", "pg"], envs=["point", "point"], seeds=[1])
    assert [job.name for job in jobs] == ["point-pg-seed1"]


def test_a_method_stands_for_its_plain_row_or_for_all_variants() -> None:
    counted, alphas = BENCHES["escalation-count"], BENCHES["sensitivity-alpha"]
    assert {job.variant for job in counted.jobs(methods=["rspo"])} == {""}
    assert "hard switching" in {job.variant for job in counted.jobs()}
    assert {job.variant for job in alphas.jobs(methods=["rspo"])} == {
        job.variant for job in alphas.jobs()
    }


def test_the_guide_shows_the_command_of_the_published_equilibria() -> None:
    guide = (ROOT / "docs" / "games.md").read_text()
    (command,) = re.findall(r"```bash\nrspo discover (.*?)```", guide, re.DOTALL)
    shown, _ = read_discover(command.replace("\\\n", " ").split())
    (job,) = BENCHES["escalation-count"].jobs(methods=["rspo, return measure"], seeds=[shown.seed])
    assert job.settings == escalation.RETURN_MEASURE
    assert job.config() == to_dict(shown)


def test_an_ablation_of_monster_hunt_takes_away_one_thing() -> None:
    """Without switching there are still both intrinsic rewards, and they end when the filter would
    be lifted."""
    full, without = (to_dict(preset("monster-hunt", name)) for name in ("rspo", "no-switch"))
    assert full["method"] | {"switch": "off"} == without["method"] | {
        name: full["method"][name] for name in ("name",) if name in full["method"]
    }
