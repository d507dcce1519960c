"""Shell completion: scripts that the shells take, with every command, flag and name in them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from product import assert_refused, here
from rspo.cli.completion import SCRIPTS, vocabulary
from rspo.cli.main import VERBS
from rspo.registry import ENVIRONMENTS, METHODS
from test_config import ALL

PARSE = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    words = vocabulary(VERBS)
    for shell, script in SCRIPTS.items():
        (folder / shell).write_text(script(words))
    return folder


def test_the_command_prints_the_script(scripts: Path) -> None:
    outcome = here("completion", "bash")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (scripts / "bash").read_text() + "\n"
    assert_refused(here("completion", "csh"), "must be one of 'bash', 'zsh', 'fish'")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_shell_takes_its_script(shell: str, scripts: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([*PARSE[shell], scripts / shell], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_everything_is_in_it(shell: str, scripts: Path) -> None:
    text = (scripts / shell).read_text()
    dashes = "-l " if shell == "fish" else "--"
    settings = [name.replace("_", "-") for name in ALL if name not in ("env", "method.name")]
    for word in [*VERBS, *ENVIRONMENTS.summaries(), *METHODS.summaries()]:
        assert word in text
    for flag in [*settings, "method", "help-all", "no-json", "gif"]:
        assert f"{dashes}{flag}" in text


def completed(scripts: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    given = " ".join(f"'{word}'" for word in words)
    code = f'. ./bash; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _rspo; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code], cwd=scripts, capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_what_bash_offers(scripts: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert completed(scripts, "rspo", "") == set(VERBS)
    assert completed(scripts, "rspo", "dis") == {"discover"}
    assert completed(scripts, "rspo", "discover", "mon") == {"monster-hunt"}
    assert completed(scripts, "rspo", "discover", "--ppo.pad") == {"--ppo.padding"}
    assert completed(scripts, "rspo", "discover", "--ppo.padding", "") == {
        "count",
        "drop",
        "restart",
    }
    assert completed(scripts, "rspo", "discover", "hopper", "--method", "") == set(
        METHODS.summaries()
    )
    assert completed(scripts, "rspo", "discover", "--out", "") == set()  # then it offers files
    assert "--json" in completed(scripts, "rspo", "evaluate", "run", "--")
