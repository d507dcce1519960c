"""`rspo discover --help`: the important settings, one line each. `--help-all` explains the
rest."""

from typing import TYPE_CHECKING, Any

from rspo.text import NAME, printable

if TYPE_CHECKING:
    from rspo.config import Config

# By group: flag, value and description.
GROUPS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "what to find": (
        ("--iterations", "N", "how many policies to train"),
        ("--seed", "N", "the same seed gives the same run on the same machine"),
        ("--seeds", "N N ...", "a run for each of these seeds, and a page that compares them"),
        ("--method", "NAME", "how policies are made to differ; `rspo list` shows all"),
        ("--horizon", "N", "steps of an episode, where the environment sets no limit"),
        ("--paper", "", "the paper's own settings instead of the tuned ones"),
    ),
    "where it goes": (
        ("--out", "FOLDER", "the run folder; by default a new one in runs/"),
        ("--config", "FILE", "settings from a TOML file; flags override it"),
        ("--log", "tensorboard|wandb", "also send metrics there"),
    ),
    "how different, and how good": (
        ("--measure.alpha", "X", "how different is different enough, as a share of random play"),
        ("--judge.quality", "X", "how good is good enough, from random play to the first policy"),
        ("--judge.attempts", "N", "how often an iteration may be tried"),
    ),
    "how long, and how it learns": (
        ("--ppo.updates", "N", "updates of one policy"),
        ("--ppo.settled", "N", "end earlier if nothing changes over N updates; 0: never"),
        ("--ppo.batch", "N", "environment steps of one update"),
        ("--ppo.learning-rate", "X", "Adam's learning rate"),
        ("--ppo.entropy-coefficient", "X", "higher values explore more"),
        ("--ppo.memory", "none|gru", "whether a policy remembers an episode"),
    ),
}
SETTINGS = (  # besides those with a dot
    "--iterations",
    "--seed",
    "--method",
)


def discover_help(env: str, config: "Config") -> str:
    """With the defaults for the environment `env`, or without defaults if none is given."""
    named = printable(env, NAME) or "ENV"
    lines = [
        f"usage: rspo discover {named} [OPTIONS]",
        "",
        "Find different strategies for one task, and keep each in a run folder as it is found.",
        f"Defaults in brackets are those of {printable(config.env, NAME)}.",
    ]
    for title, flags in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [_line(flag, value, words, config) for flag, value, words in flags]
    lines += ["", f"Every setting: rspo discover {named} --help-all"]
    return "\n".join(lines)


def _line(flag: str, value: str, words: str, config: "Config") -> str:
    default = default_of(flag, config) if "." in flag or flag in SETTINGS else None
    shown = "" if default is None else f" [{default}]"
    return f"  {f'{flag} {value}'.rstrip():29} {words}{shown}"


def default_of(flag: str, config: "Config") -> Any:
    """The default if the flag is left out."""
    found: Any = config
    for part in ("method.name" if flag == "--method" else flag[2:]).replace("-", "_").split("."):
        found = getattr(found, part)
    return found
