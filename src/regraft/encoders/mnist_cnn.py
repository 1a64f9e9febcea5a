"""DomainBed's network for digits, which both the protocol and the encoders use."""

from __future__ import annotations

from torch import nn

N_FEATURES = 128
_GROUPS = 8


def mnist_cnn(n_channels: int = 2) -> nn.Sequential:
    """Make a network from images (b, n_channels, 28, 28) to features (b, ``N_FEATURES``).

    Four 3 x 3 convolutions, normalized after the ReLU, then the mean over the pixels. The initial
    weights are drawn from torch's global generator.
    """
    layers: list[nn.Module] = []
    widths = ((n_channels, 64, 1), (64, 128, 2), (128, 128, 1), (128, N_FEATURES, 1))
    for n_in, n_out, stride in widths:
        convolution = nn.Conv2d(n_in, n_out, kernel_size=3, stride=stride, padding=1)
        layers += [convolution, nn.ReLU(), nn.GroupNorm(_GROUPS, n_out)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
