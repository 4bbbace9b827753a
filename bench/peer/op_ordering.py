"""The peer of bench/ops/op_ordering.c. hod's orders are stable, and so are these."""

import torch


class Operands:
    def __init__(self, size):
        rows, n = ((8, 100), (64, 1000), (256, 4096))[size]
        self.x = torch.rand(rows, n) * 2 - 1
        self.line = self.x.flatten()
        self.sorted = (torch.rand(n) * 2 - 1).sort().values
        self.values = torch.rand(n) * 2 - 1
        self.labels = torch.randint(80, (rows * n,))
        self.flags = self.x > 0.5
        self.counts = torch.randint(4, (rows,))
        self.weights = torch.rand(rows * n)


OPS = {
    "sort_rows": lambda o: torch.sort(o.x, dim=1, stable=True),
    "sort_columns": lambda o: torch.sort(o.x, dim=0, descending=True, stable=True),
    "sort_line": lambda o: torch.sort(o.line, dim=0, stable=True),
    "argsort_rows": lambda o: torch.argsort(o.x, dim=1, descending=True, stable=True),
    "topk_5": lambda o: torch.topk(o.x, 5, 1),
    "topk_half": lambda o: torch.topk(o.x, o.x.shape[1] // 2, 1),
    "unique": lambda o: torch.unique(o.labels, return_inverse=True, return_counts=True),
    "unique_floats": lambda o: torch.unique(o.line, return_inverse=True, return_counts=True),
    "nonzero": lambda o: torch.nonzero(o.flags),
    "masked_select": lambda o: torch.masked_select(o.x, o.flags),
    "repeat_by": lambda o: torch.repeat_interleave(o.x, o.counts, 0),
    "bincount": lambda o: torch.bincount(o.labels, minlength=80),
    "bincount_weighted": lambda o: torch.bincount(o.labels, o.weights, minlength=80),
    "searchsorted": lambda o: torch.searchsorted(o.sorted, o.values, right=True),
    "searchsorted_many": lambda o: torch.searchsorted(o.sorted, o.x, right=True),
}
