"""Roles of shapes shared by all renderers; without JAX, because the report needs them too."""

STRIPS = ("ground", "plateau", "ramp", "cliff")
"""Terrain: strips of a drawing's background, with flat ends."""
