"""The method on tensors: heads, plausible targets, the game and its certificate."""
