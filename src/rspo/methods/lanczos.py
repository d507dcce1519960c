"""Eigenvectors of a matrix from matrix-vector products alone (Lanczos, 1950)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

EXHAUSTED = 1e-5  # a shorter new direction is rounding error: the Krylov space is exhausted


class Spectrum(NamedTuple):
    """Approximate eigenpairs, the largest value first."""

    values: Array  # [m]
    vectors: Array  # [m, d] of unit length; 0 where there are fewer than m
    overlap: Array  # [m] of each vector with the start


def lanczos(product: Callable[[Array], Array], start: Array, size: int) -> Spectrum:
    """Eigenpairs of a symmetric matrix [d, d] from `size` products with vectors [d]. Every new
    vector is orthogonalised against all previous ones, which keeps the pairs distinct in single
    precision."""

    def step(basis: Array, i: Array) -> tuple[Array, tuple[Array, Array]]:
        vector = basis[i]
        image = product(vector)
        left = image - basis.T @ (basis @ image)
        left = left - basis.T @ (basis @ left)
        length = jnp.linalg.norm(left)
        following = jnp.where(length > EXHAUSTED, left / jnp.maximum(length, EXHAUSTED), 0.0)
        basis = jnp.where(jnp.arange(size)[:, None] == i + 1, following, basis)
        return basis, (vector @ image, jnp.where(length > EXHAUSTED, length, 0.0))

    first = start / jnp.maximum(jnp.linalg.norm(start), 1e-12)
    basis = jnp.zeros((size, start.shape[0])).at[0].set(first)
    basis, (diagonal, beside) = jax.lax.scan(step, basis, jnp.arange(size))
    small = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    values, inner = jnp.linalg.eigh(small)
    order = jnp.argsort(-values)
    vectors = (basis.T @ inner).T[order]
    return Spectrum(values[order], vectors, vectors @ first)
