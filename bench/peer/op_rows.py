"""What families of peers share."""

import torch


def both_ways(ops):
    """A function that adds name and name_grad to ops: a forward of o.<which>, and its gradient for
    o.leaf_<which>."""
    def row(name, which, forward):
        def backward(o):
            x = getattr(o, "leaf_" + which)
            y = forward(o, x)
            return torch.autograd.grad(y, x, torch.ones_like(y))
        ops[name] = lambda o: forward(o, getattr(o, which))
        ops[name + "_grad"] = backward
    return row
