"""How to make an environment of another library with the render mode `rgb_array`."""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

MODE = "rgb_array"
Way = Callable[[], Any]


def can_render(probe: Any, factory: Callable[..., Any], render: Way | None) -> Way | None:
    """A factory of an environment that renders; None if there is none. `render` is tried last: it
    may lack what `factory` adds."""
    if getattr(probe, "render_mode", None) == MODE:
        return factory
    if MODE not in ((getattr(probe, "metadata", None) or {}).get("render_modes") or ()):
        return None
    if _takes_mode(factory):
        return lambda: factory(render_mode=MODE)
    return render


def _takes_mode(factory: Callable[..., Any]) -> bool:
    try:
        return "render_mode" in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # for callables not written in Python
        return False


def without_greeting() -> None:
    """Suppress pygame's greeting on import and SDL's warning about a missing screen, which is not
    needed."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
