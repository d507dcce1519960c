"""`rspo completion SHELL`: a script by which the shell completes commands, flags and names. They
are taken from the commands' own help, so that new flags are included automatically."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import tyro

from rspo.cli.arguments import parse

Verbs = Mapping[str, Callable[[list[str]], int]]
# A line of help, in a box or not: flag, its opposite, its value; then its description.
FLAG = re.compile(
    r"^[│ ]+(?:-h, )?(--[a-z][\w.-]*)(?:, (--[\w.-]+))?(?: (\S+(?: \S+)*))?(?:  .*)?$", re.MULTILINE
)


@dataclass
class Completion:
    """Print the script that completes `rspo` in a shell. Put it where the shell looks for it:
    bash: ~/.local/share/bash-completion/completions/rspo; zsh: a file _rspo in a folder of $fpath;
    fish: ~/.config/fish/completions/rspo.fish."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """The shell."""


@dataclass
class Words:
    """What may follow a verb."""

    flags: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Each flag with its possible values; empty for a path or a number, None if it takes no
    value."""
    names: list[str] = field(default_factory=list)


def completion(arguments: list[str], verbs: Verbs) -> int:
    """Print the script for a shell."""
    options = parse(Completion, arguments, "rspo completion")
    print(SCRIPTS[options.shell](vocabulary(verbs)))
    return 0


def vocabulary(verbs: Verbs) -> dict[str, Words]:
    """Possible flags and values, by verb."""
    from rspo.bench.catalogue import BENCHES
    from rspo.registry import ENVIRONMENTS, METHODS

    words = {verb: Words() for verb in verbs}
    for verb in verbs:
        if verb != "discover":
            words[verb].flags = dict(_flags(verbs[verb], ["--help"]))
    for method in METHODS.summaries():
        words["discover"].flags |= _flags(verbs["discover"], ["--help-all", "--method", method])
    words["discover"].flags |= {"--method": tuple(METHODS.summaries()), "--help-all": None}
    words["discover"].names = list(ENVIRONMENTS.summaries())
    words["bench"].names = list(BENCHES)
    words["completion"].names = list(SCRIPTS)
    return words


def _flags(verb: Callable[[list[str]], int], help: list[str]) -> dict[str, tuple[str, ...] | None]:
    found: dict[str, tuple[str, ...] | None] = {}
    for flag, negated, value in FLAG.findall(_said(verb, help)):
        choices = re.fullmatch(r"\{(.+)\}", value)
        found[flag] = tuple(choices[1].split(",")) if choices else () if value else None
        if negated:
            found[negated] = None
    return found


def _said(verb: Callable[[list[str]], int], arguments: list[str]) -> str:
    said, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "120"  # one column of flags, without line breaks in them
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            verb(arguments)
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return said.getvalue()


def _cases(words: Mapping[str, Words]) -> Iterator[tuple[str, str]]:
    """Completions for the words before the cursor, given as "VERB WORD"."""
    for verb, known in words.items():
        for flag, choices in known.flags.items():
            if choices is not None:
                yield f'"{verb} {flag}"', " ".join(choices)
        yield f'"{verb} "*', " ".join([*known.names, *known.flags])


def bash(words: Mapping[str, Words]) -> str:
    cases = "\n".join(f"    {what}) words='{after}' ;;" for what, after in _cases(words))
    return f"""\
_rspo() {{
  local words="" current="${{COMP_WORDS[COMP_CWORD]}}"
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
    *" ${{COMP_WORDS[0]}}") words='{" ".join(words)}' ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _rspo rspo"""


def zsh(words: Mapping[str, Words]) -> str:
    cases = "\n".join(
        f"    ({what}) compadd -- {after}; _files ;;" if after else f"    ({what}) _files ;;"
        for what, after in _cases(words)
    )
    return f"""\
#compdef rspo
_rspo() {{
  if (( CURRENT == 2 )); then
    compadd -- {" ".join(words)}
    return
  fi
  case "$words[2] $words[CURRENT-1]" in
{cases}
  esac
}}
if [[ "$funcstack[1]" == _rspo ]]; then _rspo "$@"; else compdef _rspo rspo; fi"""


def fish(words: Mapping[str, Words]) -> str:
    lines = [f"complete -c rspo -f -n __fish_use_subcommand -a '{' '.join(words)}'"]
    for verb, known in words.items():
        after = f"complete -c rspo -n '__fish_seen_subcommand_from {verb}'"
        if known.names:
            lines.append(f"{after} -f -a '{' '.join(known.names)}'")
        for flag, choices in known.flags.items():
            takes = "" if choices is None else f" -x -a '{' '.join(choices)}'" if choices else " -r"
            lines.append(f"{after} -l {flag[2:]}{takes}")
    return "\n".join(lines)


SCRIPTS: dict[str, Callable[[Mapping[str, Words]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
