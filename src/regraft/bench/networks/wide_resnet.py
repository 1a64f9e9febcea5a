"""Wide ResNet 16-2 (Zagoruyko and Komodakis 2016), DomainBed's network for 32 x 32 pixels."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

_DEPTH, _WIDTHS = 2, (16, 32, 64, 128)  # blocks a stage; channels of the stem and the stages
_POOLED = 8  # pixels on a side, all that is left of 32


class WideBlock(nn.Module):
    """Two convolutions, each after normalization and ReLU, added to their input."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(n_in), nn.BatchNorm2d(n_out)
        self.conv1 = nn.Conv2d(n_in, n_out, 3, padding=1)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, stride, padding=1)
        is_same = stride == 1 and n_in == n_out
        self.shortcut = nn.Sequential(*([] if is_same else [nn.Conv2d(n_in, n_out, 1, stride)]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of both ways."""
        inner = self.conv1(functional.relu(self.bn1(x)))
        long: Tensor = self.conv2(functional.relu(self.bn2(inner)))
        short: Tensor = self.shortcut(x)
        return long + short


class WideResNet(nn.Module):
    """Network from images (b, c, 32, 32) to features (b, 128).

    Its parameters have DomainBed's names.
    """

    n_features = _WIDTHS[-1]

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        stem, first, second, third = _WIDTHS
        self.conv1 = nn.Conv2d(n_channels, stem, 3, padding=1)
        self.layer1 = _stage(stem, first, 1)
        self.layer2 = _stage(first, second, 2)
        self.layer3 = _stage(second, third, 2)
        self.bn1 = nn.BatchNorm2d(third, momentum=0.9)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of ``x``."""
        maps = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return functional.avg_pool2d(functional.relu(self.bn1(maps)), _POOLED).flatten(1)


def _stage(n_in: int, n_out: int, stride: int) -> nn.Sequential:
    rest = (WideBlock(n_out, n_out, 1) for _ in range(_DEPTH - 1))
    return nn.Sequential(WideBlock(n_in, n_out, stride), *rest)
