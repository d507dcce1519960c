"""The drawing of a skirmish: terrain, units, bars, shots, and strips of panels as SVG."""

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rspo.core.policies import uniform_policy
from rspo.core.types import Played
from rspo.envs.base import at
from rspo.envs.skirmish import Skirmish
from rspo.envs.skirmish.maps import MAPS
from rspo.report.page import _legend
from rspo.rollout.collector import collector
from rspo.screen.draw import text
from rspo.search.recording import pack_scenes

COLOSSI = Skirmish("2c_vs_64zg")


def started(env):
    return jax.device_get(env.reset(jnp.full(env.spec.reset_noise, 0.5))[0])


@pytest.mark.parametrize("name", MAPS)
def test_terrain_is_as_large_as_the_ground(name):
    """The strips of a role cover as much as there are cells of that kind."""
    env, cells = Skirmish(name), "".join(MAPS[name].ground)
    for kind, role in {".": "ground", "=": "plateau", "/": "ramp", "x": "cliff"}.items():
        strips = [shape for shape in env.backdrop() if shape.role == role]
        area = sum((shape.end[0] - shape.x) * 2 * shape.size for shape in strips) * 16**2
        assert area == pytest.approx(cells.count(kind))


@pytest.mark.slow
def test_units_bars_and_shots():
    state = started(COLOSSI)
    allies = state.allies._replace(
        hp=np.array([100.0, 0.0]), shield=np.array([0.0, 0.0]), shot=np.array([3, -1])
    )
    hp = np.array(state.enemies.hp)
    hp[5] = 0.0
    state = state._replace(allies=allies, enemies=state.enemies._replace(hp=hp))
    scene = COLOSSI.scene(state)
    there = lambda role: [s for s in scene if s.role == role and np.isfinite(s.x)]
    assert len(there("agent")) == 2  # the dead one is a dot
    assert len(there("enemy")) == 63
    assert len(there("shield")) == 0
    (health,) = there("health")
    assert health.end[0] - health.x == pytest.approx(0.5 * 2.0 / 16)  # half of its hit points
    (shot,) = there("shot")
    target = (state.enemies.x[3] - 16) / 16, (state.enemies.y[3] - 16) / 16
    assert shot.end == pytest.approx(target)
    (splash,) = there("splash")
    along = np.array([shot.end[0] - shot.x, shot.end[1] - shot.y])
    across = np.array([splash.end[0] - splash.x, splash.end[1] - splash.y])
    assert along @ across == pytest.approx(0.0, abs=1e-6)
    assert np.hypot(*across) == pytest.approx(2.5 / 16)
    assert len(COLOSSI.scene(started(COLOSSI))) == len(scene)  # each keeps its place


def test_a_recording_holds_whoever_is_there():
    arrays, kinds = pack_scenes([COLOSSI.scene(started(COLOSSI))])
    roles = [kinds[kind - 1][0] for kind in arrays["kind"][0] if kind]
    assert roles.count("agent") == 2
    assert roles.count("enemy") == 64
    assert "shot" not in roles


def test_the_terminal_shows_cliff_ramps_and_units():
    shown = text(COLOSSI.scene(started(COLOSSI)), COLOSSI.backdrop())
    for glyph in ".=/xe@":
        assert glyph in shown
    assert "x" not in text(COLOSSI.scene(started(COLOSSI)))


def test_the_report_says_what_is_drawn():
    """Everything with a meaning of its own, of units and terrain alike."""
    state = started(COLOSSI)
    shooting = state._replace(allies=state.allies._replace(shot=np.array([0, -1])))
    kinds = [(shape.role, "") for shape in COLOSSI.scene(shooting)]
    backdrop = [(shape.role,) for shape in COLOSSI.backdrop()]
    episodes = {"episodes": [{"kinds": kinds}], "backdrop": backdrop}
    said = _legend(SimpleNamespace(strategies=[SimpleNamespace(episodes=episodes)]))
    for word in ("agents", "enemies", "hit points", "shields", "shots", "burn", "cliff"):
        assert word in said


@pytest.mark.slow
def test_pictures_are_svg_with_a_panel_for_each_part():
    env = Skirmish("3m")
    play = jax.jit(
        lambda key: collector(env)(uniform_policy(9), 4, key, padding="drop", record=True)
    )
    played = jax.device_get(play(jax.random.key(0)))
    found = env.pictures({"0 <em>": Played("victory", {}, lambda: played)})
    (picture,) = found.values()
    assert list(found) == ["000-tracks.svg"]
    words = [element.text for element in ET.fromstring(picture).iter() if element.text]
    assert sum("steps" in word for word in words) == 4
    assert "0 <em>" in words
    assert any("dots: where it fired" in word for word in words)
    assert at(played.state, 0, 0).allies.x.shape == (3,)
