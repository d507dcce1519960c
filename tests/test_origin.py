"""What one does with an archive: look at it, save it, show it as a page, play it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import product
import rspo
from rspo.errors import InputError
from rspo.search.archive import Archive

SETTINGS: dict[str, Any] = {**product.SETTINGS, "iterations": 2, "quiet": True}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return rspo.discover("four-goals-easy", out=tmp_path_factory.mktemp("kept") / "run", **SETTINGS)


@pytest.fixture(scope="module")
def unkept() -> Archive:
    return rspo.discover("four-goals-easy", **SETTINGS)


def folder(archive: Archive) -> Path:
    return archive.report().parent


# ---- repr


def test_a_short_repr(kept: Archive) -> None:
    strategy = kept[0]
    earns = f"{strategy.evaluation.return_mean:.3f}"
    name = f"'{strategy.descriptor}'"
    assert repr(strategy) == f"<Strategy 0 {name}, {strategy.status}, return {earns}>"
    assert repr(kept).startswith("<Archive of 2 strategies for four-goals-easy, ")


# ---- save


def test_what_was_kept_nowhere_is_saved_as_if_it_had_been(
    kept: Archive, unkept: Archive, tmp_path: Path
) -> None:
    path = unkept.save(tmp_path / "run")
    assert product.results(path) == product.results(folder(kept))
    assert (path / "report.html").exists()
    assert [s.evaluation for s in rspo.load(path)] == [s.evaluation for s in unkept]


def test_a_saved_run_is_a_copy(kept: Archive, tmp_path: Path) -> None:
    path = rspo.load(folder(kept)).save(str(tmp_path / "run"))
    copied, before = product.contents(path), product.contents(folder(kept))
    del before["lock"]
    assert copied == before
    assert rspo.resume(path, quiet=True).distinct == kept.distinct


@pytest.mark.parametrize("which", ["kept", "unkept"])
def test_nothing_is_overwritten(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        request.getfixturevalue(which).save(tmp_path)
    assert product.contents(tmp_path) == {"mine.txt": b"mine"}


def test_a_link_in_a_folder_is_not_copied(kept: Archive, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    run = shutil.copytree(folder(kept), tmp_path / "run")
    (run / "crossplay.svg").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="symbolic link"):
        rspo.load(run).save(tmp_path / "copy")


# ---- report


def test_a_page_elsewhere(kept: Archive, unkept: Archive, tmp_path: Path) -> None:
    for archive in (kept, unkept):
        page = archive.report(tmp_path / "page.html")
        assert page == tmp_path / "page.html"
        assert "four-goals-easy" in page.read_text()


def test_a_run_without_a_folder_must_be_told_where(unkept: Archive) -> None:
    with pytest.raises(InputError, match=r"archive\.report\(\"report\.html\"\)"):
        unkept.report()


# ---- play


def test_play_by_number_and_by_name(
    kept: Archive, unkept: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for archive in (kept, unkept, rspo.load(folder(kept))):
        archive.play(1)
        shown.append(capsys.readouterr().out)
    assert shown[0].startswith(f"strategy 1 ({kept[1].status})")
    assert shown == [shown[0]] * 3
    kept.play(kept[0].descriptor)
    assert capsys.readouterr().out.startswith("strategy 0 ")


def test_play_into_a_file(kept: Archive, tmp_path: Path) -> None:
    kept.play(path=tmp_path / "all.svg", episodes=2)
    assert (tmp_path / "all.svg").read_text().startswith("<svg")
    kept.play(0, tmp_path / "one.gif", speed=20)
    assert (tmp_path / "one.gif").read_bytes().startswith(b"GIF")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2,), "There is no strategy 2: there are 0 to 1."),
        ((-1,), "There is no strategy -1"),
        (("sideways",), "There is no strategy 'sideways'."),
        ((0, "film.avi"), "must end with .svg, .gif or .mp4"),
    ],
)
def test_what_cannot_be_played(kept: Archive, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError) as error:
        kept.play(*arguments)
    assert words in str(error.value)


def test_an_archive_made_by_hand_says_that_it_is(kept: Archive, tmp_path: Path) -> None:
    made = Archive(kept.config, list(kept))
    for use in (lambda: made.save(tmp_path / "run"), made.report, lambda: made.play(0)):
        with pytest.raises(InputError, match="by hand"):
            use()
