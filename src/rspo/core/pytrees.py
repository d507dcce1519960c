"""Records of arrays that JAX takes apart and puts together, and that act outside JAX as well."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**options: Any) -> Any:
    """A field that is not an array: part of the structure, and so of what is compiled."""
    return field(metadata={"static": True}, **options)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static, field))
def pytree(kind: type[T]) -> type[T]:
    """A frozen dataclass that is a pytree, for what acts on the host at every step.

    An `equinox.Module` does the same, but it wraps every method each time it is looked up, which
    for a small policy in NumPy takes several times as long as acting does.
    """
    return jax.tree_util.register_dataclass(dataclass(frozen=True, eq=False)(kind))
