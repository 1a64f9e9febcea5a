"""The moral-questions process: panels of people with known values answer ethical scenarios."""
