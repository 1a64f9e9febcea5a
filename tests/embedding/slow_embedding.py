"""Embeds the images in a folder, slowly: a process to be killed."""

from __future__ import annotations

import sys

from toy_encoders import ToyImages

from regraft.embedding.run import embed_images

if __name__ == "__main__":
    embed_images(sys.argv[1], ToyImages(delay=0.3), sys.argv[2])
