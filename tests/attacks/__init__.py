"""Attacks by seed: few in CI, many with ``make attack N=10000``."""
