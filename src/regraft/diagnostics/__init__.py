"""Do the premises of the method look satisfied? Checks of data, each with a verdict in words."""
