"""Signals: noted when they come, obeyed where it is safe; the second one ends at once."""

import dataclasses
import gc
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import pytest

import product
import rspo
from product import DISCOVER, same
from rspo.core import interrupt
from rspo.rollout.collector import collector
from rspo.rollout.host import _COLLECTORS
from rspo.search import loop as search

SMALL = product.SETTINGS | {"iterations": 2}
LARGE = ("discover", "four-goals-easy", "--ppo.batch", "2000000", "--ppo.updates", "50")


def interrupt_me() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def later():
    """Do something so many seconds from now; not at all once the test has ended, since a signal
    would hit the next one."""
    timers = []

    def start(seconds: float, act: Callable[[], object] = interrupt_me) -> None:
        timers.append(threading.Timer(seconds, act))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.cancel()
        timer.join()


@pytest.fixture(autouse=True)
def handlers_are_left_as_they_were():
    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in signals]
    yield
    assert [signal.getsignal(number) for number in signals] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert "rspo-signals" not in {thread.name for thread in threading.enumerate()}


# ---- the first signal


def test_it_is_noted_and_obeyed_where_it_is_safe() -> None:
    said = []
    with interrupt.deferred(said.append):
        with interrupt.deferred(print):  # adds nothing, and takes nothing away
            assert not interrupt.asked()
        interrupt.check()
        interrupt_me()
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert said == [interrupt.SAID]
        assert interrupt.asked()
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
    assert not interrupt.asked()


@pytest.mark.slow
def test_it_is_said_while_the_main_thread_is_deep_in_compiled_code(later) -> None:
    """Where Python's own handlers must wait until it returns."""
    said = []
    with interrupt.deferred(lambda words: said.append(time.monotonic())):
        later(0.1)
        x = jax.numpy.ones((2000, 2000))
        jax.block_until_ready(jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, y: y @ x, x))(x))
        returned = time.monotonic()
        assert interrupt.asked()
    assert returned - said[0] > 0.1


def test_waiting_for_others_ends(later) -> None:
    stop = threading.Event()
    with interrupt.deferred(print), ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(stop.wait, 60), pool.submit(int)]
        later(0.2)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interrupt.results(futures)
        assert time.monotonic() - began < 30
        stop.set()


def test_results_come_in_order_and_a_failure_comes_through() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert interrupt.results([pool.submit(time.sleep, 0.2), pool.submit(int)]) == [None, 0]
        with pytest.raises(ValueError, match="invalid literal"):
            interrupt.results([pool.submit(time.sleep, 0.2), pool.submit(int, "x")])


def test_other_threads_neither_take_signals_nor_are_stopped_by_them(found) -> None:
    with ThreadPoolExecutor(1) as pool, interrupt.deferred(print):
        interrupt_me()
        assert interrupt.asked()
        archive = pool.submit(
            rspo.discover, "four-goals-easy", quiet=True, seed=3, **SMALL
        ).result()
    assert not archive.interrupted
    assert same(policies(archive), policies(found))


def test_a_handler_of_the_callers_own_stays() -> None:
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with interrupt.deferred(print):
            interrupt_me()
            interrupt.check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


def test_what_was_ignored_stays_ignored() -> None:
    """As by `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert interrupt._not_ignored(("SIGINT", "SIGHUP", "SIGNONE")) == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGHUP, before)


# ---- in a run


@pytest.fixture(scope="module")
def found():
    return rspo.discover("four-goals-easy", quiet=True, seed=3, **SMALL)


def policies(archive):
    return [strategy.policy for strategy in archive]


def test_one_in_a_callback_of_the_garbage_collector_is_not_swallowed() -> None:
    """Where an exception would be: JAX has such callbacks too."""
    left = [30]  # collections

    def callback(phase: str, info: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            interrupt_me()
            for _ in range(1000):
                pass

    gc.callbacks.append(callback)
    try:
        archive = rspo.discover(
            "four-goals-easy", quiet=True, seed=3, **{**SMALL, "iterations": 20}
        )
    finally:
        gc.callbacks.remove(callback)
    assert left[0] < 0
    assert archive.interrupted


def test_few_updates_in_a_call_give_the_same_bits(found, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow updates run one per call, so that a stop need not wait for ten."""
    monkeypatch.setattr(search, "SECONDS", 0.0)
    play = collector(rspo.make("four-goals-easy"))
    events = list(search.search(play, found.config, rspo.Archive(found.config)))
    # All updates but the very first, whose time is that of compiling.
    assert len(events) == 19 + 1 + 20 + 1
    strategies = [event.strategy for event in events if isinstance(event, search.Found)]
    assert same([strategy.policy for strategy in strategies], policies(found))
    assert [dataclasses.asdict(s.evaluation) for s in strategies] == [
        dataclasses.asdict(s.evaluation) for s in found
    ]


def test_one_that_comes_when_all_is_done_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rspo.api.write_report", lambda path: interrupt_me())
    archive = rspo.discover("four-goals-easy", out=tmp_path / "run", quiet=True, **SMALL)
    assert archive.interrupted
    assert len(archive) == 2


def test_one_after_the_last_look_is_not_forgotten_either() -> None:
    for _ in range(20):  # whichever comes first, the signal or the end
        with pytest.raises(KeyboardInterrupt), interrupt.deferred(print):
            interrupt_me()


@pytest.mark.slow
def test_players_end_with_the_run(later) -> None:
    later(8.0)
    # Else a quick machine ends the run first: CartPole is soon learned.
    ppo = {"updates": 10**6, "batch": 5000, "settled": 0}
    archive = rspo.discover("gym:CartPole-v1", quiet=True, iterations=1, ppo=ppo)
    assert archive.interrupted
    gc.collect()
    assert not any(one._players for one in _COLLECTORS)


# ---- the second signal, and whose process it is


@pytest.mark.slow
def test_the_second_one_raises_in_a_process_that_is_not_ours(later) -> None:
    """A notebook goes on."""
    later(0.1)
    later(0.3)  # the same one: a wrapper passed it on as well
    later(4.0)  # late enough to be a second one on a busy machine too
    began = time.monotonic()
    with interrupt.deferred(lambda words: None), pytest.raises(KeyboardInterrupt):
        time.sleep(60)
    assert 3.9 < time.monotonic() - began < 50


def test_a_signal_that_is_lost_is_sent_again(later, monkeypatch: pytest.MonkeyPatch) -> None:
    send, sent = interrupt._signal_main, []

    def lose_one() -> None:
        sent.append(None)
        if len(sent) > 1:
            send()

    monkeypatch.setattr(interrupt, "_signal_main", lose_one)
    later(0.1)
    began = time.monotonic()
    with interrupt.deferred(lambda words: None):
        assert interrupt._watch is not None
        later(1.5, interrupt._watch._hear)  # the main thread does not notice
        with pytest.raises(KeyboardInterrupt):
            time.sleep(20)
    assert time.monotonic() - began < 15


class terminal_of:
    """The program on a terminal of its own."""

    def __init__(self, *arguments: str | Path) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, "-m", "rspo", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdout=slave,
            stderr=slave,
            stdin=slave,
            env=product.environment(TERM="xterm"),
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def __enter__(self) -> "terminal_of":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)

    def read_until(self, words: str, seconds: float = 200) -> float:
        """When it was said."""
        deadline = time.monotonic() + seconds
        while words not in self.text and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.master, 4096).decode(errors="replace")
                except OSError:  # it has ended
                    break
        assert words in self.text, self.text
        return time.monotonic()


@pytest.mark.slow
def test_amid_a_large_computation_it_is_answered_and_the_second_one_ends_it(tmp_path: Path) -> None:
    with terminal_of(*LARGE, "--out", tmp_path / "run") as terminal:
        terminal.read_until("compiling")
        time.sleep(3)  # by now it compiles or computes
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until(interrupt.SAID, 60)
        time.sleep(2 * interrupt.ECHO)
        began = time.monotonic()
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until("\x1b[?25h", 60)  # the cursor is back
        assert terminal.process.wait(60) == interrupt.CODE
        assert time.monotonic() - began < 10
        assert "Traceback" not in terminal.text
    assert len(rspo.load(tmp_path / "run")) == 0  # it can be read and resumed


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_before_there_is_anything_to_keep_it_ends_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "tyro.py").write_text("import time; print('loading', flush=True); time.sleep(60)")
    environment = product.environment(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    command = [sys.executable, "-m", "rspo", "list"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(getattr(signal, name))
        assert process.communicate(timeout=50) == ("", "")
        assert process.returncode == interrupt.CODE


@pytest.mark.slow
def test_a_run_whose_terminal_is_closed_keeps_what_it_has(tmp_path: Path) -> None:
    settings = ("--ppo.batch", "65536", "--ppo.updates", "1000")
    with terminal_of(*DISCOVER, *settings, "--out", tmp_path / "run") as terminal:
        terminal.read_until("return ")
        os.close(terminal.master)
        terminal.master = os.open(os.devnull, os.O_RDONLY)
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(100) == interrupt.CODE
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
def test_a_run_that_is_interrupted_ends_with_what_it_has(tmp_path: Path) -> None:
    settings = ("--ppo.batch", "65536", "--ppo.updates", "1000")
    with terminal_of(*DISCOVER, *settings, "--out", tmp_path / "run") as terminal:
        terminal.read_until("return ")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.read_until("Continue with: rspo resume")
        assert terminal.process.wait(60) == interrupt.CODE
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
