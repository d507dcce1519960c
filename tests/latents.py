"""Random episodes that were given latents, and episodes that follow one another."""

import dataclasses

import numpy as np

import plain

LATENTS = 3


def restarting(rng, steps=6, episodes=4):
    """Episodes that follow one another in a column."""
    data = plain.random_trajectory(rng, steps=steps, episodes=episodes, padding=False)
    live = np.ones((steps, episodes), bool)
    return dataclasses.replace(
        data,
        terminated=rng.random((steps, episodes)) < 0.3,
        live=live,
        counted=np.ones_like(data.counted),
        reward=rng.standard_normal(data.reward.shape).astype(np.float32),
    )


def with_latents(rng, data):
    """Each column's latent, as its agents see it, and as numbers."""
    which = rng.integers(0, LATENTS, data.reward.shape[1])
    shape = (*data.reward.shape, LATENTS)
    latent = np.broadcast_to(np.eye(LATENTS, dtype=np.float32)[which][:, None], shape)
    return dataclasses.replace(data, view=data.view._replace(latent=latent)), which


def pieces(data):
    """Of every column: the ranges of steps of its episodes."""
    steps, episodes = data.terminated.shape
    for n in range(episodes):
        starts = [t for t in range(steps) if data.starts[t, n]]
        yield from ((n, a, b) for a, b in zip(starts, [*starts[1:], steps], strict=True))
