"""Make `rliable.json`: what rliable 1.2.0 says of a few tables of scores [runs, tasks].

    python -m venv rliable-venv && rliable-venv/bin/pip install 'rliable==1.2.0' 'pandas<3' 'arch<7' 'numpy<2'
    rliable-venv/bin/python tests/bench/rliable_golden.py

It needs an environment of its own: rliable cannot be imported beside pandas 3.
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

RESAMPLES = 20_000
THRESHOLDS = np.linspace(-1, 3, 9)


def main() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(5, 3)), rng.exponential(size=(10, 4)), rng.uniform(size=(3, 1))]
    told = []
    for scores in tables:
        by_name = {"method": scores}
        point, ends = library.get_interval_estimates(
            by_name,
            lambda x: np.array([metrics.aggregate_iqm(x)]),
            reps=RESAMPLES,
            random_state=np.random.RandomState(0),
        )
        profile, _ = library.create_performance_profile(by_name, THRESHOLDS, reps=2)
        low, high = ends["method"][:, 0]
        told.append(
            {
                "iqm": float(point["method"][0]),
                "low": float(low),
                "high": float(high),
                "profile": profile["method"].tolist(),
            }
        )
    golden = {
        "resamples": RESAMPLES,
        "thresholds": THRESHOLDS.tolist(),
        "scores": [scores.tolist() for scores in tables],
        "rliable": told,
    }
    path = Path(__file__).with_name("rliable.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
