"""Products with permuted sources."""

import torch

from regraft.core.domain_scores import _shifted_products, arrange_rows, indicators


def test_shifted_columns_have_the_products_of_permuted_sources() -> None:
    random = torch.Generator().manual_seed(0)
    T = torch.randn((60, 4), dtype=torch.float64, generator=random)
    y, s = (torch.randint(high, (60,), generator=random) for high in (2, 3))
    rows, _ = arrange_rows(T, y, s, 2, 3)
    columns = indicators(rows, s)
    orders = [torch.cat(folds).flip(0) for folds in rows.cells]
    shifts = [torch.tensor([1, 5]), torch.tensor([3, 2])]
    found = _shifted_products(rows, columns, orders, shifts)
    for b in range(2):
        moved = torch.empty_like(columns)
        for order, shift in zip(orders, shifts, strict=True):
            moved[order] = columns[order.roll(int(shift[b]))]
        own = found[..., 3 * b : 3 * b + 3]
        torch.testing.assert_close(own, rows.products(moved), rtol=0, atol=1e-12)
