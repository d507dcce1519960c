"""Texts shared by both pages."""

from collections.abc import Iterator, Mapping
from typing import Any

from rspo.report.reading import RunFolder

CITATION = """\
@inproceedings{zhou2022rspo,
  title     = {Continuously Discovering Novel Strategies via Reward-Switching Policy Optimization},
  author    = {Zihan Zhou and Wei Fu and Bingliang Zhang and Yi Wu},
  booktitle = {International Conference on Learning Representations},
  year      = {2022}
}"""


def fixed(value: float, beside: float | None = None) -> str:
    """A return with three decimals, or one from 100 on; a spread with the decimals of the value
    `beside` it."""
    places = 3 if abs(value if beside is None else beside) < 100 else 1
    return f"{value:.{places}f}".replace("-", "\N{MINUS SIGN}")


def duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def budget(run: RunFolder) -> str:
    """Environment steps of training, as planned."""
    each, config = run.steps_of_each, run.config
    parts = [f"{each * config['iterations']:,} environment steps", f"{each:,} for each policy"]
    parts += ["fewer where one had settled"] * bool(config["ppo"].get("settled", 0))
    parts += ["without repeated attempts"] * (config["judge"].get("attempts", 1) > 1)
    return ", ".join(parts)


def flat(group: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings by their full (dotted) names."""
    for name, value in group.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", "none" if value is None else str(value)


def command(run: RunFolder) -> str:
    """The command line, or the same from Python if there was none."""
    if run.record["command"] != "python":
        return run.record["command"]
    settings = {name: value for name, value in run.config.items() if name != "env"}
    words = ",\n    ".join(f"{name}={value!r}" for name, value in settings.items())
    head = "# from Python; an environment of your own goes in as an object, not by its name"
    return f"{head}\nrspo.discover(\n    {run.config['env']!r},\n    {words},\n)"
