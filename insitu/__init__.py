"""Active-intervention experiments on real programs."""

__version__ = "0.1.0"
