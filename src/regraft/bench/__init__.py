"""DomainBed's protocol on Colored MNIST: data, networks, seeds and what they are cached in."""
