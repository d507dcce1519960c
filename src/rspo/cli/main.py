"""The command line: verbs only. Each is one call of the library."""

import io
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import tyro
from rich.console import Console

from rspo.cli.arguments import parse
from rspo.cli.bench import bench, check_one_seed, several_seeds
from rspo.cli.completion import completion
from rspo.cli.discover import read_discover
from rspo.core import interrupt
from rspo.errors import InputError, RspoError, suggestion
from rspo.text import LONGEST, printable

if TYPE_CHECKING:  # imported where they are used: `rspo --help` should not wait for JAX
    from rspo.search.archive import Archive


@dataclass
class List:
    """What there is to choose from."""

    methods: bool = False
    """Only the methods: kind, description, and requirements on the environment."""


@dataclass
class Evaluate:
    """Play every strategy of a run again and report its returns."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    json: bool = False
    """Print one JSON object instead of a table."""
    episodes: int | None = None
    """Another number of episodes than the run's own."""
    seed: int | None = None
    """Other episodes than the run's own."""
    env: str | None = None
    """For a run in your own environment, what makes it: mypackage.module:make_env."""


@dataclass
class Resume:
    """Continue an interrupted run, to the same result as without the interruption."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    iterations: int | None = None
    """Continue to this many, as if the run had been started with them."""
    env: str | None = None
    """For a run in your own environment, what makes it: mypackage.module:make_env."""
    log: Literal["tensorboard", "wandb"] | None = None
    """Also send metrics to TensorBoard or Weights & Biases."""


@dataclass
class Play:
    """Watch a strategy in the terminal, or draw it: all strategies as one picture, or episodes as a
    film."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    strategy: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[STRATEGY]")] = (
        None
    )
    """The strategy's number or name; without it, all of them in turn."""
    episodes: int = 1
    """Episodes to show of each."""
    seed: int = 0
    """Which episodes; the same for every strategy."""
    sampled: bool = False
    """Sample actions instead of taking the likeliest."""
    speed: float | None = None
    """Steps per second; by default the environment's own, or 8."""
    env: str | None = None
    """For a run in your own environment, what makes it: mypackage.module:make_env."""
    svg: Path | None = None
    """Write the paths of the episodes to this SVG file instead."""
    gif: Path | None = None
    """Write the episodes to this GIF file instead."""
    mp4: Path | None = None
    """Write the episodes to this MP4 file instead."""


@dataclass
class Report:
    """Write the page that shows a run's strategies, or one that compares several runs."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """The run folder; several are compared, grouped over seeds of the same settings."""
    out: Path | None = None
    """The HTML file; by default report.html in the run folder, or comparison.html here."""


@dataclass
class Watch:
    """Follow a run in the browser while it trains: serves its page on this machine only, until
    Ctrl-C."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    port: int = 0
    """Where to serve it on 127.0.0.1; 0 takes a free port."""
    open: bool = False
    """Also open it in the browser."""


def main() -> NoReturn:
    """The entry point `rspo`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Do not fail on names that the terminal cannot show.
            stream.reconfigure(errors="replace")
    warnings.formatwarning = _warning  # type: ignore[assignment]
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code)
    except RspoError as error:
        print(f"rspo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(interrupt.CODE)
    except OSError as error:
        # Unwritten output cannot be flushed at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # `rspo list | head`
            sys.exit(0)
        print(
            f"rspo: Cannot write the result: {printable(str(error.strerror or error))}.",
            file=sys.stderr,
        )
        sys.exit(1)


def _warning(message: Warning | str, *_: Any) -> str:
    """A warning, shown like an error: what it quotes may come from anywhere."""
    return f"rspo: {printable(str(message), LONGEST)}\n"


def _say(text: str) -> None:
    print(printable(text, LONGEST))


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    verb, *rest = arguments
    if verb in ("-V", "--version"):
        import importlib.metadata

        print(f"rspo {importlib.metadata.version('rspo')}")
        return 0
    if verb not in VERBS:
        raise InputError(
            f"Unknown command '{verb}'. {suggestion(verb, VERBS)} `rspo --help` explains them."
        )
    return VERBS[verb](rest)


def list_(arguments: list[str]) -> int:
    """What there is to choose from."""
    options = parse(List, arguments, "rspo list")
    from rspo.registry import ENVIRONMENTS, METHODS

    if options.methods:
        for name, summary in METHODS.summaries().items():
            method = METHODS.make(name)
            needs = f"; needs {', '.join(method.needs)}" if method.needs else ""
            _say(f"  {name:20} {method.kind:12} {summary}{needs}")
        return 0
    for title, entries in (
        ("environments", ENVIRONMENTS.summaries()),
        ("methods", METHODS.summaries()),
    ):
        print(title)
        for name, summary in (entries | (OTHERS if title == "environments" else {})).items():
            _say(f"  {name:28} {summary}")
    return 0


OTHERS = {
    "gym:ID": "any Gymnasium environment, such as gym:CartPole-v1",
    "pettingzoo:MODULE": "any PettingZoo environment with homogeneous agents, by its module",
    "smac:MAP": "StarCraft II itself, through SMAC, such as smac:2m_vs_1z",
    "mypackage.module:make_env": "your own: a function here or in an installed package makes it",
}


def discover(arguments: list[str]) -> int:
    """Find different strategies for one task."""
    from rspo import api
    from rspo.registry import is_own

    config, options = read_discover(arguments)
    if options.seeds:
        return several_seeds(config, options)
    check_one_seed(options)
    out = options.out or free_folder(
        re.sub("[:/]", "-", f"{config.env[:100]}-{config.method.name}-seed{config.seed}")
    )
    own = config.env if is_own(config.env) else None
    return finish(api.discover(config.env, config=config, out=out, log=options.log), out, own)


def free_folder(name: str) -> Path:
    """A folder in runs/ that does not exist yet."""
    taken = 0
    while (path := Path("runs") / (name if taken == 0 else f"{name}-{taken + 1}")).exists():
        taken += 1
    return path


def finish(archive: "Archive", out: Path, own: str | None = None) -> int:
    """Show what was found and where it is; `own` is the name of a user's own environment."""
    from rspo.registry import make
    from rspo.rollout.adapt import adapt
    from rspo.runs import manifest
    from rspo.screen.view import strategy_table

    again = f" --env {shlex.quote(own)}" if own else ""
    if len(archive):
        Console().print(strategy_table(archive))
    if archive.interrupted:
        _say(
            f"Stopped early; everything found is in {out}. Continue with: rspo resume "
            f"{shlex.quote(str(out))}{again}"
        )
        return interrupt.CODE
    if pictures := manifest.pictures(out):
        _say(f"Pictures: {', '.join(map(str, pictures))}")
    config, watch = archive.config, ""
    world = adapt(own, config.horizon) if own else make(config.env, config.horizon)
    if world.drawable or world.filmed:
        film = "" if world.drawable else " --gif strategy-0.gif"
        watch = f" Watch one with: rspo play {shlex.quote(str(out))} 0{film}{again}"
    _say(f"Kept in {out}.{watch}")
    _say(f"See all of them: open {out / 'report.html'} in a browser")
    return 0


def report(arguments: list[str]) -> int:
    """Write the page of one run, or of several."""
    options = parse(Report, arguments, "rspo report")
    _check_file("--out", options.out, ".html", ".htm")
    from rspo.report import write_comparison, write_report

    if not options.runs:
        raise InputError(
            "rspo report needs a run folder, such as `rspo report runs/four-goals-easy-rspo-seed0`."
        )
    if len(options.runs) == 1:
        path = write_report(options.runs[0], options.out)
    else:
        path = write_comparison(options.runs, options.out or Path("comparison.html"))
    _say(f"Wrote {path}: open it in a browser")
    return 0


def watch(arguments: list[str]) -> int:
    """Serve the page of a run until Ctrl-C."""
    options = parse(Watch, arguments, "rspo watch")
    from rspo.report.watch import serving

    with serving(options.run, options.port) as server:
        _say(f"Follow it at {server.address} (Ctrl-C ends it)")
        sys.stdout.flush()
        if options.open:
            import webbrowser

            webbrowser.open(server.address)
        server.serve_forever()
    return 0


def resume(arguments: list[str]) -> int:
    """Continue an interrupted run."""
    from rspo import api

    options = parse(Resume, arguments, "rspo resume")
    return finish(
        api.resume(options.run, env=options.env, iterations=options.iterations, log=options.log),
        options.run,
        options.env,
    )


def evaluate(arguments: list[str]) -> int:
    """Play every strategy of a run again."""
    options = parse(Evaluate, arguments, "rspo evaluate")
    from rspo import api
    from rspo.runs.run import summary
    from rspo.screen.view import strategy_table

    archive = api.evaluate(
        options.run, env=options.env, episodes=options.episodes, seed=options.seed
    )
    if options.json:
        print(json.dumps(summary(archive), indent=1))
    else:
        Console().print(strategy_table(archive))
    return 0


def play(arguments: list[str]) -> int:
    """Watch a strategy."""
    options = parse(Play, arguments, "rspo play")
    _check_files(options)
    from rspo import api
    from rspo.screen import player

    env = api.world_of(options.run, options.env)
    archive = api.load(options.run)
    _check_play(options, len(archive))
    chosen = list(archive) if options.strategy is None else [archive.find(options.strategy)]
    said = player.play(
        env,
        chosen,
        options.svg or options.gif or options.mp4,
        episodes=options.episodes,
        seed=options.seed,
        greedy=not options.sampled,
        speed=options.speed,
    )
    if said:
        _say(said)
    return 0


def _check_file(flag: str, path: Path | None, *endings: str) -> None:
    """Check that the file name has the right extension."""
    if path is not None and path.suffix.lower() not in endings:
        own = {".gif": "--gif", ".mp4": "--mp4", ".svg": "--svg"}.get(path.suffix.lower())
        meant = f" Did you mean {own}?" if own and flag != "--out" else ""
        raise InputError(
            f"{flag} is {str(path)!r}, but its name must end with {' or '.join(endings)}.{meant}"
        )


def _check_files(options: Play) -> None:
    _check_file("--svg", options.svg, ".svg")
    _check_file("--gif", options.gif, ".gif")
    _check_file("--mp4", options.mp4, ".mp4")
    if sum(path is not None for path in (options.svg, options.gif, options.mp4)) > 1:
        raise InputError("Give only one of --svg, --gif and --mp4.")


def _check_play(options: Play, count: int) -> None:
    if count == 0:
        raise InputError(
            f"There are no strategies in {options.run} yet. Continue with `rspo resume "
            f"{options.run}`."
        )


VERBS: dict[str, Callable[[list[str]], int]] = {
    "list": list_,
    "discover": discover,
    "resume": resume,
    "evaluate": evaluate,
    "play": play,
    "report": report,
    "watch": watch,
    "bench": bench,
    "completion": lambda arguments: completion(arguments, VERBS),
}

USAGE = """\
rspo: discover many different good strategies for one task

usage: rspo COMMAND ...

  list                      environments and methods
  discover ENV              find strategies; --help explains the settings that matter
  resume RUN                continue an interrupted run
  evaluate RUN [--json]     play every strategy again
  play RUN [STRATEGY]       watch a strategy, by number or name; --gif, --mp4, --svg draw it
  report RUN [RUN ...]      make the page that shows a run, or compares several
  watch RUN                 follow a run in the browser while it trains
  bench NAME                make a table or figure of the paper; --list shows them all
  completion SHELL          make bash, zsh or fish complete all of this

Try: rspo discover four-goals-easy"""
