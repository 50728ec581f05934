"""Golden numbers of the optimizers that compute with whole parameters: Adafactor, Muon, LBFGS.
Writes tests/golden/optim/whole.json.

    python tests/golden/make_whole_optim.py

PyTorch 2.15.0 (CPU) made the committed file.
"""
import json
import pathlib
from unittest import mock

import torch

OUT = pathlib.Path(__file__).parent / "optim"
STEPS = 6
SHAPES = {"body.bias": (4,), "body.weight": (3, 4), "cube": (2, 3, 2), "tall": (7, 2), "zero": (3,)}
# Parameters without a gradient in some steps.
ABSENT = {("body.bias", 0), ("tall", 2), ("tall", 3)}


def starting_point():
    generator = torch.Generator().manual_seed(11)
    values = {n: torch.randn(s, generator=generator) for n, s in SHAPES.items()}
    values["zero"].zero_()
    grads = [{n: torch.randn(s, generator=generator) * 3 ** (step % 3)
              for n, s in SHAPES.items() if (n, step) not in ABSENT} for step in range(STEPS)]
    return values, grads


VALUES, GRADS = starting_point()


def numbers(tensors):
    return {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}


def train(make, dtype, chosen):
    parameters = {n: VALUES[n].to(dtype).clone().requires_grad_() for n in chosen}
    optimizer = make(list(parameters.values()))
    for grads in GRADS:
        for name, p in parameters.items():
            p.grad = grads[name].to(dtype).clone() if name in grads else None
        optimizer.step()
    return numbers(parameters)


def case(name, rule, ours, make, chosen):
    return {"case": name, "rule": rule, "options": ours, "f64": train(make, torch.float64, chosen),
            "f32": train(make, torch.float32, chosen)}


def adafactor(name, **options):
    ours = dict(options)
    if "eps" in ours:
        eps1, ours["eps2"] = ours.pop("eps")
        ours["eps1"] = eps1 or 0.0
    return case(name, "adafactor", ours, lambda p: torch.optim.Adafactor(p, **options), SHAPES)


def exact_zeropower(grad, coefficients, steps, eps):
    """torch's iterations in the gradient's own dtype."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


def muon(name, **options):
    """f64 with exact products, f32 with torch's, which are in bf16."""
    ours = dict(options)
    if "adjust_lr_fn" in ours:
        ours["adjust_lr_fn"] = ["original", "match_rms_adamw",
                                "spectral_unclamped"].index(ours["adjust_lr_fn"])
    if "ns_coefficients" in ours:
        ours["ns_a"], ours["ns_b"], ours["ns_c"] = ours.pop("ns_coefficients")
    matrices = ["body.weight", "tall"]
    made = case(name, "muon", ours, lambda p: torch.optim.Muon(p, **options), matrices)
    with mock.patch("torch.optim._muon._zeropower_via_newtonschulz", exact_zeropower):
        made["f64"] = train(lambda p: torch.optim.Muon(p, **options), torch.float64, matrices)
    return made


def rosenbrock(a, b):
    x = torch.cat([a, b])
    return (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def minimization(name, steps, sign=1, **options):
    """Values after each step, the losses that steps return, and the calls of the closure."""
    a = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([a, b], **options)
    calls, values, losses = [], [], []

    def closure():
        optimizer.zero_grad()
        loss = sign * rosenbrock(a, b)
        loss.backward()
        calls[-1] += 1
        return loss

    for _ in range(steps):
        calls.append(0)
        losses.append(optimizer.step(closure).item())
        values.append([*a.tolist(), *b.tolist()])
    ours = dict(options)
    ours["strong_wolfe"] = float(ours.pop("line_search_fn", None) == "strong_wolfe")
    return {"case": name, "sign": sign, "options": ours, "calls": calls, "values": values,
            "losses": losses}


def main():
    cases = [
        adafactor("adafactor"),
        adafactor("adafactor, decay, d", lr=0.1, weight_decay=0.3, d=2.0),
        adafactor("adafactor, eps, beta2_decay, maximize", lr=0.5, eps=(0.1, 0.5),
                  beta2_decay=-0.5, maximize=True),
        adafactor("adafactor, large rate", lr=3.0, eps=(None, 1e-2)),
        muon("muon"),
        muon("muon, no nesterov, decay", lr=0.1, nesterov=False, weight_decay=0.5),
        muon("muon, as adamw", lr=0.1, momentum=0.5, adjust_lr_fn="match_rms_adamw"),
        muon("muon, spectral", lr=0.1, adjust_lr_fn="spectral_unclamped", ns_steps=3,
             ns_coefficients=(2.0, -1.5, 0.5)),
    ]
    minimizations = [
        minimization("short steps", 4, lr=0.01, max_iter=5),
        minimization("a short history", 5, lr=0.5, max_iter=6, history_size=2),
        minimization("one iteration a step", 6, lr=0.02, max_iter=1),
        minimization("few evaluations", 4, lr=0.05, max_iter=20, max_eval=4),
        minimization("strong_wolfe", 4, max_iter=6, line_search_fn="strong_wolfe"),
        minimization("strong_wolfe, long", 2, line_search_fn="strong_wolfe"),
        minimization("strong_wolfe, few evaluations", 5, lr=2.0, max_iter=4, max_eval=3,
                     line_search_fn="strong_wolfe"),
        minimization("strong_wolfe, maximize", 3, sign=-1, maximize=True, max_iter=8,
                     history_size=3, line_search_fn="strong_wolfe"),
    ]
    whole = {"shapes": SHAPES, "values": numbers(VALUES), "grads": [numbers(g) for g in GRADS],
             "cases": cases, "minimizations": minimizations}
    (OUT / "whole.json").write_text(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main()
