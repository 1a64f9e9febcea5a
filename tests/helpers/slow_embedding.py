"""Embeds the images in a folder, slowly: a process to be killed."""

import sys

from regraft.encoders.embedding import embed_images
from tests.helpers.toy_encoders import ToyImages

if __name__ == "__main__":
    embed_images(sys.argv[1], ToyImages(delay=0.3), sys.argv[2])
