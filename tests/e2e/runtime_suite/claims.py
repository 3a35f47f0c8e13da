"""All claims by their names."""

from . import containers, images, lives, surroundings
from .bench import CLAIMS

__all__ = ["CLAIMS", "containers", "images", "lives", "surroundings"]
