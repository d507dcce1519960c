"""Stable-Baselines3's PPO with rspo's settings."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from rspo.learn import ppo


def same_ppo(ours: ppo.PPO, games: VecEnv) -> PPO:
    """Same network, batch, minibatches, epochs and loss, on these environments."""
    width = [ours.hidden] * ours.layers
    return PPO(
        "MlpPolicy",
        games,
        learning_rate=lambda left: ours.learning_rate * left,
        n_steps=ours.batch // games.num_envs,
        batch_size=ours.batch // ours.minibatches,
        n_epochs=ours.epochs,
        gamma=ours.gamma,
        gae_lambda=ours.gae_lambda,
        clip_range=ours.clip,
        ent_coef=ours.entropy_coefficient,
        vf_coef=ours.value_coefficient,
        max_grad_norm=ours.gradient_clip,
        policy_kwargs={
            "net_arch": {"pi": width, "vf": width},
            "activation_fn": torch.nn.Tanh,
            "optimizer_kwargs": {"betas": (ours.momentum, 0.999), "eps": 1e-5},
        },
        seed=0,
        device="cpu",
    )
