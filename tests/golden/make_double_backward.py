"""Prints the numbers of tests/autograd/double_backward_test.cpp, with PyTorch 2.15."""
import torch



def penalised(scale, autocast):
    """The parameters' gradients of loss + norm of its gradients; the whole scaled by `scale`."""
    x = torch.tensor([[0.5, -1], [0.25, 2]])
    w1 = torch.tensor([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]], requires_grad=True)
    b1 = torch.tensor([0.1, 0.2, -0.3], requires_grad=True)
    w2 = torch.tensor([[0.7, -0.8, 0.9]], requires_grad=True)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        y = torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(x, w1, b1)), w2)
        loss = (y.float() - 1).square().mean()
    gradients = torch.autograd.grad(loss * scale, [w1, b1, w2], create_graph=True)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        penalty = sum((g / scale).square().sum() for g in gradients).sqrt()
    ((loss + penalty) * scale).backward()
    print("penalty", penalty.item())
    for name, p in ("w1", w1), ("b1", b1), ("w2", w2):
        print(name, [float(f"{v:.7g}") for v in (p.grad / scale).flatten().tolist()])


penalised(1, False)
penalised(1024, True)
