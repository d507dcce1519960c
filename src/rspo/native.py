"""What was compiled when rspo was installed: where it is, and whether it is to be used."""

import ctypes
import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

AGAIN = "install rspo again, with --force-reinstall --no-deps --no-cache-dir"
_WANTED = True


def use(wanted: bool) -> None:
    """Whether compiled code is used from now on, where there is any, in all of this process."""
    global _WANTED
    _WANTED = wanted


def wanted() -> bool:
    return _WANTED


class Kept(list[Any]):
    """What must stay in memory as long as compiled code may read it."""

    def address(self, numbers: Any, kind: Any = np.float32) -> int | None:
        """Of these numbers as it reads them, kept from now on; None for None."""
        if numbers is None:
            return None
        self.append(np.ascontiguousarray(numbers, kind))
        return self[-1].ctypes.data


def library(name: str, records: Sequence[type[ctypes.Structure]]) -> Any:
    """A library by the name of its extension, which has to mean the same records. Where it is missing or another one,
    ImportError says what helps."""
    found = importlib.util.find_spec(f"rspo.{name}")
    if found is None or found.origin is None:
        raise ImportError(f"it was not compiled when rspo was installed; see that there is a C compiler, then {AGAIN}")
    try:
        opened = ctypes.CDLL(found.origin)
        same = list((ctypes.c_int * len(records)).in_dll(opened, "rspo_sizes")) == list(map(ctypes.sizeof, records))
        problem = None if same else "its records are others"
    except (OSError, ValueError) as error:
        problem = str(error)
    if problem:
        raise ImportError(f"what was compiled is not of this version ({problem}); {AGAIN}")
    return opened
