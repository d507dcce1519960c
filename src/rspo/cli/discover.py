"""The flags of `rspo discover`, which depend on its environment and its method."""

import contextlib
import dataclasses
import io
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rspo.cli.arguments import parse
from rspo.cli.help import discover_help
from rspo.errors import InputError

if TYPE_CHECKING:  # imported where they are used: `rspo --help` should not wait for JAX
    from rspo.config import Config


def read_discover(arguments: list[str]) -> tuple["Config", Any]:
    """The configuration from flags, a configuration file and the preset, in this order of
    precedence; and the other flags."""
    from rspo.config import Config, merge, method_name

    # The other flags depend on the environment and the method, so these are parsed first.
    arguments = [re.sub("^--method(?==|$)", "--method.name", word) for word in arguments]
    file = _value_of("--config", arguments)
    settings = _read_toml(Path(file)) if file else {}
    env = _environment(arguments, settings, file)
    method = _value_of("--method.name", arguments) or method_name(settings) or "rspo"
    if "method" in settings:
        own = settings["method"] if isinstance(settings["method"], dict) else {}
        settings["method"] = {**own, "name": method}
    asked_for_help = {"-h", "--help", "--help-all"} & set(arguments)
    if not env and not asked_for_help:
        raise InputError(
            "rspo discover needs an environment, such as `rspo discover four-goals-easy`; see "
            "`rspo list`."
        )
    start = _start(env or "four-goals-easy", method, arguments, settings)
    default = merge(start, settings, file or "")
    if asked_for_help - {"--help-all"}:
        print(discover_help(env, default))
        sys.exit(0)
    fields = {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}
    kind = _flags()
    if asked_for_help:
        print(_all_of_it(lambda: parse(kind, ["--help"], "rspo discover", kind(**fields))))
        sys.exit(0)
    parsed = parse(
        kind, arguments, "rspo discover", kind(**fields), help="--help-all", lists=("--seeds",)
    )
    if parsed.seeds and _value_of("--seed", arguments) is not None:
        raise InputError("--seed is for one run and --seeds for several: leave one of them out.")
    config = Config(**{name: getattr(parsed, name) for name in fields})
    return config, parsed


def _flags() -> Any:
    """The dataclass of all flags: the settings of a run, and what is not one."""
    from rspo.config import Config

    @dataclass(frozen=True)
    class Discover(Config):
        """Find different strategies for one task, and keep each in a run folder as it is found."""

        env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")] = ""
        """The environment's name (`rspo list`)."""
        out: Path | None = None
        """Run folder; by default a new one in runs/."""
        config: Path | None = None
        """TOML file of settings; flags override it."""
        log: Literal["tensorboard", "wandb"] | None = None
        """Also send metrics to TensorBoard (RUN/tensorboard) or Weights & Biases."""
        paper: bool = False
        """Start from the paper's own settings, to the letter, instead of the tuned ones."""
        seeds: tuple[int, ...] = ()
        """One run for each of these seeds, one per core, and a page that compares them; --out is
        the parent folder."""
        executor: Literal["local", "ray"] = "local"
        """Where to run several seeds: processes on this machine, or a Ray cluster."""
        address: str | None = None
        """The Ray cluster's address; by default that of RAY_ADDRESS or of this machine."""
        gather: Literal["shared", "store"] = "shared"
        """Where Ray's nodes put the run folders: on a shared file system, or sent through Ray's
        object store to this machine."""
        jobs: int | None = None
        """Number of seeds to run in parallel on this machine; by default one per core."""

    return Discover


def _environment(arguments: list[str], settings: dict[str, Any], file: str | None) -> str:
    """The environment's name, on the command line or in the file; empty if it is in neither."""
    from rspo.registry import is_own

    named = _environment_in(arguments)
    env = named or settings.get("env", "")
    if named is None and is_own(env):
        raise InputError(
            f"{file} sets 'env' to {env!r}, but a file does not decide what is imported: name it "
            f"on the command line, `rspo discover {env}`."
        )
    if not isinstance(env, str):
        raise InputError(
            f"{file} sets 'env' to {env!r}, but it must be the name of an environment; see `rspo "
            "list`."
        )
    return env


def _start(env: str, method: str, arguments: list[str], settings: dict[str, Any]) -> "Config":
    """The settings that flags and a file then change. They depend on the environment and, for
    other libraries, on the length of its episodes."""
    from rspo.presets import preset
    from rspo.registry import PREFIXES, is_own
    from rspo.rollout.adapt import adapt

    world = None
    if env.startswith(tuple(PREFIXES)) or is_own(env):
        given = str(_value_of("--horizon", arguments) or settings.get("horizon"))
        world = adapt(env, int(given) if given.isdigit() and int(given) else None)
    return preset(env, method, world, paper="--paper" in arguments)


def _all_of_it(explain: Callable[[], Any]) -> str:
    """tyro's help, with the method's name under the usual flag."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        explain()
    return said.getvalue().rstrip().replace("--method.name STR", "--method NAME    ")


def _value_of(flag: str, arguments: list[str]) -> str | None:
    """The value after `flag`, or after `flag=`, if it is there at all."""
    for i, argument in enumerate(arguments):
        if argument == flag and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(flag + "="):
            return argument.removeprefix(flag + "=")
    return None


def _environment_in(arguments: list[str]) -> str | None:
    """The environment's name, anywhere among the flags; an unknown name only if it is not a flag's
    value."""
    from rspo.registry import ENVIRONMENTS

    valued = {
        i + 1
        for i, argument in enumerate(arguments)
        if argument in ("--out", "--config", "--method.name", "--log", "--horizon")
    }
    known = [
        argument
        for i, argument in enumerate(arguments)
        if i not in valued and argument in ENVIRONMENTS.summaries()
    ]
    pairs = zip(["", *arguments], arguments, strict=False)
    free = [word for before, word in pairs if not before.startswith("-") and _may_be_a_name(word)]
    return next(iter(known + free), None)


def _may_be_a_name(word: str) -> bool:
    """Also one that begins with a digit, as StarCraft's maps do, but no number: a flag may have
    several."""
    return word[:1].isalnum() and not re.fullmatch(r"[\d._]+(e[+-]?\d+)?", word)


def _read_toml(path: Path) -> dict[str, Any]:
    from rspo.runs import store

    try:
        settings = tomllib.loads(store.read(path, links=True).decode())
    except store.StoreError as error:
        raise InputError(f"{error} It was given with --config.") from error
    except ValueError as error:  # in TOML, or in UTF-8
        raise InputError(f"{path} is not a TOML file: {error}.") from error
    except RecursionError:
        settings = None
    if settings is None or store.too_deep(settings):
        raise InputError(
            f"{path} is nested deeper than settings are: they are single ones, or in one [table]."
        )
    return settings
