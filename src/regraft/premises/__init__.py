"""Do the premises of the method hold? Factorizations, diagnoses, placements."""
