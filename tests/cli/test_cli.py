"""The command line: every setting is a flag, mistakes are answered with one sentence, results are
clean to read."""

import importlib.metadata
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import product
import rspo.__main__
from product import DISCOVER, assert_refused, contents, here
from rspo.cli import main as cli
from rspo.cli.discover import read_discover
from rspo.config import Config, merge
from rspo.presets import preset
from rspo.registry import ENVIRONMENTS, METHODS
from test_config import ALL, BASE, nested


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands write here by default."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- what there is


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",), ("help",)])
def test_usage(arguments: tuple[str, ...]) -> None:
    outcome = here(*arguments)
    assert (outcome.code, outcome.err) == (0, "")
    for verb in cli.VERBS:
        assert f"\n  {verb}" in outcome.out


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(verb: str) -> None:
    outcome = here(verb, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"usage: rspo {verb}" in outcome.out


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag: str) -> None:
    assert here(flag) == (0, f"rspo {importlib.metadata.version('rspo')}\n", "")


def test_list() -> None:
    outcome = here("list")
    assert (outcome.code, outcome.err) == (0, "")
    names = [line.split()[0] for line in outcome.out.splitlines() if line.startswith("  ")]
    others = ["gym:ID", "pettingzoo:MODULE", "smac:MAP", "mypackage.module:make_env"]
    assert names == [*ENVIRONMENTS.summaries(), *others, *METHODS.summaries()]
    outcome = here("list", "--methods")
    assert (outcome.code, outcome.err) == (0, "")
    names = [line.split()[0] for line in outcome.out.splitlines() if line.startswith("  ")]
    assert set(METHODS.summaries()) <= set(names)


def test_the_program_is_installed_under_its_name() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="rspo")
    assert script.load() is rspo.__main__.main


def test_help_does_not_wait_for_jax() -> None:
    code = (
        "import sys; from rspo.cli.main import run; run(['--help']); sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_no_error(unbuffered: str) -> None:
    environment = product.environment(PYTHONUNBUFFERED=unbuffered)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-m", "rspo", "list"], env=environment, **pipes
    ) as process:
        assert process.stdout is not None
        process.stdout.close()  # before anything is written
        assert process.wait(100) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_full_disk_behind_standard_output_is_said() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "rspo", "list"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=product.environment()
        )
    assert done.returncode == 1
    assert done.stderr.startswith("rspo: ")
    assert "Traceback" not in done.stderr


# ---- settings


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def parsed(*arguments: str) -> Config:
    return read_discover(["four-goals-easy", *arguments])[0]


def another(name: str) -> tuple[list[str], Any]:
    """Another value of a setting than the preset's, as words of the command line and as itself."""
    hint, value = ALL[name], BASE
    for part in name.split("."):
        value = getattr(value, part)
    if hint is bool:
        return ([flag(name)], True) if not value else ([flag(name).replace(".", ".no-", 1)], False)
    if hint in (int, int | None):
        return [flag(name), "48"], 48
    if hint in (float, float | None):
        return [flag(name), "0.375"], 0.375
    if hint.__origin__ is tuple:
        return [flag(name), "0.25", "0.75"], (0.25, 0.75)
    other = next(option for option in hint.__args__ if option != value)
    return [flag(name), other], other


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("env", "method.name")])
def test_every_setting_is_a_flag_and_a_key_of_the_file(name: str, tmp_path: Path) -> None:
    words, value = another(name)
    expected = merge(BASE, nested(name, value), "test")
    assert expected != BASE
    assert parsed(*words) == expected
    *group, key = name.split(".")
    table = f"[{group[0]}]\n" if group else ""
    (tmp_path / "settings.toml").write_text(f"{table}{key} = {json.dumps(value)}\n")
    assert parsed("--config", "settings.toml") == expected


def test_every_setting_is_explained() -> None:
    text = here("discover", "--help-all").out
    for name in ALL:
        assert name in ("env", "method.name") or flag(name) in text
    assert "--method NAME" in text
    assert "--method.name" not in text
    assert "None" not in text


@pytest.mark.parametrize("method", METHODS.summaries())
def test_every_method_is_reachable_with_its_own_settings(method: str) -> None:
    assert parsed("--method", method) == preset("four-goals-easy", method)
    assert parsed(f"--method={method}") == preset("four-goals-easy", method)


@pytest.mark.parametrize("env", ENVIRONMENTS.summaries())
def test_every_environment_starts_from_its_preset(env: str) -> None:
    assert read_discover([env])[0] == preset(env)
    assert read_discover([env, "--seed", "3"])[0] == merge(preset(env), {"seed": 3}, "test")


def test_flags_may_stand_before_the_environment() -> None:
    read = lambda *words: read_discover(list(words))[0]
    expected = read("four-goals-hard", "--seed", "3", "--ppo.normalize-obs")
    assert read("--seed", "3", "four-goals-hard", "--ppo.normalize-obs") == expected
    assert read("--seed", "3", "--ppo.normalize-obs", "four-goals-hard") == expected


def test_flags_override_the_file_and_the_file_the_preset(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(
        'method = "no-switch"\nseed = 5\n[ppo]\nbatch = 160\nclip = 1\n'
    )
    config = parsed("--config", "settings.toml", "--seed", "6", "--ppo.clip", "0.5")
    start = preset("four-goals-easy", "no-switch")
    assert config == merge(start, {"seed": 6, "ppo": {"batch": 160, "clip": 0.5}}, "test")
    assert parsed("--config=settings.toml", "--method", "pg").method.name == "pg"


def test_the_file_may_name_the_environment_and_the_command_another(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('env = "four-goals-hard"\n')
    assert read_discover(["--config", "settings.toml"])[0] == preset("four-goals-hard")
    for words in (
        ["four-goals-easy", "--config", "settings.toml"],
        ["--config", "settings.toml", "four-goals-easy"],
    ):
        assert read_discover(words)[0] == preset("four-goals-easy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[ppo]\nupdats = 3",
            "settings.toml has an unknown setting 'ppo.updats'. Did you mean 'updates'?",
        ),
        ("itertions = 3", "unknown setting 'itertions'. Did you mean 'iterations'?"),
        ('iterations = "3"', "sets 'iterations' to '3', but it must be of type int"),
        ("iterations = 3.0", "must be of type int"),
        ("iterations = true", "must be of type int"),
        ("seed = 1979-05-27", "must be of type int"),
        ("ppo = 3", "sets 'ppo' to 3, but it is a group of settings"),
        ('[ppo]\npadding = "some"', "'ppo.padding' to 'some', but allowed are: count, drop"),
        ("[ppo]\ndecay = [1]", "'ppo.decay' to [1], but it must be a list of 2 numbers"),
        ('method = "rsop"', "Did you mean 'rspo'?"),
        ("method = 3", "method"),
        ('method = ["rspo"]', "method"),
        ("env = 3", "env"),
        ('env = ["four-goals-easy"]', "env"),
        (
            "[ppo]\nbatch = 100",
            "ppo.batch is 100, but it must be a multiple of the episode length 16: try 96.",
        ),
        ("[measure]\nalpha = nan", "measure.alpha is nan"),
        ("iterations = ", "settings.toml is not a TOML file"),
        ("\0", "settings.toml is not a TOML file"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "settings.toml").write_text(text)
    assert_refused(here("discover", "four-goals-easy", "--config", "settings.toml"), words)
    if "env" not in text:
        (tmp_path / "settings.toml").write_text(f'env = "four-goals-easy"\n{text}')
    assert_refused(here("discover", "--config", "settings.toml"), words)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.toml"]


@pytest.mark.parametrize("name", ["absent.toml", ".", "binary.toml"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    assert_refused(here("discover", "four-goals-easy", "--config", name), name)


# ---- mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("discvoer",), "Unknown command 'discvoer'. Did you mean 'discover'?"),
        (("zzzzzz",), f"Allowed: {', '.join(sorted(cli.VERBS))}."),
        (("--json",), "Unknown command '--json'."),
        (("discover",), "needs an environment"),
        (("discover", "--seed", "1"), "needs an environment"),
        (
            ("discover", "four-goals-esy"),
            "Unknown environment 'four-goals-esy'. Did you mean 'four-goals-easy'?",
        ),
        (("discover", "--seed", "3", "four-goals-esy"), "Unknown environment 'four-goals-esy'."),
        (("discover", "2m_vs_2z"), "Unknown environment '2m_vs_2z'. Did you mean '2m_vs_1z'?"),
        (("discover", "--seeds", "1", "2", "--ppo.decay", "0.5", "1e-1"), "needs an environment"),
        (("discover", ""), "environment"),
        (
            ("discover", "four-goals-easy", "--method", "rsop"),
            "Unknown method 'rsop'. Did you mean 'rspo'?",
        ),
        (("discover", "four-goals-easy", "--ppo.batch", "1000"), "ppo.batch is 1000"),
        (("discover", "four-goals-easy", "--ppo.batch", "1000000000000"), "ppo.batch is"),
        (("discover", "four-goals-easy", "--measure.alpha", "-1"), "measure.alpha is -1.0"),
        (("discover", "four-goals-easy", "--measure.alpha", "nan"), "measure.alpha is nan"),
        (("discover", "four-goals-easy", "--iterations", "0"), "iterations is 0"),
        (("discover", "four-goals-easy", "--seed", "-1"), "seed is -1"),
        (("discover", "four-goals-easy", "--seed", "1" * 30), "seed is 111"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(
    elsewhere: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert_refused(here(*arguments), words)
    assert contents(elsewhere) == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "--everything"), "Unrecognized options: --everything."),
        (
            ("discover", "four-goals-easy", "--ppo.upates", "3"),
            "--ppo.upates, 3. Did you mean --ppo.updates?",
        ),
        (
            ("discover", "four-goals-easy", "--seed", "INT"),
            "--seed is 'INT', but it must be a whole number.",
        ),
        (
            ("discover", "four-goals-easy", "--iterations", "1.5"),
            "--iterations is '1.5', but it must be a whole number.",
        ),
        (
            ("discover", "four-goals-easy", "--ppo.gamma", "x"),
            "--ppo.gamma is 'x', but it must be a number.",
        ),
        (
            ("discover", "four-goals-easy", "--ppo.padding", "a"),
            "is 'a', but it must be one of 'count', 'drop', 'restart'.",
        ),
        (("discover", "four-goals-easy", "--ppo.decay", "slow"), "--ppo.decay needs 2 values."),
        (
            ("discover", "four-goals-easy", "--ppo.decay", "0", "x"),
            "--ppo.decay is '0', 'x', but each must be a number.",
        ),
        (("discover", "four-goals-easy", "--seed"), "--seed needs a value."),
        (("discover", "four-goals-easy", "--config"), "--config needs a value."),
        (
            ("discover", "four-goals-easy", "four-goals-hard"),
            "Unrecognized options: four-goals-hard.",
        ),
        (
            ("evaluate",),
            "rspo evaluate needs a run folder, such as `rspo evaluate "
            "runs/four-goals-easy-rspo-seed0`.",
        ),
        (
            ("evaluate", "run", "--episodes", "many"),
            "--episodes is 'many', but it must be a whole number.",
        ),
        (("evaluate", "run", "--jsn"), "--jsn. Did you mean --json?"),
        (("resume", "run", "walk"), "Unrecognized options: walk."),
    ],
)
def test_a_flag_that_is_not_understood_is_answered_with_one_sentence(
    arguments: tuple[str, ...], words: str
) -> None:
    all_options = "--help-all" if arguments[0] == "discover" else "--help"
    assert_refused(
        here(*arguments), words, f"`rspo {arguments[0]} {all_options}` explains all options."
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", "--episodes", "0"), "episodes"),
        (("evaluate", "--episodes", "1000000000000"), "episodes"),
        (("evaluate", "--seed", "-1"), "seed"),
        (("evaluate", "--seed", "1" * 30), "seed"),
        (("play", "3"), "There is no strategy 3"),
        (("play", "-1"), "strategy -1"),
        (("play", "nowhere"), "There is no strategy 'nowhere'"),
        (("play", "0", "--episodes", "0"), "episodes"),
        (("play", "0", "--episodes", "-1"), "episodes"),
        (("play", "0", "--episodes", "1000000000000"), "episodes"),
        (("play", "0", "--seed", "-1"), "seed"),
        (("play", "0", "--seed", "1" * 30), "seed"),
        (("play", "0", "--speed", "0"), "speed"),
        (("play", "0", "--speed", "-1"), "speed"),
        (("play", "0", "--speed", "nan"), "speed"),
    ],
)
def test_a_bad_number_is_answered_with_one_sentence(
    finished: Path, arguments: tuple[str, ...], words: str
) -> None:
    verb, *options = arguments
    before = contents(finished)
    assert_refused(here(verb, finished, *options), words)
    assert contents(finished) == before


def test_a_run_without_strategies(elsewhere: Path, finished: Path) -> None:
    """One that was stopped in its first iteration can be looked at; there is only nothing to
    see."""
    run = shutil.copytree(finished, elsewhere / "run")
    for strategy in (run / "strategies").iterdir():
        shutil.rmtree(strategy)
    record = json.loads(here("evaluate", run, "--json").out)
    assert (record["strategies"], record["distinct"]) == ([], 0)
    assert_refused(here("play", run), "no strategies")
    assert_refused(here("play", run, "0"), "no strategies")
    assert_refused(here("play", run, "--svg", "picture.svg"), "no strategies")
    assert not Path("picture.svg").exists()


# ---- results


@pytest.mark.slow
def test_a_run_in_its_default_place(elsewhere: Path, finished: Path) -> None:
    """A new folder beside existing ones."""
    (elsewhere / "runs" / "four-goals-easy-rspo-seed0").mkdir(parents=True)
    outcome = here(*DISCOVER)
    assert outcome.code == 0, outcome
    assert "Kept in runs/four-goals-easy-rspo-seed0-2." in outcome.out
    assert product.results(elsewhere / "runs" / "four-goals-easy-rspo-seed0-2") == product.results(
        finished
    )


def test_what_is_piped_is_plain_text(finished: Path) -> None:
    """Progress on standard error, the result on standard output, no escape codes on either."""
    outcome = product.said_by(finished)
    assert "\x1b" not in outcome.out + outcome.err
    assert "\r" not in outcome.out + outcome.err
    first, *lines = outcome.err.splitlines()
    assert first == "four-goals-easy: 3 policies by rspo, 20 updates of 1024 steps each, seed 0"
    judged = [line for line in lines if "so far" in line]
    assert [line.split()[1] for line in judged] == ["1/3", "2/3", "3/3"]
    assert outcome.out.splitlines()[-2:] == [
        f"Kept in {finished}. Watch one with: rspo play {finished} 0",
        f"See all of them: open {finished / 'report.html'} in a browser",
    ]


def test_the_next_command_can_be_copied(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the folder's name is."""
    out = Path("my runs/it's #1")
    out.mkdir(parents=True)
    archive = rspo.load(finished)
    assert cli.finish(archive, out) == 0
    archive.interrupted = True
    assert cli.finish(archive, out) == 130
    lines = [line for line in capsys.readouterr().out.splitlines() if "with: " in line]
    commands = [shlex.split(line.split("with: ")[1]) for line in lines]
    assert commands == [["rspo", "play", str(out), "0"], ["rspo", "resume", str(out)]]


def test_the_command_is_kept_with_the_run(finished: Path) -> None:
    record = json.loads((finished / "run.json").read_bytes())
    assert record["command"].startswith("rspo discover four-goals-easy --iterations 3 ")


def test_evaluate_prints_the_summary(finished: Path) -> None:
    """The same episodes give the same numbers, to the last digit."""
    before = contents(finished)
    outcome = here("evaluate", finished, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.encode() == (finished / "summary.json").read_bytes()
    assert contents(finished) == before
    record = json.loads(outcome.out)
    assert {"env", "method", "seed", "strategies", "distinct"} <= record.keys()
    assert (record["env"], record["method"], record["seed"]) == ("four-goals-easy", "rspo", 0)
    names = {
        "index",
        "status",
        "return_mean",
        "return_std",
        "greedy_return_mean",
        "episodes",
        "descriptor",
        "accepted",
    }
    for index, strategy in enumerate(record["strategies"]):
        assert names <= strategy.keys()
        assert strategy["index"] == index
        assert strategy["episodes"] == 32
        assert strategy["status"] in ("novel", "weak", "duplicate", "failed")
        assert 0 <= strategy["return_mean"] <= 1
        assert 0 <= strategy["accepted"] <= 1
    assert len(record["strategies"]) == 3
    assert record["distinct"] == sum(
        strategy["status"] == "novel" for strategy in record["strategies"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--seed", "1"), ("--episodes", "64")])
def test_evaluate_on_other_episodes_gives_other_numbers(
    finished: Path, options: tuple[str, ...]
) -> None:
    outcome = here("evaluate", finished, "--json", *options)
    own, other = json.loads((finished / "summary.json").read_bytes()), json.loads(outcome.out)
    keys = ("return_mean", "return_std", "distance")
    assert [[s[k] for k in keys] for s in own["strategies"]] != [
        [s[k] for k in keys] for s in other["strategies"]
    ]
    assert [s["status"] for s in own["strategies"]] == [s["status"] for s in other["strategies"]]
    assert {s["episodes"] for s in other["strategies"]} == {64 if "--episodes" in options else 32}


def test_evaluate_as_a_table(finished: Path) -> None:
    outcome = here("evaluate", finished)
    record = json.loads((finished / "summary.json").read_bytes())
    rows = [line.split("│") for line in outcome.out.splitlines() if line.startswith("│")]
    assert [row[1].strip() for row in rows] == ["0", "1", "2"]
    assert [row[4].strip() for row in rows] == [
        f"{s['return_mean']:.3f}" for s in record["strategies"]
    ]
    assert "\x1b" not in outcome.out


def test_resuming_a_finished_run_changes_nothing(finished: Path) -> None:
    before = contents(finished)
    outcome = here("resume", finished)
    assert outcome.code == 0
    assert "Kept in" in outcome.out
    assert contents(finished) == before


@pytest.mark.slow
def test_play_in_a_pipe_prints_the_last_moment(finished: Path) -> None:
    outcome = here("play", finished)
    assert (outcome.code, outcome.err) == (0, "")
    assert "\x1b" not in outcome.out
    titles = [line for line in outcome.out.splitlines() if line.startswith("strategy ")]
    assert [title.split()[1] for title in titles] == ["0", "1", "2"]
    assert all("return " in title for title in titles)
    assert (
        "@" in here("play", finished, "0").out
    )  # where it ends at a landmark; others may leave the picture
    assert here("play", finished, "1").out in outcome.out
    assert here("play", finished, "1", "--episodes", "3").out.count("strategy 1") == 3


@pytest.mark.slow
def test_play_is_repeatable_and_follows_its_seed(finished: Path) -> None:
    first, again, *others = (
        here("play", finished, "0", "--sampled", "--seed", seed).out for seed in "11234567"
    )
    assert first == again
    assert {first} != set(others)  # two may look alike in the end, but not all
