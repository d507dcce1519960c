"""Planar robots played by compiled code: the physics bit for bit, the policy but for its rounding, and what happens
where there is no such code, or where it must stop."""

import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import product
import rspo
import rspo.envs.mujoco as robots
from product import results, same
from rspo import actor, api, compiled, compiled_ppo, manifest, native, parallel, rollout_host, store
from rspo.actor import Plain
from rspo.distributions import Noise
from rspo.envs.mujoco import ROBOTS, Mujoco, Planar
from rspo.errors import InputError
from rspo.play import Stopped
from rspo.policy import CLIP_OBS, GaussianMLP, Policy, init_mlp, init_policy, uniform_policy
from rspo.presets import preset
from rspo.rollout import collect
from rspo.run import Run
from rspo.search import search
from rspo.types import Box

PLANAR = [name for name, robot in ROBOTS.items() if not robot.whole_body]
KEY = jax.random.key(3)
MANY = 1500  # episodes: several seconds of play, if nobody stops it
SMALL = {"updates": 12, "batch": 1024, "minibatches": 4, "hidden": 8, "epochs": 1}  # still two threads learn
TINY = {"iterations": 1, "ppo": SMALL, "judge": {"episodes": 3}}


@pytest.fixture(autouse=True)
def compiled_code(tmp_path, monkeypatch):
    """Skip where there is none; of an older one nothing should be believed. The engine's log would be left where it is
    started."""
    monkeypatch.chdir(tmp_path)
    if why := compiled.why_not():
        product.lacking(why)
    product.newly_built("robot_player")


def lack(monkeypatch, why="there is no compiler [here]"):
    """As where rspo was installed without a compiler; or not, with None."""
    for code in (compiled, compiled_ppo):
        monkeypatch.setattr(code, "why_not", lambda: why)


@pytest.fixture
def lacking(monkeypatch):
    lack(monkeypatch)


@pytest.fixture(params=PLANAR)
def env(request):
    return Mujoco(request.param)


def policy_for(env, widths=(8, 8), normalize=True, seed=0):
    """Of any widths, with lively actions; some observations are clipped."""
    rng, spec = np.random.default_rng(seed), env.spec
    mlp = init_mlp((spec.obs_size, *widths, spec.action_space.n), 1.0, jax.random.key(seed))
    shaken = lambda leaf, by: leaf + jnp.asarray(rng.normal(0, by, leaf.shape), jnp.float32)  # noqa: E731
    biases = tuple(shaken(bias, 0.3) for bias in mlp.biases)
    deviations = shaken(jnp.full(spec.action_space.n, -0.5), 0.3)
    policy = init_policy(spec, 1, 8, 1, normalize, jax.random.key(seed))
    if normalize:
        variance = jnp.asarray(np.where(np.arange(spec.obs_size) % 3 == 0, 1e-4, rng.uniform(0.5, 2, spec.obs_size)))
        policy = eqx.tree_at(
            lambda p: (p.normalizer.mean, p.normalizer.variance),
            policy,
            (shaken(policy.normalizer.mean, 0.5), variance.astype(jnp.float32)),
        )
    return Policy(GaussianMLP(mlp.weights, biases, deviations, spec.action_space), policy.critic, policy.normalizer)


def played(env, episodes=5, policy=None, **settings):
    return collect(env, policy_for(env) if policy is None else policy, episodes, KEY, **settings)


def ensemble_of(env):
    return rollout_host._stage(env)._ensemble


def without_states(trajectory):
    return eqx.tree_at(lambda t: (t.state, t.start), trajectory, (None, None))


@pytest.fixture
def threads():
    """Those of this test that play robots."""
    every = lambda: {thread for thread in threading.enumerate() if thread.name.startswith("rspo-robots")}  # noqa: E731
    before = every()
    return lambda: every() - before


def until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# ---- what is played


def assert_replays(env, trajectory, seeds, padding):
    """The environment itself gives what was recorded, for the recorded actions; nothing is rounded otherwise."""
    episodes, seeds = len(seeds), seeds.copy()
    batch, live = env.batch(episodes), np.ones(episodes, bool)
    obs = np.asarray(batch.reset(np.arange(episodes), seeds), np.float32)
    assert same(trajectory.start, batch.state())
    actions = env.spec.action_space.to_env(trajectory.action)
    for t in range(env.spec.horizon):
        assert same(trajectory.obs[t], obs), f"at step {t}"
        assert same(trajectory.live[t], live)
        which, reward = np.flatnonzero(live), np.zeros((episodes, 1), np.float32)
        if which.size:
            step = batch.step(which, actions[t, which])
            obs[which], reward[which] = step.obs, step.reward
            live[which] = ~step.terminated
        assert same(trajectory.reward[t], reward), f"at step {t}"
        assert same(trajectory.terminated[t], ~live)
        assert same(jax.tree.map(lambda leaf, t=t: leaf[t], trajectory.state), batch.state())
        if padding == "restart" and (fallen := np.flatnonzero(~live)).size:
            seeds[fallen] += 1
            obs[fallen], live[fallen] = batch.reset(fallen, seeds[fallen]), True
    assert same(trajectory.last_obs, obs)
    assert not trajectory.truncated.any()


@pytest.mark.parametrize("padding", ["restart", "count"])
@pytest.mark.parametrize("greedy", [False, True])
def test_the_physics_is_the_environments_bit_for_bit(env, padding, greedy):
    trajectory = played(env, padding=padding, greedy=greedy, record=True)
    assert ensemble_of(env) is not None
    assert_replays(env, trajectory, rollout_host.episode_seeds(KEY, 5), padding)
    assert trajectory.terminated.any() == env.robot.can_fall
    assert np.abs(trajectory.action).max() > 1  # some are clipped


def test_so_it_is_when_a_simulation_blows_up(env, monkeypatch, capfd):
    """Some do; the engine then begins those anew by itself, in the midst of a step."""
    reset = Planar.reset

    def too_fast(self, which, seeds):
        obs = reset(self, which, seeds)
        self.qvel[which[seeds % 2 == 0]] = 1e12
        return obs

    monkeypatch.setattr(Planar, "reset", too_fast)
    monkeypatch.setattr(robots, "_SAID", set())
    trajectory, seeds = played(env, 6, padding="restart", record=True), rollout_host.episode_seeds(KEY, 6)
    assert 0 < (seeds % 2).sum() < 6
    assert_replays(env, trajectory, seeds, "restart")
    assert "Nan, Inf or huge value in QVEL" in capfd.readouterr().err


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("widths", [(7,), (33, 5), (1, 29, 13)])
def test_actions_are_the_policys(greedy, normalize, widths):
    env, seeds = Mujoco("walker2d"), rollout_host.episode_seeds(KEY, 3)
    policy = policy_for(env, widths, normalize)
    trajectory = played(env, 3, policy, greedy=greedy, padding="restart")
    noise = actor.draw(actor.noise_of(policy, (1, env.spec.obs_size)), env.spec.horizon, seeds, 3)
    act, wanted = actor.plain(policy).actor(greedy, noise), []
    for t, obs in enumerate(trajectory.obs):
        wanted.append(act(t, obs[:, 0]))
    np.testing.assert_allclose(trajectory.action[:, :, 0], wanted, rtol=1e-5, atol=1e-5)
    if normalize:
        clipped = np.abs(policy.normalized(trajectory.obs)) == CLIP_OBS
        assert 0.05 < clipped.mean() < 0.95
    if not greedy:
        np.testing.assert_allclose(noise.std(), 1, atol=0.05)


def test_its_hyperbolic_tangent_is_the_right_one():
    """As many hidden units as actions, each of which shows the tangent of a bias."""
    env, size = Mujoco("hopper"), 2000
    numbers = np.concatenate(
        [np.linspace(-12, 12, 16000), np.geomspace(1e-38, 30, 2000), [*np.zeros(1997), np.inf, -np.inf, -0.0]]
    ).astype(np.float32)
    spec = env.spec._replace(action_space=Box((-1.0,) * size, (1.0,) * size), horizon=1)
    players = compiled.Robots(spec, env._model, Planar(env, 1), [Planar(env, 1)])
    found = []
    for biases in numbers.reshape(-1, size):
        weights = (np.zeros((spec.obs_size, size), np.float32), np.eye(size, dtype=np.float32))
        plain = Plain(weights, (biases, np.zeros(size, np.float32)), np.zeros(size, np.float32), None, None)
        noise = Noise("normal", (1, size))
        finish = players.begin(plain, noise, np.array([5]), greedy=True, padding="count", record=False)
        found.append(finish().action.ravel())
    players.close()
    off = np.abs(np.concatenate(found).astype(np.float64) - np.tanh(numbers.astype(np.float64)))
    assert off.max() < 3e-7
    assert (off <= 6 * np.spacing(np.abs(np.tanh(numbers)))).all()  # as its comment says


# ---- whoever plays it


@pytest.mark.parametrize("episodes", [1, 2, 7])
@pytest.mark.parametrize("padding", ["restart", "count", "drop"])
def test_the_number_of_players_and_of_steps_at_a_time_change_no_bit(episodes, padding, monkeypatch):
    env, found = Mujoco("hopper"), []
    for players, steps, record in ((1, 64, True), (1, 64, False), (2, 64, False), (5, 7, True), (5, 10**6, False)):
        monkeypatch.setattr(parallel, "_PLAYERS", players)
        monkeypatch.setattr(compiled, "STEPS", steps)
        trajectory = played(env, episodes, padding=padding, record=record)
        assert ensemble_of(env).threads == players
        found.append(without_states(trajectory) if record else trajectory)
        rollout_host.leave(env)
    assert all(same(found[0], one) for one in found[1:])
    assert found[0].counted.all() == (padding != "drop")
    assert found[0].live.all() == (padding == "restart")


def test_it_agrees_with_the_player_in_numpy(env):
    """Both begin with the same bits; later their rounding leads them apart."""
    ours = played(env, padding="restart", record=True)
    rollout_host.leave(env)
    native.use(False)
    theirs = played(env, padding="restart", record=True)
    assert ensemble_of(env) is None
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for mine, its in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape)
    assert same((ours.obs[0], ours.start), (theirs.obs[0], theirs.start))
    for name in ("obs", "action", "reward", "terminated", "live"):
        mine, its = getattr(ours, name)[:12], getattr(theirs, name)[:12]
        np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-3, err_msg=name)
    assert not same(ours.action, theirs.action)


def test_batches_that_are_begun_at_once_are_played_one_after_another(env):
    policy, keys = policy_for(env), jax.random.split(KEY, 4)
    wanted = [collect(env, policy, 3, key) for key in keys]
    begun = [rollout_host.begin(env, policy, 3, key) for key in keys]
    del begun[1]  # nobody wants it
    for finish, one in zip(reversed(begun), (wanted[3], wanted[2], wanted[0]), strict=True):
        assert same(finish(), one)


def test_threads_may_ask_at_once(env):
    policy, keys = policy_for(env), list(jax.random.split(KEY, 6))
    wanted = [collect(env, policy, 3, key) for key in keys]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda key: collect(env, policy, 3, key), keys))
    assert all(same(one, other) for one, other in zip(found, wanted, strict=True))


def test_others_are_played_by_their_batches():
    for other in (Mujoco("hopper", fall="go on"), Mujoco("humanoid"), rspo.make("gym:CartPole-v1")):
        assert other.ensemble(2) is None
        assert not compiled.plays(other)
    assert not compiled.plays(rspo.make("four-goals-easy"))
    assert Mujoco("hopper").ensemble(2) is not None


def test_so_is_a_policy_that_is_not_ours():
    env = Mujoco("hopper")
    trajectory = played(env, policy=uniform_policy(env.spec.action_space.n, continuous=True))
    assert ensemble_of(env) is None
    assert np.abs(trajectory.action).max() <= 1


def test_so_is_an_heir_of_the_environment():
    """Whose rules only its batch knows."""

    class Paid(Planar):
        def reward(self, way, healthy, cost):
            return np.full_like(way, 7)

    class Mine(Mujoco):
        def batch(self, size):
            return Paid(self, size)

    env = Mine("hopper")
    trajectory = played(env, padding="count")
    assert not compiled.plays(env)
    assert (trajectory.reward[trajectory.live] == 7).all()


# ---- how it ends


def test_an_interrupt_ends_it_at_once():
    env = Mujoco("half-cheetah")
    before = played(env)
    finish = rollout_host.begin(env, policy_for(env), MANY, KEY)
    began = time.monotonic()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), 2))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        finish()
    assert same(played(env), before)  # which waits for whoever still plays
    assert time.monotonic() - began < 3


def test_to_let_go_of_it_while_it_plays_ends_its_threads(threads):
    env = Mujoco("half-cheetah")
    finish, queued = (rollout_host.begin(env, policy_for(env), MANY, KEY) for _ in range(2))
    assert threads()
    began = time.monotonic()
    rollout_host.leave(env)
    assert time.monotonic() - began < 3
    assert not threads()
    for wait in (finish, queued):
        with pytest.raises(Stopped):
            wait()
    assert played(env).live.any()  # by others


def test_a_program_may_end_while_it_plays():
    """Batches that nobody waits for, in an environment that nobody has let go of: it neither hangs nor crashes."""
    code = """
        import jax, sys, time
        from rspo import rollout_host
        from test_compiled import KEY, Mujoco, policy_for
        env = Mujoco("hopper")
        begun = [rollout_host.begin(env, policy_for(env), 20, KEY) for _ in range(2)]
        sys.exit(5)
    """
    assert _in_a_process(code).returncode == 5


def test_a_failure_of_the_engines_is_said_once(env):
    env._model.opt.integrator = 99
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^MuJoCo failed: .*integrator"):
            played(env)
    env._model.opt.integrator = 0
    rollout_host.leave(env)
    assert played(env).live.any()


def test_and_soon_whoever_failed(monkeypatch):
    env, play, count = Mujoco("half-cheetah"), compiled._Simulation.play, iter(range(10**6))

    def rigged(self, *arguments):
        if next(count) == 9:
            raise RuntimeError("MuJoCo failed: it is broken")
        play(self, *arguments)

    monkeypatch.setattr(parallel, "_PLAYERS", 3)
    monkeypatch.setattr(compiled._Simulation, "play", rigged)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="it is broken"):
        played(env, MANY)
    assert time.monotonic() - began < 4
    assert played(env).live.any()


def test_a_robot_that_cannot_be_simulated_is_said(env, monkeypatch):
    def refuse(model, count, config, said, size):
        said.value = b"out of memory"

    monkeypatch.setattr(compiled._engine(), "mjb_makeBatch", refuse)
    with pytest.raises(rspo.errors.RspoError, match="cannot simulate this robot: out of memory"):
        played(env)


def test_numbers_that_are_not_finite_are_refused(env, monkeypatch, capfd):
    reset = Planar.reset
    monkeypatch.setattr(
        Planar, "reset", lambda *given: np.where(np.arange(env.spec.obs_size) == 3, np.nan, reset(*given))
    )
    with pytest.raises(InputError, match=f"{env.name} gave an observation that is not finite"):
        played(env)
    capfd.readouterr()


def test_a_warning_of_the_engines_is_said_once_and_breaks_nothing():
    """It calls a function of Python's back, from several threads that have let go of Python's lock."""
    code = """
        from rspo import parallel, rollout_host
        from rspo.envs.mujoco import Planar
        from test_compiled import Mujoco, ensemble_of, played

        def too_fast(self, which, seeds, reset=Planar.reset):
            obs = reset(self, which, seeds)
            self.qvel[which] = 1e12
            return obs

        Planar.reset, parallel._PLAYERS, env = too_fast, 3, Mujoco("hopper")
        for _ in range(5):
            assert played(env, 12, padding="restart").live.all()
            assert ensemble_of(env).threads == 3
            rollout_host.leave(env)
        print("fine")
    """
    done = _in_a_process(code)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    assert done.stderr.count("MuJoCo warns: Nan, Inf or huge value in QVEL") == 1
    assert not Path("MUJOCO_LOG.TXT").exists()


def _in_a_process(code):
    paths = {"PYTHONPATH": os.pathsep.join([str(product.HERE), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=product.environment(**paths))


@pytest.mark.parametrize("let_go", [True, False])
def test_nothing_is_left_of_it(let_go, threads):
    env = Mujoco("hopper")
    played(env)
    assert threads()
    kept = [weakref.ref(each) for each in (env, ensemble_of(env), ensemble_of(env).field)]
    if let_go:
        rollout_host.leave(env)
        assert not threads()
    del env
    gc.collect()
    until(lambda: not threads())
    assert [ref() for ref in kept] == [None] * 3


def test_what_was_compiled_for_other_records_is_not_used(monkeypatch):
    """As after an update of the files of a package that was not compiled again."""

    class More(compiled._Robot):
        _fields_ = (("more", compiled._Int * 2),)

    for cached in (compiled._player, compiled.why_not):
        cached.cache_clear()
    monkeypatch.setattr(compiled, "_Robot", More)
    try:
        assert "not of this version" in compiled.why_not()
        assert not compiled.plays(Mujoco("hopper"))
    finally:
        for cached in (compiled._player, compiled.why_not):
            cached.cache_clear()


@pytest.mark.parametrize("wrong", ["first", "inner", "last", "mean"])
def test_a_policy_of_other_sizes_is_refused_before_anything_is_read(wrong):
    env = Mujoco("hopper")
    plain = actor.plain(policy_for(env))
    weights, biases, row = list(plain.weights), list(plain.biases), np.zeros(env.spec.obs_size + 1, np.float32)
    if wrong == "first":
        weights[0] = np.concatenate([weights[0], weights[0]])
    elif wrong == "inner":
        biases[0] = biases[0][:-1]
    elif wrong == "last":
        weights[-1], biases[-1] = weights[-1][:, :1], biases[-1][:1]
    plain = plain._replace(weights=weights, biases=biases, mean=row if wrong == "mean" else plain.mean)
    noise = Noise("normal", (1, env.spec.action_space.n))
    players = env.ensemble(1)
    with pytest.raises(ValueError, match="cannot play: 11 numbers are seen, 3 chosen"):
        players.begin(plain, noise, np.array([5]), greedy=True, padding="count", record=False)
    players.close()


# ---- runs


@pytest.fixture
def unpainted(monkeypatch):
    """No pictures: they take longer than these runs."""
    monkeypatch.setattr(api, "_illustrate", lambda *arguments: None)


def begun(folder, monkeypatch):
    """A run that is interrupted after its first ten updates."""

    def interrupted(*arguments):
        for event in search(*arguments):
            yield event
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(api, "search", interrupted)
        assert rspo.discover("hopper", out=folder, quiet=True, **TINY).interrupted
    assert (folder / "checkpoint.safetensors").exists()
    return folder


def record_of(folder):
    return json.loads((folder / "run.json").read_bytes())


def test_a_run_goes_on_as_it_began(tmp_path, monkeypatch, unpainted):
    """With compiled code or without, whatever there is by then; and is played anew so, to the same numbers."""
    found = []
    for there in (True, False):
        whole, folder = tmp_path / f"whole-{there}", tmp_path / f"begun-{there}"
        with monkeypatch.context() as patch:
            if not there:
                lack(patch)
            archive = rspo.discover("hopper", out=whole, quiet=True, **TINY)
            begun(folder, monkeypatch)
        assert record_of(folder)["compiled"] is record_of(whole)["compiled"] is there
        native.use(not there)  # as after another run
        rspo.resume(folder, quiet=True)
        assert results(folder) == results(whole)
        native.use(not there)
        assert [s.evaluation for s in rspo.evaluate(folder)] == [s.evaluation for s in archive]
        found.append(results(whole))
    assert found[0] != found[1]


def test_a_new_run_is_compiled_whatever_the_last_one_was(tmp_path, monkeypatch, unpainted):
    native.use(False)
    assert record_of(begun(tmp_path / "run", monkeypatch))["compiled"] is True


def test_what_cannot_go_on_so_is_warned_of(tmp_path, monkeypatch, unpainted, lacking, capsys):
    with monkeypatch.context() as patch:
        lack(patch, None)
        folder = begun(tmp_path / "run", monkeypatch)
    said = r"begun with compiled code and goes on without \(there is no compiler"
    with pytest.warns(UserWarning, match=said):
        rspo.resume(folder)
    assert "compil" not in capsys.readouterr().err  # not twice
    assert len(rspo.load(folder)) == 1
    with pytest.warns(UserWarning, match=said):
        rspo.evaluate(folder)
    monkeypatch.setattr(compiled, "why_not", lambda: None)
    rspo.evaluate(folder)  # which learns nothing, and warns of nothing


def test_a_folder_of_before_was_not_compiled(tmp_path):
    env = Mujoco("hopper")
    folder = Run.create(tmp_path / "run", preset("hopper", "rspo", env), env.spec, compiled=True).path
    assert Run.open(folder).compiled is True
    with product.rewritten(folder / "run.json") as record:
        del record["compiled"]
    assert Run.open(folder).compiled is False
    own = [record[name] for name in ("config", "spec", "devices", "players")]
    assert manifest.identity(record) == store.sha256(json.dumps(own).encode())


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("name", ["hopper", "four-goals-easy", "humanoid"])
def test_that_it_is_missing_is_said_in_one_line(name, quiet, monkeypatch, lacking, capsys):
    monkeypatch.setattr(api, "search", lambda *arguments: iter(()))
    rspo.discover(name, quiet=quiet, iterations=1)
    lines = [line for line in capsys.readouterr().err.splitlines() if "compil" in line]
    wanted = "going on without compiled code, which takes longer: there is no compiler [here]"
    assert lines == ([] if name == "four-goals-easy" or quiet else [wanted])


def test_nothing_is_said_where_it_is_there(monkeypatch, capsys):
    monkeypatch.setattr(api, "search", lambda *arguments: iter(()))
    rspo.discover("hopper", iterations=1)
    assert "compil" not in capsys.readouterr().err


def test_other_runs_load_no_engine():
    code = """
        import sys
        import rspo
        from rspo import api, compiled
        api.search = lambda *arguments: iter(())
        rspo.discover("four-goals-easy", iterations=1, quiet=True, out="run")
        api.Run.open(api.Path("run"))
        print(*{"mujoco", "rspo.compiled"} & set(sys.modules))
    """
    done = _in_a_process(code)
    assert (done.returncode, done.stdout) == (0, "rspo.compiled\n"), done.stderr
    assert record_of(Path("run"))["compiled"] is False
