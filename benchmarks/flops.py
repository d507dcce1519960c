"""The FLOPs of one rspo update: only its matrix products are counted (no tanh, no Adam, no
game)."""

FORMULA = """\
m(o)     = o h + h h (l - 1)            multiplications of the hidden layers, o inputs, h units, l layers
actor    = 2 (m(o) + h a)               FLOP of one forward pass for one sample, a actions
critic   = 2 (m(o) + h c)               the same, c value heads
backward = 2 forward - 2 o h            two products a layer; the first needs no gradient of its input
update   = B actor                      collecting B samples
         + R B actor                    their likelihood under R references
         + (B + N) critic               values of all samples, and of the N last observations
         + E B (3 actor + 3 critic - 4 o h)      E epochs, forward and backward"""


def update_flops(
    batch: int,
    episodes: int,
    epochs: int,
    references: int,
    inputs: int,
    hidden: int,
    layers: int,
    actions: int,
    heads: int,
) -> int:
    """FORMULA in Python."""
    body = inputs * hidden + hidden * hidden * (layers - 1)
    actor, critic = 2 * (body + hidden * actions), 2 * (body + hidden * heads)
    epoch = batch * (3 * actor + 3 * critic - 4 * inputs * hidden)
    return batch * actor * (1 + references) + (batch + episodes) * critic + epochs * epoch


def update_flops_of(env: str, references: int) -> int:
    """FLOPs of one update with the settings of `rspo discover ENV`."""
    from rspo.presets import preset
    from rspo.registry import make

    spec, config = make(env).spec, preset(env)
    ppo = config.ppo
    return update_flops(
        batch=ppo.batch * spec.agents,
        episodes=config.episodes(spec) * spec.agents,
        epochs=ppo.epochs,
        references=references,
        inputs=spec.obs_size,
        hidden=ppo.hidden,
        layers=ppo.layers,
        actions=spec.action_space.n,
        heads=len(config.method.channels(config.iterations)),
    )
