"""Roles of shapes that renderers draw alike; without JAX, for the report needs them too."""

STRIPS = ("ground", "plateau", "ramp", "cliff")
"""Of terrain: strips of a drawing's background, with flat ends."""
