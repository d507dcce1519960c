"""The five functions of the library: discover, resume, load, evaluate, crossplay."""

import contextlib
import dataclasses
import os
import time
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import jax

from rspo.config import Config, merge, validate
from rspo.core import interrupt
from rspo.core.devices import cores, use_cores
from rspo.core.typed import quoted
from rspo.envs import decoration
from rspo.envs.base import AnyEnv
from rspo.errors import InputError, NoRendererError, RspoWarning
from rspo.keywords import Keywords
from rspo.methods.base import Method
from rspo.origin import Folder, Unsaved
from rspo.presets import preset
from rspo.registry import OWN, has_name, is_own, make
from rspo.report import write_report
from rspo.rollout.adapt import adapt, called
from rspo.rollout.base import Collector
from rspo.rollout.collector import collector
from rspo.runs.logs import check_log, logging
from rspo.runs.run import Run
from rspo.screen.view import Display
from rspo.search import memory
from rspo.search.archive import Archive
from rspo.search.callbacks import Callbacks, OnStrategy, OnUpdate, StopRequested
from rspo.search.check import built_in, check_env, check_needs
from rspo.search.crossplay import CrossPlay, cross_play, usual_episodes
from rspo.search.loop import Found, Position, Tools, evaluation_key, search
from rspo.search.pictures import pictures, strategies_played
from rspo.search.population import authors_diversity_of, diversity_of
from rspo.search.settled import over
from rspo.text import counted

CHECKPOINT_SECONDS = 5.0


def discover(
    env: Any,
    *,
    name: str | None = None,
    out: str | Path | None = None,
    method: str | Method | Mapping[str, Any] | None = None,
    paper: bool = False,
    config: Config | None = None,
    quiet: bool = False,
    log: str | None = None,
    on_update: OnUpdate | None = None,
    on_strategy: OnStrategy | None = None,
    **settings: Unpack[Keywords],
) -> Archive:
    """Find different strategies for one task.

    `env` is a name from `rspo list`, `gym:<id>`, `pettingzoo:<module>`, an rspo, Gymnasium or
    PettingZoo environment, a vector environment, or a function that makes one, which can also be
    given by name as "mypackage.module:make_env". `name` is the name of your own environment in
    reports; `horizon=200` sets the episode length where it has no time limit. Settings start from
    the environment's preset for the `method` (with `paper` the paper's own settings), or from
    `config`; override single ones by name, groups as dictionaries: `iterations=4, seed=1,
    ppo={"updates": 100}`. A method is a name from `rspo list`, {"name": ..., "lambda_b": ...} with
    its own settings, or your own object. With `out` everything is saved in that folder as it is
    found, `resume` continues after an interruption, and `report.html` in it shows the strategies.
    `log` also sends metrics to "tensorboard" or "wandb".

    `on_update` is called with each update (`rspo.Update`), with a lag of at most ten, and
    `on_strategy` with each finished strategy; if one returns True, the run stops there and returns
    what was found, as after Ctrl-C.
    """
    use_cores(players=cores())
    check_log(log, None if out is None else Path(out))
    named, horizon = called(env, name), settings.get("horizon", config and config.horizon)
    world = adapt(env, _whole_steps(horizon))
    if not built_in(world):
        compilation_cache()
        check_env(world)
    if config is None:
        config = preset(named, _name_of(method) or "rspo", world, paper)
    config = merge(_with_method(config, method), {"env": named, **settings}, "discover()")
    validate(config, world.spec)
    check_needs(config.method, world)
    view = Display(config, quiet)
    memory.check(world, config, view.say)
    run = None if out is None else Run.create(Path(out), config, world.spec)
    return _carry_out(world, config, run, view, log, Callbacks(on_update, on_strategy))


def _whole_steps(horizon: Any) -> int | None:
    """Checked before the other settings, which depend on the environment."""
    if horizon is not None and (not isinstance(horizon, int) or horizon < 1):
        raise InputError(f"horizon is {quoted(horizon)}, but it must be a whole number from 1.")
    return horizon


def _name_of(method: str | Method | Mapping[str, Any] | None) -> Any:
    if isinstance(method, Method):
        return method.name
    return method.get("name") if isinstance(method, Mapping) else method


def _with_method(config: Config, method: str | Method | Mapping[str, Any] | None) -> Config:
    """`config` with the settings of `method`, which must be the same method."""
    if method is None:
        return config
    if isinstance(method, Method):
        return dataclasses.replace(config, method=method)
    given = dict(method) if isinstance(method, Mapping) else method
    return merge(config, {"method": given}, "discover()")


def resume(
    run: str | Path,
    *,
    env: Any = None,
    iterations: int | None = None,
    quiet: bool = False,
    log: str | None = None,
    on_update: OnUpdate | None = None,
    on_strategy: OnStrategy | None = None,
) -> Archive:
    """Continue an interrupted run, to the same result as without the interruption; or a finished
    one to more `iterations`, as if it had been started with these. `log` and the callbacks are
    those of `discover`."""
    opened = Run.open(Path(run))
    if iterations is not None:
        opened = opened.extended(iterations)
    check_log(log, opened.path)
    world = _world(opened, env)
    if jax.device_count() != opened.devices:
        warnings.warn(
            f"{opened.name} was begun on {counted(opened.devices, 'device')} and continues on "
            f"{jax.device_count()}: sums will be rounded differently, so the result will differ "
            "from that of an uninterrupted run.",
            RspoWarning,
            stacklevel=2,
        )
    view = Display(opened.config, quiet)
    memory.check(world, opened.config, view.say)
    return _carry_out(world, opened.config, opened, view, log, Callbacks(on_update, on_strategy))


def load(run: str | Path) -> Archive:
    """The strategies of a run folder."""
    return _loaded(Run.open(Path(run)))


def _loaded(run: Run) -> Archive:
    archive = run.load()
    archive.origin = Folder(lambda env: _world(run, env), run.path)
    return archive


def evaluate(
    run: str | Path, *, env: Any = None, episodes: int | None = None, seed: int | None = None
) -> Archive:
    """Play every strategy of a run again: the same numbers as in its summary, unless `episodes` or
    `seed` differ."""
    opened = Run.open(Path(run))
    world = _world(opened, env)
    archive = _loaded(opened)
    config = opened.config
    if episodes is not None:
        config = dataclasses.replace(
            config, judge=dataclasses.replace(config.judge, episodes=episodes)
        )
    if seed is not None:
        config = dataclasses.replace(config, seed=seed)
    validate(config, world.spec)
    memory.check(world, config, _warn, learning=False)
    compilation_cache()
    kept = list(archive)  # unchanged: their mean returns belong to their thresholds
    with collector(world) as collect:
        tools = Tools(collect, config)
        for strategy in kept:
            earlier = Archive(config, kept[: strategy.index])
            key = evaluation_key(config, strategy)
            evaluation, _ = tools.evaluate(strategy.policy, tools.references(earlier), key)
            archive.replace(dataclasses.replace(strategy, evaluation=evaluation))
    return archive


def crossplay(
    run: str | Path | Archive,
    *,
    env: Any = None,
    episodes: int | None = None,
    seed: int | None = None,
) -> CrossPlay:
    """What every strategy of a run folder or an archive earns with every other one as its partner
    (two agents only).

    The same numbers as in the folder's `crossplay.json`, unless `episodes` or `seed` differ.
    """
    if isinstance(run, Archive):
        use_cores()
        horizon = run.config.horizon
        world = make(run.config.env, horizon) if env is None else adapt(env, horizon)
        archive = run
    else:
        opened = Run.open(Path(run))
        world = _world(opened, env)
        archive = opened.load()
    config = archive.config
    if world.spec.agents != 2:
        raise InputError(
            f"Cross-play is for environments of two agents, but {config.env} has "
            f"{world.spec.agents}."
        )
    if len(archive) == 0:
        raise InputError(
            f"There are no strategies for {config.env} yet: cross-play needs one or more."
        )
    with collector(world) as collect:
        usual = usual_episodes(collect, len(archive), config.judge.episodes)
        judge = dataclasses.replace(config.judge, episodes=usual if episodes is None else episodes)
        config = dataclasses.replace(
            config, judge=judge, seed=config.seed if seed is None else seed
        )
        validate(config, world.spec)
        memory.check(world, config, _warn, learning=False)
        compilation_cache()
        return cross_play(collect, archive, config.judge.episodes, config.seed)


def world_of(run: str | Path, env: Any = None) -> AnyEnv:
    """The environment of a run, set up as in the run."""
    return _world(Run.open(Path(run)), env)


def _world(run: Run, env: Any) -> AnyEnv:
    """Set up as in the run, with the same number of devices and players, which affect rounding."""
    use_cores(run.devices, run.players)
    name, horizon = run.config.env, run.config.horizon
    if env is None and not has_name(name):
        raise InputError(
            f"{run.path} was made in a custom environment, {name}, and a run folder does not "
            f"decide what is imported: name it with --env {name if is_own(name) else OWN}, or pass "
            "it from Python, rspo.resume(run, env=...) or rspo.evaluate(run, env=...)."
        )
    world = make(name, horizon) if env is None else adapt(env, horizon)
    if world.spec != run.spec:
        raise InputError(
            f"{run.path} was made in another environment than {world.title}: their sizes differ."
        )
    return world


def _carry_out(
    env: AnyEnv,
    config: Config,
    run: Run | None,
    view: Display,
    log: str | None,
    callbacks: Callbacks,
) -> Archive:
    """The search, with a run folder and a display. Ctrl-C ends it early and keeps everything."""
    compilation_cache()
    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupt.deferred(view.say))
        collect = stack.enter_context(collector(env))
        if run is not None:
            stack.enter_context(run.locked())
        archive = run.load() if run else Archive(config)
        found: list[Found] = []
        world = lambda given: env if given is None else adapt(given)
        archive.origin = Folder(world, run.path) if run else Unsaved(world, env.spec, found)
        start = run.load_checkpoint(archive) if run else None
        played = run.load_cross_play() if run else None
        metrics = stack.enter_context(logging(log, run.path if run else None, config, start))
        stack.enter_context(view.showing(archive, start))
        callbacks.begin(start)
        event: Position | Found | None = None
        saved = time.monotonic()
        try:
            for event in search(collect, config, archive, start):
                # A trained policy is saved before it is played, described and drawn, which may
                # fail.
                trained = isinstance(event, Found) or over(config, event.rows)
                if run and (trained or time.monotonic() - saved > CHECKPOINT_SECONDS):
                    run.save(event, archive)
                    saved = time.monotonic()
                if run is None and isinstance(event, Found):
                    found.append(event)
                interrupt.check()  # before anything is shown: the terminal may be gone
                view.show(event)
                if metrics is not None:
                    metrics.show(event)
                callbacks.tell(event)
            if run is not None:
                _illustrate(collect, run, archive, played, view)
        except (KeyboardInterrupt, StopRequested):
            archive.interrupted = True
            if run and event is not None:
                run.save(event, archive)
        if run is not None:
            run.summarize(archive)
            write_report(run.path)
        archive.interrupted |= interrupt.asked()
    return archive


def _illustrate(
    collect: Collector, run: Run, archive: Archive, played: CrossPlay | None, view: Display
) -> None:
    """Cross-play, diversity and the pictures of a finished run; existing results are not
    recomputed."""
    env = collect.env
    if played is None and env.spec.agents == 2:
        view.say("playing every strategy with every other one")
        episodes = usual_episodes(collect, len(archive), run.config.judge.episodes)
        played = cross_play(collect, archive, episodes, run.config.seed)
        run.save_cross_play(played)
    novel = [strategy for strategy in archive if strategy.status == "novel"]
    # The score compares actions in single states, which do not determine those of a policy with
    # memory.
    comparable = not any(strategy.policy.recurrent for strategy in novel)
    if len(novel) > 1:
        authors = authors_diversity_of(collect, novel, run.config)
        states = run.visited(novel) if comparable else []
        run.save_diversity(diversity_of(novel, states) if states else authors, authors)
    finished = strategies_played(collect, archive, view.say)
    run.save_pictures(pictures(env, finished, played))
    try:
        run.save_pictures(
            decoration.files(env, "photographs", partial(env.photographs, finished), ".png")
        )
    except NoRendererError as error:
        view.say(str(error))


def _warn(text: str) -> None:
    warnings.warn(text, RspoWarning, stacklevel=4)


def compilation_cache() -> None:
    """Enable JAX's persistent compilation cache, unless the user already configured it."""
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    # A damaged entry or a full disk only costs some seconds of compiling.
    warnings.filterwarnings(
        "ignore", message="Error (reading|writing) persistent compilation cache entry"
    )
    with contextlib.suppress(OSError, RuntimeError):  # no home, or not writable: no cache
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rspo" / "xla"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
