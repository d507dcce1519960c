"""The paper's formulas once more, in plain NumPy and float64: slow, loops, and nothing shared with
the library.

Also the random material they are tried on. Axes as in `rspo.core.types`: T time, N environments, A
agents, R references.
"""

import itertools

import jax
import numpy as np

from rspo.core.policies import GRU, MLP, Actor, Normalizer, Policy
from rspo.core.spaces import Discrete
from rspo.core.types import Trajectory, View
from rspo.methods.references import Measure, References
from rspo.search.evaluation import Evaluation


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def forward(mlp, x):
    """One input vector through tanh layers and a linear one."""
    x = np.asarray(x, np.float64)
    for layer, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
        x = np.asarray(weight, np.float64).T @ x + np.asarray(bias, np.float64)
        if layer < len(mlp.weights) - 1:
            x = np.tanh(x)
    return x


def gru_step(gru, h, x):
    """The memory after one input vector, and the output: reset, update and candidate one by one."""
    size = len(h)
    x = np.tanh(forward(gru.body, x))
    sigmoid = lambda z: 1 / (1 + np.exp(-z))
    inputs, memory, bias = (
        np.asarray(leaf, np.float64) for leaf in (gru.inputs, gru.memory, gru.bias)
    )
    part = lambda i: slice(i * size, (i + 1) * size)
    seen = lambda i: x @ inputs[:, part(i)] + bias[0, part(i)]
    known = lambda i: h @ memory[:, part(i)] + bias[1, part(i)]
    reset, update = sigmoid(seen(0) + known(0)), sigmoid(seen(1) + known(1))
    candidate = np.tanh(seen(2) + reset * known(2))
    h = update * h + (1 - update) * candidate
    return h, forward(gru.head, h)


def normalized(policy, obs):
    if policy.normalizer is None:
        return np.asarray(obs, np.float64)
    mean, variance = (
        np.asarray(v, np.float64) for v in (policy.normalizer.mean, policy.normalizer.variance)
    )
    return np.clip((obs - mean) / np.sqrt(variance + 1e-8), -10, 10)


def log_probs(policy, obs):
    """log pi(. | s) of one observation."""
    return log_softmax(forward(policy.actor.net, normalized(policy, obs)))


def values(policy, obs):
    return forward(policy.critic, normalized(policy, obs))


def step_nll(policy, trajectory, cap=None):
    """-log pi(a_t | s_t), at most `cap`, 0 on the steps that do not count: [T, N, A]."""
    policy, trajectory = jax.device_get((policy, trajectory))
    table = np.zeros(trajectory.action.shape)
    for t, n, a in np.ndindex(table.shape):
        if trajectory.counted[t, n, a]:
            nll = -log_probs(policy, trajectory.obs[t, n, a])[trajectory.action[t, n, a]]
            table[t, n, a] = nll if cap is None else min(nll, cap)
    return table


def episode_nll(steps, discount=1.0):
    """NLL(tau; pi) = sum_t discount^t -log pi(a_t | s_t): [N, A]."""
    return sum(discount**t * row for t, row in enumerate(steps))


def reward_error(model, trajectory, cap=None):
    """|f(s_t, a_t) - r_t|^2, at most `cap`, 0 on the steps that do not count: [T, N, A]."""
    table = np.zeros(trajectory.action.shape)
    for t, n, a in np.ndindex(table.shape):
        if trajectory.counted[t, n, a]:
            one_hot = np.eye(model.space.n)[trajectory.action[t, n, a]]
            predicted = forward(model.net, np.concatenate([trajectory.obs[t, n, a], one_hot]))[0]
            error = (predicted - trajectory.reward[t, n, a]) ** 2
            table[t, n, a] = error if cap is None else min(error, cap)
    return table


def score(method, reward, nll, error, threshold, discount=1.0):
    """The streams [T, N, A, C] of RSPO and their weights, one reference a list entry: step NLLs,
    step errors, delta_j.

    Streams: the task's, then for each kind of intrinsic reward (behaviour, reward) one, or one a
    reference.
    """
    reward = np.asarray(reward, np.float64)
    steps, episodes, agents = reward.shape
    phi_j = np.ones((episodes, agents, len(nll)))
    for j, delta in enumerate(threshold):
        phi_j[..., j] = episode_nll(nll[j], discount) >= delta
    kinds = [(lam, r) for lam, r in ((method.lambda_b, nll), (method.lambda_r, error)) if lam > 0]
    rewards, weights = [], []
    for t, n, a in np.ndindex(steps, episodes, agents):
        phi = phi_j[n, a].prod()
        gate = {
            "hard": 1 - phi_j[n, a],
            "smooth": 1 - phi_j.mean((0, 1)),
            "off": np.ones(len(nll)),
        }[method.switch]
        task, task_weight = reward[t, n, a], 1.0
        if method.switch != "off" and method.rejected == "zero":
            task = phi * task
        elif method.switch != "off":
            accepted = phi_j.prod(-1).mean()
            task_weight = phi / accepted if accepted > 0 else 0.0
        row, weight = [task], [task_weight]
        for lam, r in kinds:
            here = np.array([r[j][t, n, a] for j in range(len(nll))])
            if method.streams == "single":
                row[0] += lam * (gate * here).sum()
            elif method.streams == "grouped":
                row.append((gate * here).sum() / gate.sum() if gate.sum() > 0 else 0.0)
                weight.append(lam * gate.sum())
            else:
                row.extend(here)
                weight.extend(lam * gate)
        rewards.append(row)
        weights.append(weight)
    shape = (steps, episodes, agents, -1)
    return np.reshape(rewards, shape), np.reshape(weights, shape)


def paid_at_the_end(trajectory):
    """Every episode's rewards at its last step."""
    steps, episodes, agents = trajectory.reward.shape
    paid = np.zeros((steps, episodes, agents))
    for n, a in np.ndindex(episodes, agents):
        owed = 0.0
        for t in range(steps):
            if not trajectory.live[t, n]:
                break
            owed += trajectory.reward[t, n, a]
            cut = trajectory.truncated is not None and trajectory.truncated[t, n]
            if (
                trajectory.terminated[t, n]
                or cut
                or t == steps - 1
                or not trajectory.live[t + 1, n]
            ):
                paid[t, n, a], owed = owed, 0.0
    return paid


def gae(reward, value, last_value, terminated, gamma, lam):
    """A_t = sum_l (gamma lam)^l delta_{t+l} for one episode, by the definition: [T]."""
    steps = len(reward)
    following = [*value[1:], last_value]
    delta = [
        reward[t] + gamma * (0.0 if terminated[t] else following[t]) - value[t]
        for t in range(steps)
    ]
    advantage = np.zeros(steps)
    for t in range(steps):
        for later in range(t, steps):
            advantage[t] += (gamma * lam) ** (later - t) * delta[later]
            if terminated[later]:
                break
    return advantage


def random_mlp(rng, sizes, scale=1.0):
    """Sharper than a fresh network, so that likelihoods differ."""
    shapes = list(itertools.pairwise(sizes))
    weights = tuple((scale * rng.standard_normal(shape)).astype(np.float32) for shape in shapes)
    return MLP(weights, tuple(rng.standard_normal(shape[1]).astype(np.float32) for shape in shapes))


def random_gru(rng, sizes, scale=1.0):
    """One whose memory and gates matter: nothing in it is zero."""
    *layers, outputs = sizes
    width = layers[-1]
    drawn = lambda *shape: (scale * rng.standard_normal(shape)).astype(np.float32)
    return GRU(
        body=random_mlp(rng, layers, scale),
        inputs=drawn(width, 3 * width),
        memory=drawn(width, 3 * width),
        bias=drawn(2, 3 * width),
        head=random_mlp(rng, (width, outputs), scale),
    )


def random_policy(rng, obs=3, actions=4, channels=1, normalizer=True, memory=False):
    mean, variance = rng.standard_normal(obs), rng.uniform(0.2, 2.0, obs)
    norm = Normalizer(mean.astype(np.float32), variance.astype(np.float32), np.float32(100))
    net = random_gru if memory else random_mlp
    actor, critic = net(rng, (obs, 5, actions)), net(rng, (obs, 5, channels))
    return Policy(Actor(actor, None, Discrete(actions)), critic, norm if normalizer else None)


def random_trajectory(rng, steps=5, episodes=6, agents=2, obs=3, actions=4, padding=True):
    """Episodes of random length; after the end the observations go on changing, so that counting
    them shows."""
    length = rng.integers(1, steps + 1, episodes)
    ends = (length < steps) | (
        rng.random(episodes) < 0.5
    )  # at the horizon an episode may end or be cut off
    time = np.arange(steps)[:, None]
    live = time < length
    shape = (steps, episodes, agents)
    return Trajectory(
        view=View(rng.standard_normal((*shape, obs)).astype(np.float32)),
        action=rng.integers(0, actions, shape).astype(np.int32),
        log_prob=-rng.exponential(size=shape).astype(np.float32),
        reward=np.where(live[..., None], rng.standard_normal(shape), 0.0).astype(np.float32),
        terminated=(time >= length - 1) & ends,
        live=live,
        counted=np.repeat((np.ones_like(live) if padding else live)[..., None], agents, axis=-1),
        last=View(rng.standard_normal((episodes, agents, obs)).astype(np.float32)),
    )


def between(rng, nll):
    """A threshold that accepts all, none or some of the episodes, and is not on the edge of any."""
    ranked = np.sort(np.ravel(nll))
    gaps = [i for i in range(len(ranked) - 1) if ranked[i + 1] - ranked[i] > 0.01]
    inner = [(ranked[i] + ranked[i + 1]) / 2 for i in gaps]
    return np.float32(rng.choice([ranked[0] - 0.5, *inner, ranked[-1] + 0.5]))


def stack(trees, capacity):
    """Trees side by side on a new leading axis; the places beyond them hold noise, which nothing
    may see."""
    fill = jax.tree.map(lambda leaf: leaf + leaf.dtype.type(7), trees[0])
    trees = [*trees, *[fill] * (capacity - len(trees))]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def references(policies, threshold, capacity, kept=None, memory=(), measure=None, returns=()):
    """References to the first `kept` of the policies."""
    means = np.full(capacity, 1e9, np.float32)
    means[: len(returns)] = returns
    delta = np.full(capacity, 1e9, np.float32)
    delta[: len(threshold)] = threshold
    return References(
        policies=stack(policies, capacity),
        threshold=delta,
        returns=means,
        memory=stack(memory, capacity) if memory else (),
        mask=np.arange(capacity) < (len(policies) if kept is None else kept),
        measure=measure or Measure(),
    )


def evaluation(value, name=None, clear=True, accepted_by=()):
    """What fresh episodes might say about a policy."""
    return Evaluation(
        episodes=8,
        return_mean=value,
        return_std=0.0,
        greedy_return_mean=99.0,  # decides nothing
        greedy_return_std=0.0,
        accepted=0.0,
        accepted_by=accepted_by,
        distance=(),
        threshold=(),
        descriptor=name,
        clear=clear and name is not None,
    )
