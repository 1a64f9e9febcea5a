"""Checks of the method's premises: factorizations, diagnoses, placements."""
