"""From images and texts to banks of features."""
